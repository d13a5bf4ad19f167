package gotrace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/exp/trace"

	"github.com/whylate/whylate/internal/need"
)

// made is a trace that no runtime wrote.
type made struct{ data []byte }

func newMade(minor string) *made { return &made{[]byte("go 1." + minor + " trace\x00\x00\x00")} }

func uvarints(data []byte, v ...uint64) []byte {
	for _, x := range v {
		data = binary.AppendUvarint(data, x)
	}
	return data
}

// event is one as it stands in a batch.
func event(kind byte, args ...uint64) []byte { return uvarints([]byte{kind}, args...) }

func (m *made) batch(gen, thread, time uint64, events ...[]byte) *made {
	data := slices.Concat(events...)
	m.data = uvarints(append(m.data, evEventBatch), gen, thread, time, uint64(len(data)))
	m.data = append(m.data, data...)
	return m
}

// clocks is what every generation of go1.26 needs beside its events.
func (m *made) clocks(gen, time uint64) *made {
	return m.batch(gen, 1<<64-1, time, []byte{evSync}, event(evFrequency, 1e9), event(evClockSnapshot, 0, 0, 0, 0))
}

func (m *made) end() *made {
	m.data = append(m.data, evEndOfGeneration)
	return m
}

// generation is one in which a goroutine runs.
func (m *made) generation(gen, time uint64) *made {
	return m.clocks(gen, time).batch(gen, 7, time,
		event(evProcStatus, 1, 0, procRunning), event(evGoStatus, 1, 1, 7, goRunning), event(evHeapAlloc, 5, 1)).end()
}

// rest reads to the end, behind damage too.
func rest(t testing.TB, data []byte) (events []Event, lost []*CorruptError) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var ev Event
	for {
		err := r.Next(&ev)
		if err == nil {
			events = append(events, ev)
			continue
		}
		if err == io.EOF {
			return events, lost
		}
		var c *CorruptError
		if !errors.As(err, &c) {
			t.Fatal(err)
		}
		if lost = append(lost, c); !r.Resume() {
			return events, lost
		}
	}
}

// begun are the generations that were read, by where they begin.
func begun(events []Event) (at []int64) {
	for i := range events {
		if events[i].Kind == KindSync {
			at = append(at, int64(events[i].Value))
		}
	}
	return at
}

// A flight recorder that has run for days has numbers of generations in the thousands, and a
// machine that has run for weeks has times beyond the length of any trace.
func TestWhatStandsBehindADamagedFirstByteIsRead(t *testing.T) {
	for name, at := range map[string]struct{ gen, time uint64 }{"young": {1, 1000}, "of many generations": {90_000, 1000}, "after weeks": {1, 1 << 50}} {
		for damaged := range 3 {
			for what, damage := range map[string]func(b []byte){
				"kind":       func(b []byte) { b[0] = 0xff },
				"generation": func(b []byte) { b[1] ^= 0x40 },
			} {
				m := newMade("26")
				var begins []int64
				for i := range uint64(6) {
					begins = append(begins, int64(len(m.data)))
					m.generation(at.gen+i, at.time+i*1e9)
				}
				damage(m.data[begins[damaged]:])
				events, lost := rest(t, m.data)
				got := begun(events)
				for i, b := range begins {
					if i != damaged && !slices.Contains(got, b) {
						t.Errorf("%s, the %s of generation %d is damaged: generation %d, at %d, is not read: %v, %v", name, what, damaged, i, b, got, lost)
					}
				}
			}
		}
	}
}

// What is called good is never behind what it is of: those who subtract rely on it.
func TestGoodIsWhereTheDamagedGenerationBegins(t *testing.T) {
	m := newMade("26")
	var begins []int64
	for i := range uint64(7) {
		begins = append(begins, int64(len(m.data)))
		if i == 2 || i == 3 || i == 5 {
			// It stops on a thread where it is not.
			m.clocks(i+1, 1000*(i+1)).batch(i+1, 8, 1000*(i+1), event(evGoStop, 1, 0, 0)).end()
			continue
		}
		m.generation(i+1, 1000*(i+1))
	}
	_, lost := rest(t, m.data)
	var good []int64
	for _, c := range lost {
		good = append(good, c.Good)
	}
	if want := []int64{begins[2], begins[3], begins[5]}; !slices.Equal(good, want) {
		t.Errorf("good are %v, want %v: %v", good, want, lost)
	}
}

