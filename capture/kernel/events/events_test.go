package events

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/whylate/whylate/evidence"
)

const head = `{"header":{"schema":"whylate.kernel/1","pid":7,"cpus":2,"start_ns":5,"probes":["sched"],"fields":["tid","cpu","out","on","off","queue","flags","nr"]}}` + "\n"

func TestWhatIsWrittenReadsBack(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{PID: 7, CPUs: 2, StartNS: 5, Kernel: "6.18", Arch: "amd64", Probes: []string{"sched"}}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	want := []Stretch{{TID: 8, CPU: 1, Out: 90, OnNS: 40, OffNS: 30, QueueNS: 10, Flags: Uninterruptible, NR: -1, Behind: 41}, {TID: 9, Out: 95, OnNS: 1, NR: 202}}
	for _, i := range []int{1, 0} { // events of several CPUs come out of order
		if room, err := w.Write(&want[i]); !room || err != nil {
			t.Fatal(room, err)
		}
	}
	calls := []Call{{Goroutine: 17, Func: 0, From: 20, To: 30}, {Goroutine: 18, Func: 1, From: 10, To: 40}, {Goroutine: 19, Func: 1, From: 50, To: 90, Open: true}}
	for _, i := range []int{2, 1, 0} {
		if room, err := w.WriteCall(&calls[i]); !room || err != nil {
			t.Fatal(room, err)
		}
	}
	burst := Burst{FromNS: 6, ToNS: 90, Hits: 12, HitNS: 500, Lost: 1, Short: true}
	after := After{EndNS: 99, Lost: 3, CPUNS: 4, Programs: []Program{{"sched_switch", 5, 6}}, Processes: []Process{{41, "store"}, {42, ""}},
		Missing: []Missing{{"clock", "no types"}}, Readings: &Readings{FromNS: 6, ToNS: 98, Calls: 3, NS: 30, MaxNS: 11, Short: true, Callers: []Caller{{2, Stack{"time.Now", "main.main"}}}},
		Cgo: &CgoCalls{Burst: burst, More: 3, Functions: []CFunction{{
			Name: "compress", Go: "main._Cfunc_compress", Calls: 2, NS: 9, MaxNS: 8, Histogram: Histogram{1, 0, 0, 1}, Goroutine: 5, Stack: Stack{"runtime.cgocall"}, Back: &Back{2, 4, 3},
		}}},
		Allocs: &Allocs{Burst: burst, Samples: 2, Bytes: 600, MaxSize: 500, Sites: []AllocSite{{2, 600, Stack{"main.fill"}}}},
		GC:     &Cycles{Burst: burst, N: 2, NS: 9, MaxNS: 8},
		Waits:  &Goroutines{Burst: burst, N: 2, NS: 9, MaxNS: 8, Histogram: Histogram{0, 2}, Goroutine: 6},
		TCP:    &Connections{FromNS: 6, ToNS: 98, Connections: []Connection{{"10.0.0.1:1", "10.0.0.2:2", 3, 4, 5, 6, []int64{7, 97}}}, More: 7, Others: 8, OtherResets: 10, Lost: 9},
		Func:   &Calls{Burst: burst, Functions: []string{"main.a", "main.b"}, Calls: 2, Skipped: 1, Unended: 3},
	}
	if err := w.Close(after); err != nil {
		t.Fatal(err)
	}
	r, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	after.Stretches = 2
	if !reflect.DeepEqual(r.Calls, calls) {
		t.Errorf("calls %+v, want %+v", r.Calls, calls)
	}
	if !reflect.DeepEqual(r.Stretches, want) || !reflect.DeepEqual(*r.After, after) || r.Header.PID != 7 || r.Header.Schema != Schema {
		t.Errorf("got %+v %+v %+v", r.Header, r.Stretches, r.After)
	}
}

func TestWritingStopsAtItsBound(t *testing.T) {
	var b bytes.Buffer
	const most = afterBytes + 4_000
	w, err := NewWriter(&b, Header{CPUs: 1}, most)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; n < most; n++ {
		if room, err := w.Write(&Stretch{TID: 1, Out: int64(n)}); err != nil {
			t.Fatal(err)
		} else if !room {
			break
		}
	}
	if err := w.Close(After{Full: true}); err != nil {
		t.Fatal(err)
	}
	if b.Len() > most {
		t.Errorf("%d bytes", b.Len())
	}
	if r, err := Read(&b); err != nil || len(r.Stretches) != n || n == 0 || !r.After.Full {
		t.Errorf("%d stretches written, read %+v, %v", n, r, err)
	}
}

func TestAHostileFileIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want error
	}{
		"empty":                      {"", evidence.ErrMalformed},
		"another file":               {`{"static":{}}` + "\n", evidence.ErrMalformed},
		"another version":            {strings.Replace(head, "kernel/1", "kernel/2", 1), evidence.ErrVersion},
		"no CPUs":                    {strings.Replace(head, `"cpus":2`, `"cpus":0`, 1), evidence.ErrMalformed},
		"other fields":               {strings.Replace(head, `"tid"`, `"x"`, 1), evidence.ErrMalformed},
		"negative time":              {head + "[1,0,-9,0,0,0,0,0]\n", evidence.ErrMalformed},
		"on before the beginning":    {head + "[1,0,9,10,0,0,0,0]\n", evidence.ErrMalformed},
		"off before the beginning":   {head + "[1,0,9,5,5,0,0,0]\n", evidence.ErrMalformed},
		"ready for longer than off":  {head + "[1,0,9,1,2,3,0,0]\n", evidence.ErrMalformed},
		"a number that overflows":    {head + "[1,0,99999999999999999999,1,2,3,0,0]\n", evidence.ErrMalformed},
		"too few numbers":            {head + "[1,0,9]\n", evidence.ErrMalformed},
		"no numbers":                 {head + "[]\n", evidence.ErrMalformed},
		"something behind the array": {head + "[1,0,9,1,2,1,0,0] 7\n", evidence.ErrMalformed},
		"a line behind the last one": {head + `{"after":{}}` + "\n[1,0,9,1,2,1,0,0]\n", evidence.ErrMalformed},
		"a negative reading":         {head + `{"after":{"clock":{"from_ns":1,"to_ns":2,"calls":-1}}}` + "\n", evidence.ErrMalformed},
		"readings that end before":   {head + `{"after":{"clock":{"from_ns":2,"to_ns":1}}}` + "\n", evidence.ErrMalformed},
		"a reading above their sum":  {head + `{"after":{"clock":{"from_ns":1,"to_ns":2,"calls":1,"ns":3,"max_ns":4}}}` + "\n", evidence.ErrMalformed},
		"a negative call of C":       {head + `{"after":{"cgo":{"from_ns":1,"to_ns":2,"functions":[{"calls":-1}]}}}` + "\n", evidence.ErrMalformed},
		"a burst that ends before":   {head + `{"after":{"gc":{"from_ns":2,"to_ns":1}}}` + "\n", evidence.ErrMalformed},
		"negative hits":              {head + `{"after":{"alloc":{"hits":-1}}}` + "\n", evidence.ErrMalformed},
		"a negative slot":            {head + `{"after":{"gosched":{"histogram":[0,-1]}}}` + "\n", evidence.ErrMalformed},
		"too many slots":             {head + `{"after":{"gosched":{"histogram":[0` + strings.Repeat(",0", 64) + `]}}}` + "\n", evidence.ErrTooLarge},
		"too many functions":         {head + `{"after":{"func":{"functions":["f"` + strings.Repeat(`,"f"`, MaxFunctions) + `]}}}` + "\n", evidence.ErrTooLarge},
		"too many frames":            {head + `{"after":{"clock":{"callers":[{"n":1,"stack":["f"` + strings.Repeat(`,"f"`, MaxFrames) + `]}]}}}` + "\n", evidence.ErrTooLarge},
		"a negative reset":           {head + `{"after":{"tcp":{"connections":[{"resets_got":-1}]}}}` + "\n", evidence.ErrMalformed},
		"a call that ends before":    {head + `{"call":[1,0,9,8]}` + "\n", evidence.ErrMalformed},
		"a call of no function":      {head + `{"call":[1,64,8,9]}` + "\n", evidence.ErrMalformed},
		"a call long ago":            {head + `{"call":[1,0,-9,9]}` + "\n", evidence.ErrMalformed},
		"a call in years":            {head + `{"call":[1,0,8,281474976710999]}` + "\n", evidence.ErrMalformed},
		"a call without an end":      {head + `{"call":[1,0,8]}` + "\n", evidence.ErrMalformed},
		"a call that is cut":         {head + `{"call":[1,0,8,9]` + "\n", evidence.ErrMalformed},
		"a call that is something":   {head + `{"call":7}` + "\n", evidence.ErrMalformed},
		"a negative count":           {head + `{"after":{"lost":-1}}` + "\n", evidence.ErrMalformed},
		"more than any recording":    {head + strings.Repeat("[1,0,9,1,2,1,0,0]\n", 100), evidence.ErrTooLarge},
		"a line without end":         {head + "[" + strings.Repeat("1,", maxLine), evidence.ErrTooLarge},
	} {
		most := int64(maxBytes)
		if name == "more than any recording" {
			most = 1000
		}
		if _, err := read(strings.NewReader(tc.file), most); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestACutFileGivesWhatPrecedesTheCut(t *testing.T) {
	whole := head + "[1,0,9,1,2,1,0,0]\n[1,0,19,1,9,1,0,0]\n"
	for n := len(head); n < len(whole); n++ {
		r, err := Read(strings.NewReader(whole[:n]))
		if err != nil || len(r.Stretches) != strings.Count(whole[len(head):n], "]") || r.After != nil {
			t.Fatalf("cut at %d: %+v, %v", n, r, err)
		}
	}
}

// Two CPUs. Thread 1 runs 100 to 200 on one, then 2 sleeps in a call until 250, is ready
// until 300 and runs to 400, and so on.
func TestATimeIsSplitByWhatTheThreadDid(t *testing.T) {
	r := New(Header{CPUs: 2}, nil, []Stretch{
		{TID: 1, Out: 200, OnNS: 100, NR: -1},
		{TID: 2, Out: 400, OnNS: 100, OffNS: 200, QueueNS: 50, NR: 0},
		{TID: 1, Out: 420, OnNS: 20, OffNS: 200, QueueNS: 200, Flags: Preempted | Throttled, NR: -1},
		{TID: 1, Out: 520, OnNS: 20, OffNS: 80, QueueNS: 30, Flags: Uninterruptible, NR: -1},
		{TID: 3, Out: 500, OnNS: 100, NR: -1},
		{TID: 4, Out: 700, OnNS: 50, OffNS: 100, QueueNS: 40, Flags: Throttled, NR: 202},
	})
	for _, tc := range []struct {
		name     string
		tid      int
		from, to int64
		want     [States]int64
	}{
		{"before anything is known", 1, 0, 50, [States]int64{Unknown: 50}},
		{"on a CPU", 1, 100, 200, [States]int64{OnCPU: 100}},
		{"its quota is used up", 1, 150, 410, [States]int64{OnCPU: 60, Stopped: 200}},
		{"in a call, then ready while nobody of the process runs", 2, 100, 400, [States]int64{Slept: 150, Queued: 50, OnCPU: 100}},
		{"a page, then ready while another thread has one of two CPUs", 1, 420, 520, [States]int64{Faulted: 50, Queued: 15, Crowded: 15, OnCPU: 20}},
		{"asleep, then woken under a quota that is used up", 4, 550, 700, [States]int64{Slept: 60, Stopped: 40, OnCPU: 50}},
		{"after the last", 1, 500, 600, [States]int64{OnCPU: 20, Unknown: 80}},
		{"a thread nobody knows", 9, 0, 10, [States]int64{Unknown: 10}},
		{"no time", 1, 150, 150, [States]int64{}},
	} {
		if got := r.Split(tc.tid, tc.from, tc.to); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Whatever a file says, the parts of a time add up to it, and none is negative.
func FuzzRead(f *testing.F) {
	f.Add([]byte(head+"[1,0,9,1,2,1,0,0]\n[1,1,19,8,2,1,2,-1]\n"+`{"after":{"end_ns":20}}`+"\n"), int64(0), int64(30))
	f.Add([]byte(head+`{"call":[1,0,8,9]}`+"\n"+`{"after":{"end_ns":20,"cgo":{"functions":[{"calls":1,"histogram":[1]}]},"func":{"functions":["f"]}}}`+"\n"), int64(0), int64(9))
	f.Add([]byte(head+"[1,0,9,1,2,1,0,0]\n[1,0,9,9,0,0,0,0]\n[2,0,8,3,4,4,1,-1"), int64(3), int64(4))
	f.Fuzz(func(t *testing.T, b []byte, from, to int64) {
		r, err := read(bytes.NewReader(b), 1<<16)
		if err != nil || from < 0 || to < from {
			return
		}
		for tid := range r.threads {
			var sum int64
			for state, d := range r.Split(tid, from, to) {
				if d < 0 {
					t.Errorf("%v: %d", State(state), d)
				}
				sum += d
			}
			if sum != to-from {
				t.Errorf("%d of %d", sum, to-from)
			}
		}
	})
}

func TestWhoWasToldOfTheNetworkFirst(t *testing.T) {
	r := New(Header{CPUs: 2, Arch: "amd64"}, nil, []Stretch{
		{TID: 1, Out: 900, OnNS: 100, OffNS: 700, QueueNS: 640, NR: 281},                      // told at 160, on at 800
		{TID: 2, Out: 950, OnNS: 10, OffNS: 500, QueueNS: 400, NR: 202},                       // woken by somebody
		{TID: 3, Out: 960, OnNS: 10, OffNS: 500, QueueNS: 500, Flags: Preempted, NR: 281},     // was made to leave
		{TID: 4, Out: 2000, OnNS: 10, OffNS: 1000, QueueNS: 100, NR: 281},                     // told at 1890, on at 1990
		{TID: 5, Out: 2000, OnNS: 20, OffNS: 900, QueueNS: 50, Flags: Uninterruptible, NR: 0}, // a device
	})
	for _, tc := range []struct {
		name  string
		at    int64
		tid   int
		ready int64
		ok    bool
	}{
		{"before it was told", 160, 0, 0, false},
		{"it waits for a CPU", 500, 1, 160, true},
		{"it has just got one", 805, 1, 160, true},
		{"it has had one for less than a part of the wait", 839, 1, 160, true},
		{"it has had one for longer", 841, 0, 0, false},
		{"another time", 1950, 4, 1890, true},
	} {
		tid, ready, ok := r.Polling(tc.at, 10, 16)
		if ok != tc.ok || ok && (tid != tc.tid || ready != tc.ready) {
			t.Errorf("%s: thread %d since %d, %v", tc.name, tid, ready, ok)
		}
	}
}

func TestSinceWhenAThreadWantedTheCPUThatItHas(t *testing.T) {
	r := New(Header{CPUs: 2}, nil, []Stretch{
		{TID: 1, Out: 200, OnNS: 100, OffNS: 60, QueueNS: 20, NR: 202},
		{TID: 1, Out: 400, OnNS: 50, OffNS: 150, QueueNS: 150, Flags: Throttled | Preempted, NR: -1},
	})
	for at, want := range map[int64][3]int64{100: {80, 100, 1}, 199: {80, 100, 1}, 200: {}, 300: {}, 360: {200, 350, 1}, 400: {}, 90: {}} {
		ready, in, ok := r.Got(1, at)
		if got := ([3]int64{ready, in, map[bool]int64{true: 1}[ok]}); got != want {
			t.Errorf("at %d: %v, want %v", at, got, want)
		}
	}
}

// Whatever names a process has, the last line stays below what is kept for it, and can be
// read.
func TestTheLastLineIsBounded(t *testing.T) {
	text := Text(strings.Repeat("\u2028<\xff&\"\\é", 100))
	if len(text) > maxText || strings.ContainsAny(text, "<&\"\\\u2028") || !utf8.ValidString(text) || !strings.Contains(text, "é") {
		t.Errorf("%q", text)
	}
	stack := Stack(slices.Repeat([]string{text}, MaxFrames))
	full := slices.Repeat([]int64{math.MaxInt64 / maxSlots}, maxSlots)
	burst := Burst{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64, true}
	after := After{
		Processes: slices.Repeat([]Process{{math.MaxInt64, text}}, MaxProcesses),
		Readings:  &Readings{Callers: slices.Repeat([]Caller{{math.MaxInt64, stack}}, MaxCallers)},
		Cgo: &CgoCalls{Burst: burst, Functions: slices.Repeat([]CFunction{{
			text, text, math.MaxInt64, math.MaxInt64, math.MaxInt64, full[:40], math.MaxInt64, stack, &Back{math.MaxInt64, math.MaxInt64, math.MaxInt64},
		}}, MaxFunctions)},
		Allocs: &Allocs{Burst: burst, Sites: slices.Repeat([]AllocSite{{math.MaxInt64, math.MaxInt64, stack}}, MaxSites)},
		Waits:  &Goroutines{Burst: burst, Histogram: full[:40]},
		TCP: &Connections{Connections: slices.Repeat([]Connection{{
			"[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%eth0]:65535", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%eth0]:65535", math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64,
			slices.Repeat([]int64{math.MaxInt64}, MaxInstants),
		}}, MaxConnections)},
		Func: &Calls{Burst: burst, Functions: slices.Repeat([]string{text}, MaxFunctions)},
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{CPUs: 1}, afterBytes+4_000)
	if err != nil {
		t.Fatal(err)
	}
	head := b.Len()
	if err := w.Close(after); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes of %d", b.Len()-head, afterBytes)
	if b.Len()-head > afterBytes {
		t.Errorf("the last line has %d bytes, kept for it are %d", b.Len()-head, afterBytes)
	}
	if _, err := Read(&b); err != nil {
		t.Error(err)
	}
}

// What a writer writes a reader reads, however much there is.
func TestThereAreNoMoreCallsThanARecordingMayHave(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{PID: 7, CPUs: 2, StartNS: 5}, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for room := true; room; n++ {
		if room, err = w.WriteCall(&Call{Goroutine: 1, From: 10, To: 20}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(After{Func: &Calls{Burst: Burst{ToNS: 30}, Functions: []string{"f"}}}); err != nil {
		t.Fatal(err)
	}
	r, err := Read(&b)
	if err != nil || len(r.Calls) != maxCalls || n != maxCalls+1 {
		t.Fatalf("%v, %d calls, %d were to be written", err, len(r.Calls), n)
	}
}

// A quota stops a process where one of its threads is stopped and none has a CPU: the others may still have the rest of a slice.
func TestPauses(t *testing.T) {
	r := New(Header{CPUs: 2}, nil, []Stretch{
		{TID: 1, Out: 200, OnNS: 100, NR: -1},
		{TID: 2, Out: 250, OnNS: 100, NR: -1},
		{TID: 1, Out: 420, OnNS: 20, OffNS: 200, QueueNS: 200, Flags: Preempted | Throttled, NR: -1},
		{TID: 2, Out: 460, OnNS: 50, OffNS: 160, QueueNS: 150, Flags: Throttled, NR: -1},
		{TID: 1, Out: 700, OnNS: 100, OffNS: 180, QueueNS: 180, Flags: Preempted, NR: -1},
		{TID: 2, Out: 900, OnNS: 50, OffNS: 390, QueueNS: 40, Flags: Throttled, NR: 202},
	})
	if got, want := r.Pauses(), []Pause{{250, 400}, {810, 850}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, x := range []struct {
		from, to int64
		n        int
	}{{0, 250, 0}, {0, 251, 1}, {399, 810, 1}, {400, 810, 0}, {300, 820, 2}, {850, 1000, 0}} {
		if got := r.PausesIn(x.from, x.to); len(got) != x.n {
			t.Errorf("from %d to %d: %v, want %d", x.from, x.to, got, x.n)
		}
	}
}

func TestBehindWhomThreadsWait(t *testing.T) {
	const ms = int64(1e6)
	h := Header{CPUs: 2, Fields: Fields}
	list := []Stretch{
		{TID: 1, Out: 20 * ms, OnNS: ms, OffNS: 4 * ms, QueueNS: 4 * ms, Flags: Preempted, Behind: 7}, // from 15 to 19
		{TID: 2, Out: 30 * ms, OnNS: 2 * ms, OffNS: 20 * ms, QueueNS: 6 * ms, Behind: 8},              // from 22 to 28
		{TID: 3, Out: 26 * ms, OnNS: 4 * ms},                                                          // has one from 22 to 26
		{TID: 1, Out: 50 * ms, OnNS: ms, OffNS: 9 * ms, QueueNS: 9 * ms, Flags: Preempted | Throttled, Behind: 7},
		{TID: 2, Out: 60 * ms, OnNS: ms, OffNS: ms, QueueNS: ms, Flags: Preempted}, // from 58 to 59
	}
	spans := []Pause{{10 * ms, 17 * ms}, {18 * ms, 24 * ms}, {40 * ms, 80 * ms}}
	want := map[int]int64{7: 3 * ms, 8: ms, 0: ms}
	r := New(h, &After{Processes: []Process{{7, "store"}}}, slices.Clone(list))
	if got := r.Behind(spans); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if p, q := r.Process(7), r.Process(8); p.Name != "store" || q.Name != "" || q.PID != 8 {
		t.Errorf("%+v, %+v", p, q)
	}
	if parts := r.Split(2, 22*ms, 28*ms); parts[Queued] != 4*ms || parts[Crowded] != 2*ms || parts[Observed] != 0 {
		t.Errorf("behind somebody: %v", parts)
	}
	h.Recorder = 8
	r = New(h, nil, slices.Clone(list))
	delete(want, 8)
	if got := r.Behind(spans); !maps.Equal(got, want) {
		t.Errorf("but for who recorded: got %v, want %v", got, want)
	}
	if parts := r.Split(2, 22*ms, 28*ms); parts[Observed] != 4*ms || parts[Crowded] != 2*ms || parts[Queued] != 0 {
		t.Errorf("behind who recorded: %v", parts)
	}
	h.Fields = Known
	if got := New(h, nil, list).Behind(spans); got != nil {
		t.Errorf("a recording that does not know says %v", got)
	}
}

// Recordings of versions that did not ask who had the CPU before.
func TestARecordingWithFewerFieldsIsRead(t *testing.T) {
	for fields, behind := range map[string]int{
		`["tid","cpu","out","on","off","queue","flags","nr"]`:          0,
		`["tid","cpu","out","on","off","queue","flags","nr","behind"]`: 42,
		`["tid","cpu","out","on","off","queue","flags","nr","other"]`:  0,
	} {
		r, err := Read(strings.NewReader(`{"header":{"schema":"` + Schema + `","cpus":2,"fields":` + fields + `}}` + "\n[17,1,99000,5000,20000,20000,1,-1,42]\n"))
		if err != nil || len(r.Stretches) != 1 || r.Stretches[0].Behind != behind || r.Stretches[0].NR != -1 {
			t.Errorf("%s: %v, %+v", fields, err, r)
		}
	}
}

// What a hypervisor takes it takes for milliseconds: of the longest stretches of a time.
func TestAHypervisorTakesOfTheLongestStretches(t *testing.T) {
	const ms = int64(1e6)
	for _, c := range []struct {
		taken, long, each int64 // in all, of the long stretch, and of each of the ten others
	}{
		{0, 0, 0},
		{4 * ms, 4 * ms, 0},
		{4*ms + ms/2, 4*ms + ms/2, 0},
		{6*ms + 7*ms/10, 4*ms + 7*ms/10, ms / 5},
		{20 * ms, 5 * ms, ms / 2},
	} {
		// In each of twenty times two threads have a CPU ten times for half a millisecond, and once for five.
		var list []Stretch
		counts := []Ran{{AtNS: 1000 * ms}}
		for i := range int64(20) {
			at, last := 1000*ms+i*20*ms, counts[i]
			for k := range int64(10) {
				list = append(list, Stretch{TID: 1 + int(k%2), Out: at + ms + (k+1)*ms/2, OnNS: ms / 2})
			}
			list = append(list, Stretch{TID: 1, Out: at + 15*ms, OnNS: 5 * ms})
			last.AtNS, last.NS = at+20*ms, last.NS+10*ms
			if i == 7 {
				last.NS, last.StolenNS = last.NS-min(c.taken, 10*ms), last.StolenNS+c.taken
			}
			counts = append(counts, last)
		}
		r := New(Header{CPUs: 2}, nil, list).Robbed(counts)
		from := 1000*ms + 7*20*ms
		long, others := r.Split(1, from+10*ms, from+15*ms)[Robbed], r.Split(1, from, from+10*ms)[Robbed]+r.Split(2, from, from+10*ms)[Robbed]
		if max(long-c.long, c.long-long) > 20 || max(others-10*c.each, 10*c.each-others) > 100 {
			t.Errorf("of %d ns: %d of the long one, want %d, and %d of all others, want %d", c.taken, long, c.long, others, 10*c.each)
		}
		if before := r.Split(1, from-20*ms, from)[Robbed]; before != 0 {
			t.Errorf("of %d ns: %d before", c.taken, before)
		}
	}
}

func TestWhatAHypervisorTakes(t *testing.T) {
	const ms = int64(1e6)
	// A thread has a CPU for half of each 20 ms; the counts are taken each 20 ms.
	var list []Stretch
	for i := range int64(50) {
		list = append(list, Stretch{TID: 1, Out: 1000*ms + i*20*ms + 10*ms, OnNS: 10 * ms})
	}
	counts := func(ran func(i int64) int64, stolen func(i int64) int64) (out []Ran) {
		x := Ran{TookNS: ms / 10, TickNS: ms}
		for i := range int64(51) {
			x.AtNS = 999*ms + i*20*ms // before the thread gets its CPU
			out = append(out, x)
			x.NS, x.StolenNS = x.NS+ran(i), x.StolenNS+stolen(i)
		}
		return out
	}
	always := func(int64) int64 { return 10 * ms }
	in := func(i int64, a, b int64) func(int64) int64 {
		return func(k int64) int64 {
			if k == i {
				return a
			}
			return b
		}
	}
	late := counts(in(20, 4*ms, 10*ms), always)
	for i := range late { // while the thread has a CPU, of the time of which the kernel has counted nothing yet
		late[i].AtNS += 5 * ms
	}
	slow := counts(in(20, 4*ms, 10*ms), always)
	slow[30].TookNS, slow[30].NS = 4*ms, slow[30].NS-3*ms
	for _, c := range []struct {
		name   string
		counts []Ran
		want   map[int64]int64 // of the stretch in a time
	}{
		{"more than half of one", counts(in(20, 4*ms, 10*ms), always), map[int64]int64{20: 6 * ms, 19: 0, 21: 0}},
		{"nothing is known of it", nil, map[int64]int64{20: 0}},
		{"the hypervisor took nothing", counts(in(20, 4*ms, 10*ms), func(int64) int64 { return 0 }), map[int64]int64{20: 0}},
		{"the hypervisor took something in the look before", counts(in(20, 4*ms, 10*ms), in(19, 10*ms, 0)), map[int64]int64{20: 6 * ms}},
		{"the hypervisor took something long after", counts(in(20, 4*ms, 10*ms), in(23, 10*ms, 0)), map[int64]int64{20: 0}},
		{"as much is taken always", counts(always, always), map[int64]int64{20: 0, 30: 0}},
		{"a fifth is taken always, and then more", counts(in(20, 2*ms, 8*ms), always), map[int64]int64{20: 6 * ms, 30: 0}},
		{"counts are taken while it has a CPU", late, map[int64]int64{20: 0, 19: 0}},
		{"a look takes long", slow, map[int64]int64{20: 6 * ms, 29: 0, 30: 0}},
		{"less was stolen than is missing", counts(in(20, 0, 10*ms), in(20, 3*ms, 0)), map[int64]int64{20: 4 * ms}},
		{"the count is larger", counts(in(20, 14*ms, 10*ms), always), map[int64]int64{20: 0, 21: 0}},
		{"less than a count is exact to", counts(in(20, 10*ms-minRobbed/2, 10*ms), always), map[int64]int64{20: 0}},
	} {
		r := New(Header{CPUs: 2}, nil, slices.Clone(list)).Robbed(c.counts)
		for i, want := range c.want {
			from := 1000*ms + i*20*ms
			parts := r.Split(1, from, from+10*ms)
			if got := parts[Robbed]; max(got-want, want-got) > ms/100 || parts[OnCPU] != 10*ms-got {
				t.Errorf("%s: in stretch %d %d ns, want %d, on a CPU %d", c.name, i, got, want, parts[OnCPU])
			}
			if half := r.Split(1, from+2*ms, from+7*ms)[Robbed]; max(2*half-want, want-2*half) > ms/100 {
				t.Errorf("%s: in half of stretch %d %d ns, want half of %d", c.name, i, half, want)
			}
		}
	}
}
