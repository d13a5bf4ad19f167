package blame

import (
	"cmp"
	"math"
	"slices"
)

const (
	// apart times as long as the quick requests of an endpoint do its median ones take, and quickPart of its requests, at
	// least, are quick, where an episode may hold most of its requests.
	apart     = 4
	quickPart = 0.2
	// clustered is by how many standard deviations fewer the changes between quick and slow must be than of requests in a
	// random order: less than once in 30,000 endpoints by chance.
	clustered = -4
)

// usual returns the requests of an endpoint that say what is usual for it, of all of them in order of their durations. An
// episode in which most of its requests begin, because they pile up in it, would else be taken for its nature: where the median
// is so much longer than the quick ones and the slow ones follow each other in time, only the quick are usual. Those of an
// endpoint that by its nature is either, as with a cache, take turns.
func (p *Population) usual(rows []int) []int {
	median := p.band(rows, TypicalLow, TypicalHigh, p.weights).Mean
	var quick, all float64
	n := 0
	for k, i := range rows {
		all += p.weights[i]
		if apart*float64(p.rows[i].d) <= median {
			quick += p.weights[i]
			n = k + 1
		}
	}
	if n < MinEndpoint || quick < quickPart*all || !p.turnsFew(rows, n) {
		return rows
	}
	return rows[:n]
}

// turnsFew reports whether the first n rows and the others, in order of their beginnings, change so rarely that it is not by
// chance, by the runs test of Wald and Wolfowitz (Annals of Mathematical Statistics 11, 1940).
func (p *Population) turnsFew(rows []int, n int) bool {
	type begun struct {
		at    int64
		quick bool
	}
	order := make([]begun, len(rows))
	for k, i := range rows {
		order[k] = begun{int64(p.a.f.Requests[p.a.Requests[p.rows[i].req].Request].Start()), k < n}
	}
	slices.SortStableFunc(order, func(x, y begun) int { return cmp.Compare(x.at, y.at) })
	runs := 1.0
	for k := 1; k < len(order); k++ {
		if order[k].quick != order[k-1].quick {
			runs++
		}
	}
	a, b := float64(n), float64(len(rows)-n)
	mean := 2*a*b/(a+b) + 1
	deviation := math.Sqrt((mean - 1) * (mean - 2) / (a + b - 1))
	return deviation > 0 && (runs-mean)/deviation <= clustered
}