// Before go1.26 the end of a generation is seen by the next one's first batch: damage there is
// none of the generation before.
func TestAGenerationIsGoodThatEndsAtDamage(t *testing.T) {
	m := newMade("22")
	gen := func(n uint64) {
		m.batch(n, 1<<64-1, n*1000, event(evFrequency, 1e9)).batch(n, 7, n*1000,
			event(evProcStatus, 1, 0, procRunning), event(evGoStatus, 1, 1, 7, goRunning), event(evGoStop, 5, 0, 0))
	}
	gen(1)
	second := int64(len(m.data))
	gen(2)
	events, lost := rest(t, m.data[:second+3])
	if len(lost) != 1 || lost[0].Good != second || events[len(events)-1].Value != uint64(second) {
		t.Errorf("%+v, lost %v: want %d good", events[len(events)-1], lost, second)
	}
}

// A time that cannot be moves nothing behind damage.
func TestTimesBehindDamageAreThoseOfTheTrace(t *testing.T) {
	m := newMade("26").generation(1, 1000)
	m.clocks(2, 2000).batch(2, 8, 2000, event(evProcStatus, 1<<60, 1, procRunning), event(evGoStop, 1, 0, 0)).end()
	m.generation(3, 3000)
	events, _ := rest(t, m.data)
	if at := events[len(events)-2].Time; at != 3000+7 {
		t.Errorf("the last event is at %d", at)
	}
	m = newMade("26").clocks(1, 1<<62).batch(1, 7, 1<<62, event(evProcStatus, 1<<62, 0, procRunning), event(evGoStatus, 1<<62, 1, 7, goRunning), event(evGoStop, 1<<62-1, 0, 0)).end()
	var last Time
	events, _ = rest(t, m.data)
	for _, ev := range events {
		if ev.Kind != KindSync {
			if ev.Time <= last {
				t.Errorf("time goes back from %d to %d", last, ev.Time)
			}
			last = ev.Time
		}
	}
}

// The last batch that fits into what is looked at is found, too, where the next one's head does not.
func TestABatchIsFoundWhereverItBegins(t *testing.T) {
	for pad := 128<<10 - maxBatch - 3*maxHead; pad < 128<<10-maxBatch+maxHead; pad++ {
		in := &batches{minor: 26, n: headerLen}
		m := &made{bytes.Repeat([]byte{0xff}, pad)}
		m.batch(5, 7, 1000, make([]byte, maxBatch)).batch(5, 7, 2000, make([]byte, maxBatch)).batch(5, 7, 3000, make([]byte, maxBatch)).batch(5, 7, 4000, make([]byte, 10))
		in.r = bufio.NewReaderSize(bytes.NewReader(m.data), 128<<10)
		if !in.resume(4, 1000) || in.n != int64(headerLen+pad) {
			t.Fatalf("behind %d bytes: found at %d", pad, in.n-headerLen)
		}
	}
}

// In the first generation a goroutine may be in a system call of a thread of which nothing was heard
// before, although it has events, too.
func TestTheThreadOfASystemCallMayNotHaveBeenHeardOf(t *testing.T) {
	data := newMade("26").clocks(1, 1).
		batch(1, 7, 1, event(evProcStatus, 1, 0, procRunning), event(evGoStatus, 1, 2, 8, goSyscall)).
		batch(1, 8, 1, event(evGoSyscallEndBlocked, 9)).end().data
	want, err := fromOracle(data)
	if err != io.EOF {
		t.Fatal(err)
	}
	got, err := fromReader(data)
	if err != io.EOF {
		t.Fatal(err)
	}
	agree(t, got, want)
}

