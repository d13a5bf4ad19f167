// Package memorylimitthrash is the cause memory-limit-thrash.
package memorylimitthrash

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/timeline"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "memory-limit-thrash", Title: "memory limit spiral", Rank: 203, Layer: cause.GC, Computes: true, Unwanted: true,
	What:       "What the process holds is close to its memory limit (GOMEMLIMIT). The garbage collector has no room left: one cycle begins as soon as the other has ended, or as soon as anything is allocated, and requests pay for all of them.",
	MustHold:   "hardly any room between what is alive and the heap's goal, a memory limit that makes it so, and cycles back to back in the slow requests, unless the room is so little that the limit makes most of them",
	MustNot:    "a heap that may grow by a quarter or more",
	LookAlikes: []string{"gc-workers", "gc-assist", "goroutine-leak", "growth"},
	Fix: []string{
		"raise GOMEMLIMIT, or the container's memory with it: live heap and stacks need at least half of it again",
		"find what is held: compare two heap profiles; a leak ends in this spiral",
		"keep GOGC on beside the limit, so that the collector may exceed it rather than stop all work",
	},
	Verify: "the limit raised by half in an interleaved A/B: cycles become rare, p99 and this share fall together",
	Judge:  judge,
}

const (
	// tight is the room, as a part of what is alive, below which the heap has none:
	// nobody sets a GOGC of less than 25.
	tight = 0.25
	// strangled is the room below which there are so many more cycles than with any GOGC
	// in use that those in slow requests are the limit's, one after the other or not: ten
	// times as many as with GOGC=100. A service that allocates only now and then does not
	// run them back to back: below limits that left 7 and 9 % p99 was twice that without
	// them, though marking took a fifth of the time.
	strangled = 0.1
	// bound is the part of the room that GOGC would give below which something else
	// sets the goal. GOGC also counts stacks and globals, which only adds to it.
	bound = 0.9
	// least is the room that GOGC=1 leaves.
	least = 0.01
	// What is alive varies if its quartiles lie varies of the median apart; something
	// else is the same if its do not lie same apart. With GOGC the room is the same to
	// a thousandth (0.2010 to 0.2012 over 30 cycles in which what was alive went from
	// 54 to 62 MB); below a limit, room of a quarter changes by five times the change
	// of what is alive, and the goal not at all.
	varies, same = 0.005, 0.004
	minCycles    = 5
	// marking is the part of the time from the beginning of one cycle to that of the
	// next that marking takes at least when cycles are back to back.
	marking = 0.5
)

func judge(c *cause.Case) *cause.Judgement {
	g := c.Collection()
	keys := g.All()
	if len(keys) == 0 {
		return nil
	}
	cycles := inTail(c)
	room, ok := typicalRoom(cycles)
	if !ok {
		return nil // too few cycles, or the trace does not tell their sizes
	}
	alloc, where := c.AllocationEvidence()
	often, set := backToBack(cycles), limit(c, cycles, room)
	often.Decides = len(cycles) < minCycles || room >= strangled || set.Holds != cause.Yes
	subject := "the garbage collector runs without end, because the heap has no room below the memory limit"
	if often.Holds != cause.Yes {
		subject = "the garbage collector runs as soon as anything is allocated, because the heap has no room below the memory limit"
	}
	return &cause.Judgement{
		Keys: keys, Where: where,
		Subject: subject,
		Evidence: []cause.Evidence{
			{
				Text:  fmt.Sprintf("between two cycles the heap may grow by %s of what is alive", cause.Pct(room)),
				Holds: cause.Of(room < tight), Decides: true, Number: room,
			},
			often, set,
			{Text: g.Split(c), Holds: cause.Yes, Number: c.Share(keys)},
			alloc,
		},
	}
}

// pair is a cycle in the slow requests and the one after it.
type pair struct{ this, next *timeline.Cycle }

// inTail returns the cycles that the heap began, that lie in slow requests, and
// that others follow.
func inTail(c *cause.Case) []pair {
	var out []pair
	cs := c.A.Timeline().Cycles
	for i := 1; i < len(cs); i++ {
		if cs[i-1].Starter == timeline.Paced && c.InTail(cs[i-1].Start, cs[i].Start) > 0 {
			out = append(out, pair{&cs[i-1], &cs[i]})
		}
	}
	return out
}

// typicalRoom is the median over cycles of the room that they leave: up to the
// goal, or where GOGC is off, up to where the next one began.
func typicalRoom(cycles []pair) (room float64, ok bool) {
	var rooms []float64
	for _, p := range cycles {
		r, ok := p.this.Room()
		if !ok && p.this.Live > 0 && p.next.Before > 0 {
			r, ok = float64(p.next.Before)/float64(p.this.Live)-1, true
		}
		if ok {
			rooms = append(rooms, r)
		}
	}
	return median(rooms)
}

