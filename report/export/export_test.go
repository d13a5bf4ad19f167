package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/parquet-go/parquet-go"

	"github.com/whylate/whylate/report/detail"
)

// hostile is a recording whose names are as bad as a target can make them.
func hostile() *detail.Recording {
	bad := "=cmd|' /C calc'!A0\x1b[31m\n\"<script>\xff" + strings.Repeat("é", 3000)
	return &detail.Recording{
		Start: time.Unix(1_790_000_000, 5).UTC(), DurationNS: 1e9, StartNS: 7e9, Class: bad,
		Frames: []detail.Frame{{Function: bad}, {Function: "main.handle", File: bad, Line: 17}, {Function: "network in x"}},
		Leaves: []detail.Leaf{
			{Kind: "network", Text: bad, Cause: "slow-dependency", Stack: []int{0, 1, 2}, ExcessNS: 70, TypicalNS: 10},
			{Kind: "cpu", Text: "running", Stack: []int{0}, ExcessNS: -20, TypicalNS: 30},
		},
		Requests: []detail.Request{
			{ID: "r1", Endpoint: bad, Goroutine: 5, StartNS: 100, DurationNS: 40, Band: detail.Typical, Weight: 1, Pieces: []detail.Piece{{Leaf: 0, NS: 10}, {Leaf: 1, NS: 30}}},
			{ID: "r2", Endpoint: bad, Goroutine: 6, StartNS: 200, DurationNS: 90, Band: detail.Tail, Weight: 1, InFlight: true, Pieces: []detail.Piece{{Leaf: 0, NS: 80}, {Leaf: 1, NS: 10}}},
		},
		Paths: []detail.Path{{Request: 1, Steps: []detail.Step{
			{Goroutine: 6, Root: bad, FromNS: 200, ToNS: 210, State: "running", Pieces: []detail.Piece{{Leaf: 1, NS: 10}}},
			{Goroutine: 6, Root: bad, FromNS: 210, ToNS: 290, State: "waiting: sync", Stack: []int{0, 1}, Where: bad, Call: "sync.(*Mutex).Lock", Waker: 7},
			{Depth: 1, Goroutine: 7, Root: "main.worker", FromNS: 210, ToNS: 290, State: "waiting: network", Stack: []int{1}, Pieces: []detail.Piece{{Leaf: 0, NS: 80}}},
		}}},
		STW: []detail.Span{{Name: bad, FromNS: 1, ToNS: 2}}, GC: []detail.Span{{FromNS: 1, ToNS: 9}},
	}
}

func written(t *testing.T, name string, r *detail.Recording) []byte {
	t.Helper()
	f, ok := Find(name)
	if !ok {
		t.Fatalf("there is no format %s", name)
	}
	var b bytes.Buffer
	if err := f.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	if !f.Binary && bytes.ContainsAny(b.Bytes(), "\x1b\xff") {
		t.Errorf("%s lets a terminal be told what to do", name)
	}
	return b.Bytes()
}

func TestAProfileHasTheExcessAndWhatItIsBetween(t *testing.T) {
	p, err := profile.ParseData(written(t, "pprof", hostile()))
	if err != nil || p.CheckValid() != nil {
		t.Fatalf("%v, %v", err, p.CheckValid())
	}
	if p.DefaultSampleType != "excess" || len(p.Sample) != 2 || p.TimeNanos != 1_790_000_000*1e9+5 {
		t.Fatalf("%v", p)
	}
	first := p.Sample[0]
	if !slices.Equal(first.Value, []int64{10, 80, 70}) || first.Label["cause"][0] != "slow-dependency" || first.Location[0].Line[0].Function.Name != "network in x" ||
		first.Location[1].Line[0].Line != 17 || len(first.Location[2].Line[0].Function.Name) > maxText {
		t.Errorf("%+v", first)
	}
	if !slices.Equal(p.Sample[1].Value, []int64{30, 10, -20}) {
		t.Errorf("%+v", p.Sample[1])
	}
}