// hostile are traces that have the most of something for their size.
func hostile(size int) map[string][]byte {
	out := map[string][]byte{}
	n := uint64(size)

	// The earliest event of all waits for the last one, so that others are sought for every event.
	m := newMade("26").clocks(1, 1)
	m.batch(1, 1, 1, event(evGoUnblock, 0, 1<<40, 1, 0))
	for i := range n / 24 {
		m.batch(1, i+2, 10+i, event(evProcStatus, 0, i, procRunning), event(evHeapAlloc, 0, 1), event(evHeapAlloc, 0, 1))
	}
	out["threads that wait"] = m.end().data

	// Every event asks which of many threads has a P.
	m = newMade("26").clocks(1, 1)
	m.batch(1, 1, 2, event(evProcStatus, 0, 0, procSyscall))
	for i := range n / 16 {
		m.batch(1, i+2, 3, event(evProcStatus, 0, i+1, procRunning))
	}
	var asked [][]byte
	for range min(n/16, maxBatch/5) {
		asked = append(asked, event(evProcStatus, 0, 0, procAbandoned))
	}
	for i := range n / 2 / maxBatch {
		m.batch(1, 2, 10+i, asked...)
	}
	out["who has a P"] = m.end().data

	// One generation has large tables, all others have next to none.
	m = newMade("26").clocks(1, 1)
	var list []byte
	for id := uint64(1); len(m.data) < size/2; id++ {
		if list = uvarints(append(list, evString), id, 0); len(list) > maxBatch-16 {
			m.batch(1, 1<<64-1, 1, []byte{evStrings}, list)
			list = nil
		}
	}
	out["tables"] = m.end().data
	m = &made{bytes.Clone(m.data)}
	for gen := uint64(2); len(m.data) < size; gen++ {
		m.clocks(gen, gen).end()
	}
	out["tables"] = m.data
	m = newMade("26").clocks(1, 1)
	for i := uint64(0); len(m.data) < size/2; i++ {
		m.batch(1, i, 1, event(evProcStatus, 0, i, procRunning))
	}
	m.end()
	for gen := uint64(2); len(m.data) < size; gen++ {
		m.clocks(gen, gen).batch(gen, 1, gen, event(evProcStatus, 0, 0, procRunning)).end()
	}
	out["generations"] = m.data

	m = newMade("26")
	for gen := uint64(1); len(m.data) < size; gen++ {
		m.clocks(gen, gen).batch(gen, 1, gen, event(evGoStop, 0, 0, 0)).end()
	}
	out["damages"] = m.data
	m = newMade("26")
	for len(m.data) < size {
		m.data = append(m.data, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0xff, 0xff)
	}
	out["heads"] = m.data
	return out
}

// Nothing in a trace makes reading it take longer than its bytes do, nor much more memory: all
// these took minutes with a step for each pair of things.
func TestTheWorstOfEachKindIsReadInTimeAndMemory(t *testing.T) {
	for name, data := range hostile(1 << 18) {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			var ev Event
			for {
				if err = r.Next(&ev); err != nil && (err == io.EOF || !r.Resume()) {
					break
				}
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > uint64(64*len(data)+4<<20) {
				t.Errorf("%d bytes allocated for %d", n, len(data))
			}
			if r.tried > maxTried+(triedPerByte+1)*int64(len(data)) || r.damages > maxDamages {
				t.Errorf("%d tried, %d damages", r.tried, r.damages)
			}
		})
	}
}

