package diagnose

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
)

// kept holds what allocate made, so that it is made.
var kept []byte

// allocate allocates 64 MB in pieces that the profile's sampling (512 kB) hardly
// ever misses.
//
//go:noinline
func allocate() {
	for range 16 {
		kept = make([]byte, 4<<20)
	}
}

// allocs takes the process's allocation profile.
func allocs(t *testing.T) []byte {
	t.Helper()
	runtime.GC() // the profile is that of the last cycle but one
	runtime.GC()
	var b bytes.Buffer
	if err := pprof.Lookup("allocs").WriteTo(&b, 0); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// topAllocation is the function that allocated most in an incident, nil if none is known.
func topAllocation(in *evidence.Incident) *cause.Allocation {
	if a := allocated(in); len(a) > 0 {
		return &a[0]
	}
	return nil
}

func TestTheSiteThatAllocatedMost(t *testing.T) {
	before := allocs(t)
	allocate()
	after := allocs(t)
	a := topAllocation(incident(t, map[string][]byte{evidence.MemberAllocsBefore: before, evidence.MemberAllocsAfter: after}, nil))
	if a == nil || !strings.HasSuffix(a.Place.Function, "diagnose.allocate") || a.Place.Line == 0 || a.Share < 0.5 || a.Share > 1 {
		t.Errorf("%+v", a)
	}
}

// allocProfile is a synthetic allocation profile of one value per function.
func allocProfile(t *testing.T, kind string, values map[string]int64) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: kind, Unit: "bytes"}}}
	for _, name := range []string{"main.a", "main.b", "strings.Repeat"} {
		v, ok := values[name]
		if !ok {
			continue
		}
		id := uint64(len(p.Function) + 1)
		f := &profile.Function{ID: id, Name: name, Filename: name + ".go"}
		l := &profile.Location{ID: id, Line: []profile.Line{{Function: f, Line: int64(id)}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{1, v}})
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The line is the one of the function that allocated most, in whatever order samples come.
func TestTheLineThatAllocatedMost(t *testing.T) {
	f := &profile.Function{ID: 1, Name: "main.serve", Filename: "main.go"}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "alloc_space", Unit: "bytes"}}, Function: []*profile.Function{f}}
	for i, v := range []int64{10, 500, 90, 400} {
		l := &profile.Location{ID: uint64(i + 1), Line: []profile.Line{{Function: f, Line: []int64{71, 66, 80, 71}[i]}}}
		p.Location = append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{v}})
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	a := topAllocation(incident(t, map[string][]byte{evidence.MemberAllocsBefore: allocProfile(t, "alloc_space", nil), evidence.MemberAllocsAfter: b.Bytes()}, nil))
	if a == nil || a.Place.Line != 66 || a.Share != 1 {
		t.Errorf("%+v", a)
	}
}

// Of many functions those are told that allocated most, in order.
func TestTheFunctionsThatAllocatedMost(t *testing.T) {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "alloc_space", Unit: "bytes"}}}
	for i := range int64(2 * maxAllocations) {
		f := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("main.f%d", i), Filename: "main.go"}
		l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: i + 1}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{i + 1}})
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	all := allocated(incident(t, map[string][]byte{evidence.MemberAllocsBefore: allocProfile(t, "alloc_space", nil), evidence.MemberAllocsAfter: b.Bytes()}, nil))
	if len(all) != maxAllocations {
		t.Fatalf("%d functions", len(all))
	}
	for i, a := range all {
		if want := 2*maxAllocations - i; a.Place.Line != want || a.Place.Function != fmt.Sprintf("main.f%d", want-1) {
			t.Errorf("%d: %+v", i, a)
		}
	}
}

func TestAllocated(t *testing.T) {
	of := func(kind string, a, b, library int64) []byte {
		return allocProfile(t, kind, map[string]int64{"main.a": a, "main.b": b, "strings.Repeat": library})
	}
	const space = "alloc_space"
	for _, c := range []struct {
		name          string
		before, after []byte
		function      string
		share         float64
	}{
		{"only what was allocated meanwhile counts", of(space, 900, 0, 0), of(space, 910, 90, 0), "main.b", 0.9},
		{"the library counts in the whole", of(space, 0, 0, 0), of(space, 20, 30, 50), "main.b", 0.3},
		{"equal ones by name", of(space, 0, 0, 0), of(space, 50, 50, 0), "main.a", 0.5},
		{"nothing was allocated", of(space, 10, 10, 0), of(space, 10, 10, 0), "", 0},
		{"the process began anew", of(space, 100, 100, 0), of(space, 10, 0, 0), "", 0},
		{"nothing of the program's own", of(space, 0, 0, 0), allocProfile(t, space, map[string]int64{"strings.Repeat": 10}), "", 0},
		{"another kind of profile", of("inuse_space", 0, 0, 0), of("inuse_space", 10, 0, 0), "", 0},
		{"no profile before", nil, of(space, 10, 0, 0), "", 0},
		{"no profile after", of(space, 10, 0, 0), nil, "", 0},
		{"a damaged one", of(space, 10, 0, 0), []byte("no profile"), "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			members := map[string][]byte{}
			if c.before != nil {
				members[evidence.MemberAllocsBefore] = c.before
			}
			if c.after != nil {
				members[evidence.MemberAllocsAfter] = c.after
			}
			a := topAllocation(incident(t, members, nil))
			switch {
			case a == nil:
				if c.function != "" {
					t.Errorf("nothing, want %s", c.function)
				}
			case a.Place.Function != c.function || a.Share != c.share:
				t.Errorf("%+v, want %s %v", a, c.function, c.share)
			}
		})
	}
}

// A profile that is small in the file and huge unpacked is refused before it is.
func TestAProfileIsBoundedUnpacked(t *testing.T) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(z, zeros{}, 4*maxProfile); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	in := incident(t, map[string][]byte{evidence.MemberAllocsAfter: b.Bytes()}, nil)
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	p := readProfile(in, evidence.MemberAllocsAfter)
	runtime.ReadMemStats(&m1)
	// ReadAll grows its buffer by a quarter at a time: six times what it reads in all.
	if used := m1.TotalAlloc - m0.TotalAlloc; p != nil || used > 8*maxProfile {
		t.Errorf("profile %v, %d bytes allocated", p != nil, used)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
