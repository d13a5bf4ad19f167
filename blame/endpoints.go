package blame

import (
	"cmp"
	"slices"
)

// Latency is how long the requests of one endpoint took, in nanoseconds.
type Latency struct {
	// Endpoint is an index into request.Found.Endpoints.
	Endpoint int
	// N is how many requests it has, by weight, those of them in the tail Slow. Of Unseen the
	// endpoint is presumed, see request.Request.
	N, Slow, Unseen float64
	P50, P99, Max   int64
}

// Latencies returns the latency of each endpoint, those with most of the slowest requests first.
func (p *Population) Latencies() []Latency {
	of := map[int]int{}
	var all []Latency
	endpoint := func(r row) *Latency {
		e := p.a.f.Requests[p.a.Requests[r.req].Request].Endpoint
		i, ok := of[e]
		if !ok {
			i = len(all)
			of[e], all = i, append(all, Latency{Endpoint: e})
		}
		return &all[i]
	}
	for _, r := range p.rows {
		l := endpoint(r)
		l.N += r.weight
		l.Max = r.d // they are in order of duration
		if p.a.f.Requests[p.a.Requests[r.req].Request].Unseen {
			l.Unseen += r.weight
		}
	}
	for _, i := range p.Tail().rows {
		endpoint(p.rows[i]).Slow += p.rows[i].weight
	}
	sums := make([]float64, len(all))
	for _, r := range p.rows {
		l := endpoint(r)
		before := sums[of[l.Endpoint]]
		sum := before + r.weight
		if sums[of[l.Endpoint]] = sum; before < 0.5*l.N {
			l.P50 = r.d
		}
		if before < 0.99*l.N {
			l.P99 = r.d
		}
	}
	slices.SortStableFunc(all, func(a, b Latency) int {
		return cmp.Or(cmp.Compare(b.Slow, a.Slow), cmp.Compare(b.N, a.N), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return all
}