func median(xs []float64) (x float64, ok bool) {
	if len(xs) == 0 {
		return 0, false
	}
	slices.Sort(xs)
	return xs[len(xs)/2], true
}

// backToBack says whether a cycle begins as soon as the last has ended.
func backToBack(cycles []pair) cause.Evidence {
	var parts []float64
	for _, p := range cycles {
		if d := p.next.Start - p.this.Start; d > 0 {
			parts = append(parts, float64(p.this.End-p.this.Start)/float64(d))
		}
	}
	part, _ := median(parts)
	return cause.Evidence{
		Text:  fmt.Sprintf("from one cycle to the next, marking takes %s of the time, over %d cycles in slow requests", cause.Pct(part), len(cycles)),
		Holds: cause.Of(part >= marking), Decides: true, Number: part,
	}
}

// steady reports whether something stays the same from cycle to cycle although what
// is alive does not. Where both do, nothing can be said.
func steady(cycles []pair, of func(*timeline.Cycle) float64) bool {
	var xs, live []float64
	for _, p := range cycles {
		if p.this.Live > 0 && p.this.Goal > p.this.Live {
			xs, live = append(xs, of(p.this)), append(live, float64(p.this.Live))
		}
	}
	return len(xs) >= minCycles && spread(live) >= varies && spread(xs) <= same
}

// spread is the distance of the quartiles, as a part of the median.
func spread(xs []float64) float64 {
	slices.Sort(xs)
	return (xs[len(xs)*3/4] - xs[len(xs)/4]) / xs[len(xs)/2]
}

// far reports whether a limit is so far above the heap's goals that it begins no
// cycle: stacks and the runtime's own memory take less than the heap in a spiral.
func far(limit string, cycles []pair) bool {
	most := uint64(0)
	for _, p := range cycles {
		most = max(most, p.this.Goal)
	}
	return most > 0 && bytesOf(limit) > 2*float64(most)
}

// bytesOf parses a GOMEMLIMIT; 0 if it is none.
// Source: runtime.parseByteCount.
func bytesOf(s string) float64 {
	unit := 1.0
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = n, math.Pow(1024, float64(i+1))
		}
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(s, "B"), 10, 64)
	if err != nil {
		return 0
	}
	return float64(n) * unit
}

// limit says whether a memory limit, and not GOGC, leaves so little room.
func limit(c *cause.Case, cycles []pair, room float64) cause.Evidence {
	e := cause.Evidence{Holds: cause.Yes, Decides: true, Number: room}
	env := c.Target.Env
	gogc, err := strconv.Atoi(env["GOGC"])
	off := slices.ContainsFunc(cycles, func(p pair) bool { return p.this.Live > 0 && p.this.Goal == 0 })
	switch set := env["GOMEMLIMIT"]; {
	case off:
		e.Text = "GOGC is off, so that only a memory limit can have begun these cycles"
	case err == nil && room >= bound*float64(gogc)/100:
		e.Text, e.Holds = fmt.Sprintf("GOGC=%d leaves no more room than that", gogc), cause.No
	case far(set, cycles):
		e.Text, e.Holds = fmt.Sprintf("GOMEMLIMIT=%s is more than twice the heap's goal", set), cause.No
	case set != "" && set != "off":
		e.Text = fmt.Sprintf("GOMEMLIMIT=%s is set", set)
	case err == nil:
		e.Text = fmt.Sprintf("GOGC=%d would leave more room: a memory limit takes it", gogc)
	case room < least:
		e.Text = "no GOGC leaves so little room: a memory limit takes it"
	case steady(cycles, func(c *timeline.Cycle) float64 { return float64(c.Goal)/float64(c.Live) - 1 }):
		e.Text, e.Holds = "the goal follows what is alive, always by the same part, as with a low GOGC", cause.No
	case steady(cycles, func(c *timeline.Cycle) float64 { return float64(c.Goal) }):
		e.Text = "the goal stays where it is, however much is alive, as with a memory limit"
	default:
		e.Text, e.Holds = "whether a memory limit or a low GOGC leaves so little room is unknown: the settings were not recorded", cause.Unknown
		e.Alike, e.Record = []string{"gc-assist"}, "GOGC and GOMEMLIMIT of the process, on its host"
		if g := c.Collection(); g.WorkerNS > g.AssistNS {
			e.Alike = []string{"gc-workers"}
		}
	}
	return e
}
