package cause

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/timeline"
)

// AcceptQueue is what connections wait in the kernel until the process accepts them.
type AcceptQueue struct {
	// Accepted is how many were, Found how many of them were there before the goroutine
	// that accepts them came back for them.
	Accepted, Found int
	// Tail is what the slowest requests waited that way, as many as there are in the
	// tail band, and Typical a typical one; each connection delays one request. Mean is
	// over all connections, byTrace what it is after what was accepted when, whatever the kernel saw. In nanoseconds.
	Tail, Typical, Mean, byTrace float64
	// Runs is how many separate times there were connections that had waited.
	Runs  int
	times []events.Suspension // those times, in order
	// Stuck is how many connections waited in all looks of the recording, in which none was accepted.
	Stuck int
	// Dropped is how many attempts to connect found the queue full.
	Dropped int64
	// Instead is what the goroutine that accepts waits in meanwhile, "" if it does not;
	// Where is its place, if that is one of the program's own.
	Instead string
	Where   *Place
}

// dropped is what an attempt to connect costs that finds the queue full, in
// nanoseconds: its client tries again after that, or later.
const dropped = 1e9

// AcceptQueue returns what is known of the queue, nil where nobody would feel it.
func (c *Case) AcceptQueue() *AcceptQueue {
	q := &AcceptQueue{}
	var waits []float64
	at := map[blame.SiteID]float64{}
	runs := map[int]int{} // places in times
	accepted := c.A.Accepts(c.P.Role)
	for _, x := range accepted {
		q.byTrace += float64(x.Waited) / float64(len(accepted))
	}
	c.seeWaiting(accepted)
	for _, x := range accepted {
		waits = append(waits, float64(x.Waited))
		q.Mean += float64(x.Waited)
		if x.Waited < HealthyExcess {
			continue
		}
		q.Found++
		at[x.Away] += float64(x.Waited)
		from, to := int64(x.At-x.Waited), int64(x.At)
		if k, known := runs[x.Run]; known {
			q.times[k].FromNS, q.times[k].ToNS = min(q.times[k].FromNS, from), max(q.times[k].ToNS, to)
		} else {
			runs[x.Run] = len(q.times)
			q.times = append(q.times, events.Suspension{FromNS: from, ToNS: to})
		}
	}
	slices.SortFunc(q.times, func(a, b events.Suspension) int { return cmp.Compare(a.FromNS, b.FromNS) })
	if q.Accepted = len(waits); q.Accepted == 0 {
		t := c.A.Timeline()
		if q.Stuck = c.stuck(); q.Stuck == 0 {
			return nil
		}
		for range min(q.Stuck, c.P.Len()) { // whoever else waits changes nothing
			waits = append(waits, float64(t.Duration()))
			q.Mean += float64(t.Duration())
		}
		q.times = []events.Suspension{{FromNS: int64(t.Start), ToNS: int64(t.End)}}
		at[c.A.AcceptsNone()] = 1
	}
	q.Mean /= float64(max(1, len(waits)))
	q.Runs, q.Dropped = len(runs), c.overflowed()
	n := max(1, len(c.Tail))
	for range min(int(q.Dropped), n) {
		waits = append(waits, dropped)
	}
	slices.Sort(waits)
	slices.Reverse(waits)
	for _, w := range waits[:min(n, len(waits))] {
		q.Tail += w / float64(n)
	}
	if middle := int(c.P.N / 2); middle < len(waits) {
		q.Typical = waits[middle]
	}
	// Where every request is slow it must be felt beside that, too.
	if typical := c.P.Typical().Mean; q.Tail < StarvedDelay || q.Tail < (HealthyRatio-1)*typical || !felt(c.P.Tail().Mean+q.Tail, typical) {
		return nil
	}
	away := blame.SiteID(0)
	for site, ns := range at {
		if site != 0 && (ns > at[away] || ns == at[away] && site < away || away == 0) {
			away = site
		}
	}
	if away != 0 {
		q.Instead, q.Where = c.SiteName(away), c.PlaceOf(away)
	}
	return q
}

