package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/whylate/whylate/evidence"
)

// recorded is a small recording: two samples 20 ms apart.
const recorded = `{"static":{"schema":"whylate.host/1","pid":7,"nspid":[7,1],"period_ns":20000000,"tick_ns":10000000,"cpus":2,"groups":[{"path":"/a","quota_us":50000,"period_us":100000},{"path":"/"}],"ancestors":true}}
{"sample":{"mono_ns":1000000000,"took_ns":90000,"run_ns":0,"delay_ns":0,"threads":[{"tid":7,"run_ns":5,"delay_ns":6,"slices":7}],"num_threads":1,"user_ns":0,"system_ns":0,"minor_faults":1,"major_faults":0,"rss":4096,"groups":[{"periods":1,"throttled":1,"throttled_ns":5,"usage_ns":9},{"periods":0,"throttled":0,"throttled_ns":0,"usage_ns":9}],"machine":{"busy_ns":1,"idle_ns":1,"iowait_ns":0,"steal_ns":0,"pressure":true}}}
{"sample":{"mono_ns":1020000000,"took_ns":90000,"run_ns":10,"delay_ns":3,"gone":[7],"blocked":[9],"num_threads":1,"user_ns":0,"system_ns":0,"minor_faults":1,"major_faults":0,"rss":4096,"machine":{"busy_ns":1,"idle_ns":1,"iowait_ns":0,"steal_ns":0,"pressure":true}}}
{"after":{"memory":{"rss":4096,"pss":4096,"swap":0,"anon_huge_pages":0},"cpu_ns":5,"wall_ns":20000000}}
`

