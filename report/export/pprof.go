package export

import (
	"io"
	"math"

	"github.com/google/pprof/profile"

	"github.com/whylate/whylate/report/detail"
)

// pprofTo writes a profile whose samples are leaves: their parts of the mean excess of slow
// requests, and of the mean slow and typical request, in nanoseconds. An excess may be
// negative.
func pprofTo(w io.Writer, r *detail.Recording) error {
	ns := func(name string) *profile.ValueType { return &profile.ValueType{Type: name, Unit: "nanoseconds"} }
	p := &profile.Profile{
		SampleType:        []*profile.ValueType{ns("typical"), ns("slow"), ns("excess")},
		DefaultSampleType: "excess",
		DurationNanos:     r.DurationNS,
	}
	if !r.Start.IsZero() {
		p.TimeNanos = r.Start.UnixNano()
	}
	type named struct{ name, file string }
	functions := map[named]*profile.Function{}
	places := make([]*profile.Location, len(r.Frames))
	place := func(i int) *profile.Location {
		if places[i] != nil {
			return places[i]
		}
		f := &r.Frames[i]
		key := named{text(f.Function), text(f.File)}
		fn := functions[key]
		if fn == nil {
			fn = &profile.Function{ID: uint64(len(p.Function) + 1), Name: key.name, SystemName: key.name, Filename: key.file}
			functions[key] = fn
			p.Function = append(p.Function, fn)
		}
		places[i] = &profile.Location{ID: uint64(len(p.Location) + 1), Line: []profile.Line{{Function: fn, Line: int64(f.Line)}}}
		p.Location = append(p.Location, places[i])
		return places[i]
	}
	slow := slowMeans(r)
	for i := range r.Leaves {
		l := &r.Leaves[i]
		s := &profile.Sample{
			Value: []int64{round(l.TypicalNS), round(slow[i]), round(l.ExcessNS)},
			Label: map[string][]string{"kind": {l.Kind}},
		}
		if s.Value[0] == 0 && s.Value[1] == 0 && s.Value[2] == 0 {
			continue
		}
		if l.Cause != "" {
			s.Label["cause"] = []string{l.Cause}
		}
		for n := len(l.Stack) - 1; n >= 0; n-- { // pprof has the innermost first
			s.Location = append(s.Location, place(l.Stack[n]))
		}
		p.Sample = append(p.Sample, s)
	}
	return p.Write(w)
}

func round(ns float64) int64 { return int64(math.Round(ns)) }

// slowMeans are, by leaf, the means over the slow requests.
func slowMeans(r *detail.Recording) []float64 {
	sum, n := make([]float64, len(r.Leaves)), 0.
	for i := range r.Requests {
		x := &r.Requests[i]
		if x.Band != detail.Tail {
			continue
		}
		n += x.Weight
		for _, p := range x.Pieces {
			sum[p.Leaf] += x.Weight * float64(p.NS)
		}
	}
	for i := range sum {
		sum[i] /= max(n, 1)
	}
	return sum
}
