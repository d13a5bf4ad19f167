package request

import (
	"sort"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Fixed returns what Find would, for requests that are known from elsewhere: the
// caller gives them, their endpoints' names, and the stack at which a goroutine
// waits for its next piece of work (0: it has no home). Every role below the
// largest of a request exists. The requests need not be in order.
func Fixed(t *timeline.Timeline, requests []Request, endpoints []string, home func(timeline.GID) gotrace.StackID) *Found {
	f := &Found{t: t, Requests: requests, Endpoints: endpoints, home: make([]int32, len(t.Gs)), firstBusy: make([]int32, len(t.Gs)+1), keys: make([]int32, t.Stacks.Len())}
	for s := range f.keys {
		f.keys[s] = keyFirst + int32(s)
	}
	for g := range f.home {
		if s := home(timeline.GID(g)); s != 0 {
			f.home[g] = f.keys[s]
		}
	}
	sort.SliceStable(requests, func(i, j int) bool {
		a, b := &requests[i], &requests[j]
		if a.InFlight != b.InFlight {
			return b.InFlight
		}
		return a.End() < b.End()
	})
	ended := 0
	for i := range requests {
		for len(f.Roles) <= requests[i].Role {
			f.Roles = append(f.Roles, Role{Name: "given"})
		}
		if !requests[i].InFlight {
			f.Roles[requests[i].Role].Count++
			ended++
		}
	}
	for i := range f.Roles {
		f.LargestShare = max(f.LargestShare, float64(f.Roles[i].Count)/float64(max(ended, 1)))
	}
	f.index()
	return f
}
