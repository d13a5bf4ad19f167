package blame

import "github.com/whylate/whylate/timeline"

// Arrival estimates the mean time, in nanoseconds, by which requests were late
// before the runtime saw them: of requests that began with a network wake-up,
// half the span since the network was last polled. The truth lies between 0 and
// twice that; it is not part of the requests' durations.
func (a *Attribution) Arrival(requests []int) float64 {
	if len(requests) == 0 || a.guards.NoArrival {
		return 0
	}
	var sum timeline.Time
	for _, i := range requests {
		r := &a.f.Requests[a.Requests[i].Request]
		if r.ByNetwork {
			sum += (r.Start() - a.t.LastPoll(0, r.Start())) / 2
		}
	}
	return float64(sum) / float64(len(requests))
}