// mutated calls do with traces of some kilobytes in which something was changed: bytes, lengths,
// what stands where. It is the same each time.
func mutated(t *testing.T, each int, do func(name string, data []byte)) {
	t.Helper()
	var seeds []fixture
	for _, f := range fixtures(t) {
		if f.name != "go1.24" && f.name != "live" {
			at := begins(t, f.data)
			small := f.data[:headerLen:headerLen]
			for i := range len(at) - 1 { // what fits
				if g := f.data[at[i]:at[i+1]]; len(small)+len(g) < 24<<10 {
					small = append(small, g...)
				}
			}
			seeds = append(seeds, fixture{f.name, small})
		}
	}
	tiny, err := os.ReadFile("testdata/tiny.trace")
	if err != nil {
		t.Fatal(err)
	}
	m := newMade("26")
	for i := range uint64(6) {
		m.generation(i+1, 1e6*(i+1))
	}
	seeds = append(seeds, fixture{"tiny", tiny}, fixture{"made", m.data})
	if need.Raced {
		each /= 5
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, s := range seeds {
		for range each {
			data := bytes.Clone(s.data)
			for range 1 + rng.IntN(3) {
				at := headerLen + rng.IntN(len(data)-headerLen)
				n := min(1+rng.IntN(64), len(data)-at)
				switch rng.IntN(6) {
				case 0:
					data[at] ^= 1 << rng.IntN(8)
				case 1:
					data[at] = byte(rng.Uint32())
				case 2:
					data = slices.Delete(data, at, at+n)
				case 3:
					data = slices.Insert(data, at, data[at:at+n]...)
				case 4:
					copy(data[at:at+n], data[headerLen+rng.IntN(at-headerLen+1):])
				case 5:
					data[at] = byte([]int{0, 1, 0x7f, 0x80, 0xff, evEndOfGeneration}[rng.IntN(6)])
				}
				if len(data) <= headerLen+1 {
					break
				}
			}
			do(s.name, data)
		}
	}
}

// Whatever stands in a trace, it is read to its end, in bounded memory; and where the Go team's
// reader finds nothing wrong, this one finds the same.
func TestMutatedTracesAreReadAsByTheGoTeamsReader(t *testing.T) {
	n, whole, resumed := 0, 0, 0
	mutated(t, 500, func(name string, data []byte) {
		n++
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		events, lost := rest(t, data)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(256*len(data)+4<<20) {
			t.Errorf("%s: %d bytes allocated for %d", name, got, len(data))
		}
		if len(events) > 16*len(data) || len(lost) > maxDamages+1 {
			t.Errorf("%s: %d events, %d damages in %d bytes", name, len(events), len(lost), len(data))
		}
		good := int64(headerLen)
		for _, c := range lost {
			if c.Good < good || c.Good > c.Offset || c.Offset > int64(len(data)) {
				t.Errorf("%s: damage at %d, %d good after %d, of %d bytes", name, c.Offset, c.Good, good, len(data))
			}
			good = c.Good
		}
		resumed += min(1, max(0, len(lost)-1))
		if name == "made" || !readable(data) { // what was made is a goroutine on two threads soon
			return
		}
		want, _ := fromOracle(data)
		got, err := fromReader(data)
		if stricter(err) {
			return
		}
		whole++
		if err != io.EOF {
			t.Errorf("%s: %v", name, err)
			return
		}
		for i := range min(len(got), len(want)) {
			if withoutStacks(got[i]) != withoutStacks(want[i]) {
				t.Errorf("%s, event %d:\n%+v\nwant\n%+v", name, i, got[i], want[i])
				return
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d events, want %d", name, len(got), len(want))
		}
	})
	t.Logf("%d traces, %d without an error, %d with several damages", n, whole, resumed)
	if whole < n/50 || resumed < n/50 {
		t.Errorf("of %d traces %d have no error, %d several damages: too few to prove something", n, whole, resumed)
	}
}

// stricter reports whether an error is of what the Go team's reader does not look at, and no
// runtime writes: it takes a batch of tables that ends too early for the end of the trace, and of
// two frames with one program counter the first for both.
func stricter(err error) bool {
	return err != nil && (strings.HasSuffix(err.Error(), "a number without an end") || strings.Contains(err.Error(), "a stack has the strings"))
}

// withoutStacks leaves out the stacks, for the same reason.
func withoutStacks(e told) told {
	e.text, _, _ = strings.Cut(e.text, "\n")
	return e
}

// readable reports whether the Go team's reader gets to the end.
func readable(data []byte) (ok bool) {
	defer func() {
		if recover() != nil { // it panics on some
			ok = false
		}
	}()
	r, err := trace.NewReader(bytes.NewReader(data))
	for err == nil {
		_, err = r.ReadEvent()
	}
	return err == io.EOF
}