func TestReadGivesWhatWasWritten(t *testing.T) {
	rec, err := Read(strings.NewReader(recorded))
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	enc := json.NewEncoder(&again)
	lines := []Line{{Static: &rec.Static}}
	for i := range rec.Samples {
		lines = append(lines, Line{Sample: &rec.Samples[i]})
	}
	for _, l := range append(lines, Line{After: rec.After}) {
		if err := enc.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	if again.String() != recorded {
		t.Errorf("read and written again:\n%s", &again)
	}
}

// Whatever the place of the cut, what precedes it is there and nothing else.
func TestReadOfACutFileGivesWhatPrecedesTheCut(t *testing.T) {
	first := strings.IndexByte(recorded, '\n')
	ends := []int{} // of lines, without their newlines
	for i := range recorded {
		if recorded[i] == '\n' {
			ends = append(ends, i)
		}
	}
	for cut := range recorded {
		rec, err := Read(strings.NewReader(recorded[:cut]))
		if cut < first {
			if !errors.Is(err, evidence.ErrMalformed) {
				t.Fatalf("cut at %d, in the first line: %v", cut, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		samples := 0
		for _, e := range ends[1:3] {
			if cut >= e {
				samples++
			}
		}
		if len(rec.Samples) != samples || (rec.After != nil) != (cut >= ends[3]) {
			t.Fatalf("cut at %d: %d samples, want %d; after: %v", cut, len(rec.Samples), samples, rec.After != nil)
		}
	}
	torn := io.MultiReader(strings.NewReader(recorded[:first+9]), failing{io.ErrUnexpectedEOF})
	if rec, err := Read(torn); err != nil || len(rec.Samples) != 0 {
		t.Errorf("a cut compressed file: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// with returns the file with one piece of text replaced.
func with(t *testing.T, old, new string) string {
	t.Helper()
	if !strings.Contains(recorded, old) {
		t.Fatalf("the file has no %s", old)
	}
	return strings.Replace(recorded, old, new, 1)
}

func TestReadRefusesWhatNoRecorderWrites(t *testing.T) {
	lines := strings.SplitAfter(recorded, "\n")
	static, sample := lines[0], lines[1]
	many := func(n int, item string) string { return strings.Repeat(item+",", n-1) + item }
	damaged := errors.New("the disk")
	for _, c := range []struct {
		name string
		file string
		want error
		text string
	}{
		{"an empty file", "", evidence.ErrMalformed, "no complete first line"},
		{"something else without lines", "\x1f\x8b\x08", evidence.ErrMalformed, "something else"},
		{"something else with lines", "Go 1.26 trace\n\x00\x01\n", evidence.ErrMalformed, "no host samples"},
		{"a sample first", sample, evidence.ErrMalformed, "no host samples"},
		{"a line that is no JSON", static + "garbage\n" + sample, evidence.ErrMalformed, "line 2"},
		{"a line that is no object", static + "[]\n", evidence.ErrMalformed, "line 2"},
		{"another format", with(t, "whylate.host/1", "whylate.metrics/1"), evidence.ErrMalformed, "schema"},
		{"no version", with(t, "whylate.host/1", "whylate.host"), evidence.ErrMalformed, "schema"},
		{"a later version", with(t, "whylate.host/1", "whylate.host/2"), evidence.ErrVersion, "newer whylate"},
		{"static twice", static + static, evidence.ErrMalformed, "twice"},
		{"a line behind the last", recorded + sample, evidence.ErrMalformed, "behind"},
		{"a line of two kinds", with(t, `{"sample":{`, `{"after":{},"sample":{`), evidence.ErrMalformed, "two kinds"},
		{"samples out of order", with(t, "1020000000", "1000000000"), evidence.ErrMalformed, "order of time"},
		{"counters of a cgroup that does not exist", with(t, `,{"path":"/"}`, ""), evidence.ErrMalformed, "cgroups"},
		{"a negative time", with(t, `"mono_ns":1000000000`, `"mono_ns":-1`), evidence.ErrMalformed, "negative"},
		{"a negative counter of a thread", with(t, `"slices":7`, `"slices":-7`), evidence.ErrMalformed, "negative"},
		{"a negative counter of a cgroup", with(t, `"throttled_ns":5`, `"throttled_ns":-5`), evidence.ErrMalformed, "negative"},
		{"a negative counter of the machine", with(t, `"steal_ns":0`, `"steal_ns":-1`), evidence.ErrMalformed, "negative"},
		{"a negative quota", with(t, `"quota_us":50000`, `"quota_us":-1`), evidence.ErrMalformed, "negative"},
		{"negative memory", with(t, `"pss":4096`, `"pss":-1`), evidence.ErrMalformed, "negative"},
		{"a number beyond 64 bits", with(t, `"run_ns":5`, `"run_ns":`+strings.Repeat("9", 1000)), evidence.ErrMalformed, "line 2"},
		{"more cgroups than a process can have", with(t, `{"path":"/"}`, many(100, `{"path":"/"}`)), evidence.ErrTooLarge, "cgroups"},
		{"a negative counter of a connection", with(t, `"cpu_ns":5`, `"sockets":[{"retrans":-1}],"cpu_ns":5`), evidence.ErrMalformed, "negative"},
		{"more sockets than are recorded", with(t, `"cpu_ns":5`, `"sockets":[`+many(MaxSockets+1, "{}")+`],"cpu_ns":5`), evidence.ErrTooLarge, "sockets"},
		{"a negative counter of peers", with(t, `"mono_ns":1000000000`, `"peers":{"delay_ns":-1},"mono_ns":1000000000`), evidence.ErrMalformed, "negative"},
		{"a negative counter of a peer", with(t, `"cpu_ns":5`, `"peers":[{"throttled_ns":-1}],"cpu_ns":5`), evidence.ErrMalformed, "negative"},
		{"a peer at more addresses than are recorded", with(t, `"cpu_ns":5`, `"peers":[{"also":[`+many(MaxAddresses, `""`)+`]}],"cpu_ns":5`), evidence.ErrTooLarge, "addresses"},
		{"more peers than are recorded", with(t, `"cpu_ns":5`, `"peers":[`+many(MaxPeers+1, "{}")+`],"cpu_ns":5`), evidence.ErrTooLarge, "peers"},
		{"a line without end", static + strings.Repeat(" ", maxLine+1), evidence.ErrTooLarge, "longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, err := Read(strings.NewReader(c.file))
			if rec != nil || !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.text) {
				t.Errorf("got %v, %v; want an error with %q", rec != nil, err, c.text)
			}
			if len(fmt.Sprint(err)) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
	if _, err := Read(io.MultiReader(strings.NewReader(recorded), failing{damaged})); !errors.Is(err, damaged) {
		t.Errorf("a reader that fails: %v", err)
	}
}

func TestReadSkipsWhatALaterVersionAdds(t *testing.T) {
	later := strings.Replace(recorded, `"pid":7`, `"pid":7,"unheard_of":{"a":[1]}`, 1)
	later = strings.Replace(later, "\n{\"after\"", "\n{\"unheard_of\":1}\n{\"after\"", 1)
	want, _ := Read(strings.NewReader(recorded))
	if got, err := Read(strings.NewReader(later)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

// endless repeats a line for as long as it is read.
type endless struct{ line, rest string }

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		e.rest = e.line
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func TestReadEndsOnAFileWithoutEnd(t *testing.T) {
	static, _, _ := strings.Cut(recorded, "\n")
	_, err := read(io.MultiReader(strings.NewReader(static+"\n"), &endless{line: "{}\n"}), 1<<20)
	if !errors.Is(err, evidence.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	many := strings.Replace(recorded, "\"gone\":[7]", "\"gone\":["+strings.Repeat("1,", 1000)+"1]", 1)
	if _, err := read(strings.NewReader(many), 1000*entryBytes); !errors.Is(err, evidence.ErrTooLarge) {
		t.Errorf("more threads than the size allows: %v", err)
	}
	if _, err := read(strings.NewReader(many), 1004*entryBytes); err != nil {
		t.Errorf("as many threads as the size allows: %v", err)
	}
	if _, err := read(strings.NewReader(recorded), int64(len(recorded))); err != nil {
		t.Errorf("a file that just fits: %v", err)
	}
	if _, err := read(strings.NewReader(recorded), int64(len(recorded))-1); !errors.Is(err, evidence.ErrTooLarge) {
		t.Errorf("a file with one byte too many: %v", err)
	}
}

// FuzzRead: whatever is read holds what Read promises, and can be asked for the
// usage of any stretch of it.
func FuzzRead(f *testing.F) {
	f.Add([]byte(recorded))
	f.Add([]byte(recorded[:len(recorded)/2]))
	f.Add([]byte(strings.ReplaceAll(recorded, "1020000000", "9223372036854775807")))
	f.Add([]byte(strings.ReplaceAll(recorded, `"run_ns":10`, `"run_ns":9223372036854775807`)))
	f.Add([]byte(`{"static":{"schema":"whylate.host/1"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := Read(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, evidence.ErrMalformed) && !errors.Is(err, evidence.ErrTooLarge) && !errors.Is(err, evidence.ErrVersion) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		for i := 1; i < len(rec.Samples); i++ {
			if rec.Samples[i].MonoNS <= rec.Samples[i-1].MonoNS {
				t.Fatal("the samples are not in order")
			}
		}
		s := rec.Span()
		whole := rec.Over([]Span{s})
		if wall := float64(s.To - s.From); whole.WallNS < wall*0.999 || whole.WallNS > wall*1.001 {
			t.Errorf("usage over the recording covers %g of %g ns", whole.WallNS, wall)
		}
		for _, v := range []float64{whole.RunNS, whole.DelayNS, whole.BlockedNS, whole.UserNS, whole.BusyNS} {
			if v < 0 {
				t.Errorf("negative usage: %+v", whole)
			}
		}
	})
}