// seeWaiting says of connections how long they waited at least, after the looks at the listening sockets: as many as were seen in
// their queues, while who accepts was away from them, were accepted next, and had come by then.
func (c *Case) seeWaiting(accepted []blame.Accepted) {
	if c.Host == nil {
		return
	}
	slices.SortStableFunc(accepted, func(x, y blame.Accepted) int { return cmp.Compare(x.At, y.At) })
	for i := range c.Host.Samples {
		s := &c.Host.Samples[i]
		if s.Listen == nil {
			continue
		}
		next := sort.Search(len(accepted), func(k int) bool { return int64(accepted[k].At) >= s.MonoNS })
		for k := next; k > 0 && k < len(accepted) && int64(k-next) < min(s.Listen.Waiting, s.Listen.Room) && accepted[k].Run == accepted[next-1].Run; k++ {
			accepted[k].Waited = max(accepted[k].Waited, accepted[k].At-timeline.Time(s.MonoNS))
		}
	}
}

// stuck is how many connections were seen to wait in each of the looks at the listening sockets, 0 where these are too few to tell.
func (c *Case) stuck() int {
	if c.Host == nil {
		return 0
	}
	t := c.A.Timeline()
	looks, least := 0, int64(math.MaxInt32)
	for i := range c.Host.Samples {
		if s := &c.Host.Samples[i]; s.Listen != nil && s.MonoNS >= int64(t.Start) && s.MonoNS <= int64(t.End) {
			looks++
			least = min(least, s.Listen.Waiting)
		}
	}
	if looks < MinLooks {
		return 0
	}
	return int(max(0, least))
}

// overflowed is how many attempts to connect found a queue of the process full: its
// listening sockets count what they drop, and the network namespace what of that is
// for want of room.
func (c *Case) overflowed() int64 {
	if c.Host == nil {
		return 0
	}
	var first, last *host.Listen
	var before, after *host.Net
	for i := range c.Host.Samples {
		if s := &c.Host.Samples[i]; s.Listen != nil {
			if last = s.Listen; first == nil {
				first = last
			}
		}
		if s := &c.Host.Samples[i]; s.Net != nil {
			if after = s.Net; before == nil {
				before = after
			}
		}
	}
	if first == nil || before == nil {
		return 0
	}
	return max(0, min(last.Dropped-first.Dropped, after.ListenOverflows-before.ListenOverflows))
}

// QueueSeen says whether the kernel saw as many connections wait as q makes there
// should be: on average as many as come in the time that each waits (Little's law).
func (c *Case) QueueSeen(q *AcceptQueue) Evidence {
	e := Evidence{
		Text: "whether connections wait in the kernel meanwhile was not recorded", Decides: true,
		Record: "the queues of the listening sockets: run whylate on the machine of the process, without --no-host",
	}
	if c.Host == nil {
		return e
	}
	t := c.A.Timeline()
	looks, waiting, most := 0, 0.0, int64(0)
	for i := range c.Host.Samples {
		if s := &c.Host.Samples[i]; s.Listen != nil && s.MonoNS >= int64(t.Start) && s.MonoNS <= int64(t.End) {
			looks++
			waiting += float64(s.Listen.Waiting)
			most = max(most, s.Listen.Waiting)
		}
	}
	if looks == 0 {
		return e
	}
	mean := waiting / float64(looks)
	want := q.byTrace * float64(q.Accepted) / float64(max(1, t.Duration()))
	e.Number = mean
	e.Text = fmt.Sprintf("%.2f connections waited to be accepted on average over %d looks, up to %d at once; after what was accepted when, it should be %.2f at least", mean, looks, most, want)
	switch {
	case q.Dropped > 0, mean >= seenRatio*want:
		e.Holds = Yes
	case looks >= MinLooks && mean < seenRatio*seenRatio*want:
		e.Holds = No
	}
	return e
}

// seenRatio is the part of the connections that must be seen waiting; with its square it
// is denied that they did.
const seenRatio = 0.5
