package diagnose

import (
	"cmp"
	"compress/gzip"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
)

// maxProfile bounds an allocation profile in bytes, packed and unpacked: that of
// a service with 10,000 allocating stacks has about 3 MB.
const maxProfile = 32 << 20

// maxAllocations is how many functions are kept of those that allocated.
const maxAllocations = 20

// allocated returns the functions that allocated most between the two allocation profiles of an
// incident, each with the line that did in it, that of most bytes first.
func allocated(in *evidence.Incident) []cause.Allocation {
	before, after := readProfile(in, evidence.MemberAllocsBefore), readProfile(in, evidence.MemberAllocsAfter)
	if before == nil || after == nil {
		return nil
	}
	type site struct {
		cause.Allocation
		lines map[cause.Place]float64
	}
	sites := map[string]*site{}
	var total float64
	add := func(p *profile.Profile, sign float64) {
		k := valueIndex(p, "alloc_space")
		if k < 0 {
			return
		}
		for _, s := range p.Sample {
			if k >= len(s.Value) {
				continue
			}
			f, ok := request.AppFrame(sampleFrames(s))
			x := sign * float64(s.Value[k])
			total += x
			if !ok {
				continue
			}
			a := sites[f.Func]
			if a == nil {
				a = &site{lines: map[cause.Place]float64{}}
				sites[f.Func] = a
			}
			a.Share += x
			a.lines[cause.Place{Function: f.Func, File: f.File, Line: f.Line}] += x
		}
	}
	add(after, 1)
	add(before, -1)
	if total <= 0 {
		return nil
	}
	var out []cause.Allocation
	for _, a := range sites {
		if a.Share <= 0 {
			continue
		}
		most := math.Inf(-1)
		for at, x := range a.lines {
			if x > most || x == most && (at.Line < a.Place.Line || at.Line == a.Place.Line && at.File < a.Place.File) {
				most, a.Place = x, at
			}
		}
		a.Share /= total
		out = append(out, a.Allocation)
	}
	slices.SortFunc(out, func(a, b cause.Allocation) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), strings.Compare(a.Place.Function, b.Place.Function))
	})
	return slices.Clone(out[:min(len(out), maxAllocations)])
}

func readProfile(in *evidence.Incident, name string) *profile.Profile {
	r, err := in.Member(name)
	if err != nil {
		return nil
	}
	defer r.Close()
	z, err := gzip.NewReader(r) // not left to the parser: it unpacks without bound
	if err != nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(z, maxProfile+1))
	if err != nil || len(data) > maxProfile {
		return nil
	}
	p, err := profile.ParseUncompressed(data)
	if err != nil {
		return nil
	}
	return p
}

func valueIndex(p *profile.Profile, kind string) int {
	for i, t := range p.SampleType {
		if t.Type == kind {
			return i
		}
	}
	return -1
}

// sampleFrames are the frames of a profile's sample, innermost first.
func sampleFrames(s *profile.Sample) []gotrace.Frame {
	var out []gotrace.Frame
	for _, l := range s.Location {
		for _, n := range l.Line {
			if n.Function != nil {
				out = append(out, gotrace.Frame{Func: n.Function.Name, File: n.Function.Filename, Line: int(n.Line)})
			}
		}
	}
	return out
}