func TestSpeedscopeEventsLieWithinEachOther(t *testing.T) {
	var file struct {
		Shared   struct{ Frames []struct{ Name string } }
		Profiles []struct {
			Type, Name, Unit     string
			StartValue, EndValue int64
			Samples              [][]int
			Weights              []int64
			Events               []struct {
				Type  string
				Frame int
				At    int64
			}
		}
	}
	if err := json.Unmarshal(written(t, "speedscope", hostile()), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Profiles) != 4 {
		t.Fatalf("%d profiles, want three of means and one request", len(file.Profiles))
	}
	for _, p := range file.Profiles {
		var sum, at int64
		for i, w := range p.Weights {
			sum += w
			for _, f := range p.Samples[i] {
				if f >= len(file.Shared.Frames) {
					t.Errorf("frame %d", f)
				}
			}
		}
		var in []int
		for _, e := range p.Events {
			if e.At < at || e.At > p.EndValue || e.Frame >= len(file.Shared.Frames) {
				t.Errorf("%s: %+v after %d", p.Name, e, at)
			}
			at = e.At
			if e.Type == "O" {
				in = append(in, e.Frame)
			} else if n := len(in) - 1; n < 0 || in[n] != e.Frame {
				t.Errorf("%s: %+v ends, within are %v", p.Name, e, in)
			} else {
				in = in[:n]
			}
		}
		if len(in) > 0 || p.Type == "sampled" && sum != p.EndValue || p.Type == "evented" && p.EndValue != 90 {
			t.Errorf("%s: %v still open, weights %d, end %d", p.Name, in, sum, p.EndValue)
		}
	}
}

func TestTablesHoldEachRequestsTime(t *testing.T) {
	lines, err := csv.NewReader(bytes.NewReader(written(t, "csv", hostile()))).ReadAll()
	if err != nil || len(lines) != 5 || !slices.Equal(lines[0], columns) {
		t.Fatalf("%v, %q", err, lines)
	}
	sum := map[string]int64{}
	for _, l := range lines[1:] {
		ns, err := strconv.ParseInt(l[len(l)-1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum[l[0]] += ns
		for _, c := range l {
			if c != "" && strings.ContainsRune("=+@", rune(c[0])) || len(c) > maxText+1 {
				t.Errorf("a spreadsheet computes %.40q", c)
			}
		}
	}
	b := written(t, "parquet", hostile())
	rows, err := parquet.Read[row](bytes.NewReader(b), int64(len(b)))
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v, %d rows", err, len(rows))
	}
	for i, r := range hostile().Requests {
		if sum[r.ID] != r.DurationNS {
			t.Errorf("%s: %d ns in lines, it took %d", r.ID, sum[r.ID], r.DurationNS)
		}
		x, ns := rows[i], int64(0)
		for _, l := range x.Leaves {
			ns += l.NS
		}
		if x.Request != r.ID || ns != r.DurationNS || x.InFlight != r.InFlight || x.Start.UnixNano() != 1_790_000_000*1e9+5+r.StartNS || x.Leaves[0].Line != 17 {
			t.Errorf("%+v", x)
		}
	}
}

// Whatever steps there are, what is written lies within each other and goes on in time.
func FuzzStepsAreWrittenWithinEachOther(f *testing.F) {
	f.Add([]byte{0, 1, 9, 1, 2, 3, 1, 2, 9, 0, 4, 5})
	f.Fuzz(func(t *testing.T, b []byte) {
		var steps []detail.Step
		for ; len(b) >= 3; b = b[3:] {
			steps = append(steps, detail.Step{Depth: int(b[0] % 5), FromNS: int64(b[1]), ToNS: int64(b[2])})
		}
		at, n, in := int64(-1), 0, []*detail.Step{}
		walk(steps, func(s *detail.Step, from, to int64) {
			if from < at || to < from {
				t.Fatalf("%+v from %d to %d after %d", s, from, to, at)
			}
			at, n, in = from, n+1, append(in, s)
		}, func(s *detail.Step, end int64) {
			if end < at || in[len(in)-1] != s {
				t.Fatalf("%+v ends at %d after %d", s, end, at)
			}
			at, in = end, in[:len(in)-1]
		})
		if n != len(steps) || len(in) > 0 {
			t.Fatalf("%d of %d, open %v", n, len(steps), in)
		}
	})
}

func TestErrorsOfTheWriterAreTold(t *testing.T) {
	full := errors.New("the disk is full")
	for _, f := range Formats() {
		if f.Goroutines() {
			continue
		}
		if err := f.Write(failing{full}, hostile()); !errors.Is(err, full) || !strings.Contains(err.Error(), f.Name) {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	if _, ok := Find("xml"); ok {
		t.Error("there is no xml")
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
