package cause

import (
	"fmt"
	"slices"
	"sort"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Answerer is the goroutine that answers, in the process itself, what requests ask by a broker. Nothing in a trace leads to it: who
// waits is woken by who reads the broker's connection.
type Answerer struct {
	// Keys are the waits for the answers.
	Keys []blame.KeyID
	G    timeline.GID
	// InWaits is the part of the slow requests' waits in which it is at work, Always that of the recording.
	InWaits, Always float64
	// Own is the part of these waits since the last answer to somebody else, or since they began: the rest is behind others.
	Own float64
	// Kind is what most of its work is meanwhile, Where its place.
	Kind  blame.LeafKind
	Where *Place
}

const (
	// answersIn is the part of the waits in which one must be at work to be who answers, and answersMore how many times as much as
	// at any time that must be: of three it was 0.99 or more, and 1.2 to 12 times as much, and of one that answers in time 0.04.
	answersIn, answersMore = 0.9, 1.1
	// ownMost is the part of the waits that may be their own, where it waits for a peer, for it to be the queue in front of it: what is
	// ahead is twice as long (CAUSES, one owner per nanosecond).
	ownMost = 1. / 3
	// mostAnswerers bounds how many goroutines are asked whether they answer, and mostAsked how many answers of requests are looked at:
	// with more nothing is said.
	mostAnswerers, mostAsked = 256, 1 << 17
)

// Answerer returns who answers in the process what requests ask by a broker; nil if nobody is known to.
func (c *Case) Answerer() *Answerer {
	a := &Answerer{Keys: c.askedWithin(c.PeerWaits()), G: timeline.NoG}
	if len(a.Keys) == 0 || c.TooLittle(a.Keys) {
		return nil
	}
	slow, ends := c.asked()
	if len(slow) == 0 {
		return nil
	}
	waits := union(slices.Clone(slow))
	total := timeline.Time(0)
	for _, s := range waits {
		total += s.End - s.Start
	}
	t, client, n := c.A.Timeline(), request.PackageOf(blame.Asks), 0
	for g := range t.Gs {
		id := timeline.GID(g)
		if request.PackageOf(t.Gs[g].Root()) != client || c.A.Found().Entry(id) {
			continue
		}
		if n++; n > mostAnswerers {
			return nil
		}
		in, all := c.atWork(id, waits)
		if part := float64(in) / float64(max(1, total)); part > a.InWaits {
			a.G, a.InWaits, a.Always = id, part, float64(all)/float64(max(1, t.Duration()))
		}
	}
	if a.G == timeline.NoG || a.InWaits < answersIn || a.InWaits < answersMore*a.Always {
		return nil
	}
	var own, sum timeline.Time
	for _, s := range slow {
		begun := s.Start
		if i := sort.Search(len(ends), func(i int) bool { return ends[i] >= s.End }); i > 0 {
			begun = max(begun, ends[i-1])
		}
		own, sum = own+s.End-begun, sum+s.End-s.Start
	}
	a.Own = float64(own) / float64(max(1, sum))
	c.doing(a, waits)
	return a
}

// Serial reports whether it is the queue in front of it that slow requests wait in, and not what it does for each.
func (a *Answerer) Serial() bool {
	return a.Kind == blame.CPU || a.Kind == blame.Timer || a.Own < ownMost
}

// Evidence says what is known of it.
func (a *Answerer) Evidence(c *Case) []Evidence {
	return []Evidence{
		{
			Text: fmt.Sprintf("the process is connected to itself, and %s takes there what is asked by the broker: it is at work for %s of the slow requests' waits for an answer, and for %s of the recording",
				c.ClassName(c.A.ClassAt(a.G, c.A.Timeline().End)), Pct(a.InWaits), Pct(a.Always)),
			Holds: Yes, Decides: true, Number: a.InWaits,
		},
		{
			Text:  fmt.Sprintf("for %s of these waits the last answer was somebody else's", Pct(1-a.Own)),
			Holds: Yes, Number: 1 - a.Own,
		},
	}
}

// asked returns the slow requests' waits for an answer that they ask a broker for, and when all requests' ended, in order; nothing if
// these are more than mostAsked.
func (c *Case) asked() (slow []timeline.Span, ends []timeline.Time) {
	tail := map[int]bool{}
	for _, i := range c.Tail {
		tail[i] = true
	}
	for _, i := range c.P.All() {
		for _, x := range c.A.Attempts(i) {
			if !c.A.Sites[x.Site].Asks {
				continue
			}
			if ends = append(ends, x.End); tail[i] {
				slow = append(slow, timeline.Span{Start: x.Start, End: x.End})
			}
		}
		if len(ends) > mostAsked {
			return nil, nil
		}
	}
	slices.Sort(ends)
	return slow, ends
}

// atWork returns for how long a goroutine has work, in spans, which are apart and in order, and in all.
func (c *Case) atWork(g timeline.GID, spans []timeline.Span) (in, all timeline.Time) {
	for s := range c.works(g) {
		in, all = in+timeline.Overlap(spans, s.Start, s.End), all+s.End-s.Start
	}
	return in, all
}

// works yields what a goroutine of a library does, but for where it waits itself: what it calls of the program, and waits there.
func (c *Case) works(g timeline.GID) func(yield func(timeline.Segment) bool) {
	t, calls := c.A.Timeline(), map[gotrace.StackID]bool{}
	return func(yield func(timeline.Segment) bool) {
		me := &t.Gs[g]
		for i := range me.Len() {
			s := me.Seg(i)
			if s.Kind == timeline.Waiting {
				in, ok := calls[s.Stack]
				if !ok {
					_, in = request.AppFrame(t.Stacks.Frames(s.Stack))
					calls[s.Stack] = in
				}
				if !in {
					continue
				}
			}
			if !yield(s) {
				return
			}
		}
	}
}

// doing fills in what the answerer does in spans for most of the time.
func (c *Case) doing(a *Answerer, spans []timeline.Span) {
	type leaf struct {
		kind  blame.LeafKind
		place Place
	}
	by, most := map[leaf]timeline.Time{}, leaf{}
	for s := range c.works(a.G) {
		x := leaf{kind: blame.Awaited}
		switch {
		case s.Kind == timeline.Runnable:
			continue // it has work, but does none
		case s.Kind == timeline.Running:
			x.kind = blame.CPU
		case s.Kind == timeline.Syscall:
			x.kind = blame.Syscall
		case s.Reason == timeline.ReasonSleep:
			x.kind = blame.Timer
		case s.Reason == timeline.ReasonNetwork || c.A.SiteOf(s.Stack).Kind == blame.SiteCall:
			x.kind = blame.Network
		}
		if f, ok := request.AppFrame(c.A.Timeline().Stacks.Frames(s.Stack)); ok && x.kind != blame.CPU {
			x.place = Place{Function: f.Func, File: f.File, Line: f.Line}
		}
		by[x] += timeline.Overlap(spans, s.Start, s.End)
		if by[x] > by[most] {
			most = x
		}
	}
	if a.Kind, a.Where = most.kind, &most.place; most.place.Function == "" {
		a.Where = c.ClassPlace(c.A.ClassAt(a.G, c.A.Timeline().End))
	}
}
