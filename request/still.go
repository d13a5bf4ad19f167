package request

import (
	"cmp"
	"slices"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Still are goroutines of known servers' handlers that waited at one place for all of a trace.
type Still struct {
	Stack gotrace.StackID
	N     int
}

// HangMin is the age from which on a request hangs that nothing ends, if all others are so much faster: whatever the last
// instants of a recording hold up is younger.
const HangMin timeline.Time = 100e6

// held reports whether a goroutine waited in a handler when the trace began, for so long that it is known to be late.
func (d *finder) held(gr *timeline.Goroutine) bool {
	if !d.t.First || gr.Born || gr.Len() < 2 || gr.Start() > d.t.Start {
		return false
	}
	s := gr.Seg(0)
	in := d.c.of(s.Stack)
	return s.Kind == timeline.Waiting && s.End-s.Start >= HangMin && in.flags&(inHandler|observer) == inHandler && d.acquires(s)
}

// Pools are functions, by prefix, that wait for an item of a client library's pool, and Permits such that wait for a permit.
// Source: the named packages' own sources (Go 1.22 to 1.26 for the standard library).
var (
	Pools = []string{
		"database/sql.(*DB).conn",
		"github.com/redis/go-redis/v9/internal/pool.(*ConnPool).waitTurn",
		"github.com/go-redis/redis/v8/internal/pool.(*ConnPool).waitTurn",
		"github.com/gomodule/redigo/redis.(*Pool).waitVacantConn",
		"github.com/jackc/puddle/",
	}
	Permits = []string{
		"golang.org/x/sync/semaphore.(*Weighted).Acquire",
		"google.golang.org/grpc/internal/transport.(*http2Client).NewStream",
		"golang.org/x/net/http2.(*ClientConn).awaitOpenSlotForStreamLocked",
		"net/http.(*http2ClientConn).awaitOpenSlotForStreamLocked",
	}
)

// acquires are functions that wait for what others have and are to give back soon: nobody waits in them
// on purpose, as for news.
var acquires = slices.Concat(Pools, Permits, []string{"sync.(*Mutex).Lock", "sync.(*RWMutex).Lock", "sync.(*RWMutex).RLock"})

// stands looks at a goroutine that a known server's handlers run on and of which a trace holds nothing but that it
// waited in one of them. What it waits for in acquires makes that a request, which hangs; others may wait on purpose.
func (d *finder) stands(g timeline.GID, name string, shape Shape) {
	gr := &d.t.Gs[g]
	if !d.t.First || gr.Len() != 1 || gr.Start() > d.t.Start || gr.End() < d.t.End {
		return // where a later part begins it is in flight in the one before
	}
	s := gr.Seg(0)
	in := d.c.of(s.Stack)
	if s.Kind != timeline.Waiting || in.flags&inHandler == 0 || in.flags&(observer|streaming|httpBody) != 0 || in.foreign() {
		return
	}
	if d.acquires(s) {
		d.add(d.roleOf(name, shape, d.h.of[g].name, keyNone),
			Request{Parts: d.parts(Part{g, gr.Start(), gr.End()}), InFlight: true}, evidence{node: in.node, shared: in.node, shows: true})
		return
	}
	d.still[s.Stack]++
}

// acquires reports whether a wait is in acquires; who connects there waits for the network.
func (d *finder) acquires(s timeline.Segment) bool {
	return s.Reason != timeline.ReasonNetwork && slices.ContainsFunc(d.t.Stacks.Frames(s.Stack), func(f gotrace.Frame) bool {
		return slices.ContainsFunc(acquires, func(a string) bool { return strings.HasPrefix(f.Func, a) })
	})
}

// stills are in order of how many wait.
func stills(n map[gotrace.StackID]int) (all []Still) {
	for s, n := range n {
		all = append(all, Still{s, n})
	}
	slices.SortFunc(all, func(a, b Still) int { return cmp.Or(b.N-a.N, int(a.Stack)-int(b.Stack)) })
	return all
}
