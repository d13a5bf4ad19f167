package cause

import (
	"cmp"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/timeline"
)

// Retries is what slow requests spend on a call that they make again and again.
type Retries struct {
	// Site is where they call, Pause where they mostly sleep before they call again,
	// 0 if they do not.
	Site, Pause blame.SiteID
	// Calls are the free pieces of calls there, only those that timed out if these
	// are MinAgain or more, and Pauses those of the sleeps.
	Calls, Pauses []blame.KeyID
	// Made is how many calls a slow request makes there that has to make one again,
	// TimedOut how many of them time out, and Paused before how many it sleeps.
	Made, TimedOut, Paused float64
	// Low and High are the quartiles of the lengths of what timed out.
	Low, High int64
	// Part is the part of the slow requests' time in time-outs and pauses.
	Part float64
	// Others are the requests that call there and have nothing to repeat, Usual is
	// how many calls they make.
	Others int
	Usual  float64
	// Load is how many times as many calls all requests make as if none were
	// repeated; 0 if nobody knows.
	Load float64
	// Habit is the part of the typical requests that sleep between calls.
	Habit float64
}

// MinAgain is how often a slow request has to have had to call again: one time-out
// is but one late answer, the next says what trying again is worth.
const MinAgain = 2

// tally is what a request does at one site: calls, those that timed out, and those
// that it slept before, with the nanoseconds of time-outs and of sleeps.
type tally struct {
	made, timedOut, paused float64
	out, slept             int64
}

// again reports whether a call had to be made again.
func (t tally) again() bool { return t.timedOut > 0 || t.paused > 0 }

// tallyAt sums up a request's attempts at a site, as many as follow each other:
// calls that run at a time are none that are made again.
func tallyAt(site blame.SiteID, all []blame.Attempt) (t tally) {
	at := make([]blame.Attempt, 0, len(all))
	for _, x := range all {
		if x.Site == site {
			at = append(at, x)
		}
	}
	slices.SortFunc(at, func(x, y blame.Attempt) int {
		return cmp.Or(cmp.Compare(x.End, y.End), cmp.Compare(x.Start, y.Start))
	})
	var end timeline.Time
	for _, x := range at {
		if x.Start < end {
			continue
		}
		end = x.End
		t.made++
		if x.TimedOut {
			t.timedOut++
			t.out += int64(x.End - x.Start)
		}
		if x.Pause != 0 {
			t.paused++
			t.slept += int64(x.Paused)
		}
	}
	return t
}

// Retries finds the call that slow requests lose most time by repeating, nil if
// they repeat none.
func (c *Case) Retries() *Retries {
	attempts := map[int][]blame.Attempt{}
	lost := map[blame.SiteID]timeline.Time{}
	r := &Retries{}
	for _, i := range c.Tail {
		attempts[i] = c.A.Attempts(i)
		for _, x := range attempts[i] {
			if x.Pause != 0 {
				lost[x.Site] += x.Paused
			}
			if x.TimedOut {
				lost[x.Site] += x.End - x.Start
			}
		}
	}
	for site, d := range lost {
		if d > lost[r.Site] || d > 0 && d == lost[r.Site] && site < r.Site {
			r.Site = site
		}
	}
	if r.Site == 0 {
		return nil
	}
	slept := r.slow(c, attempts)
	r.compare(c)
	r.claim(c, slept)
	return r
}

// slow measures what slow requests do at the site, and returns for how long they
// sleep before calls, in nanoseconds per request.
func (r *Retries) slow(c *Case, attempts map[int][]blame.Attempt) (slept float64) {
	var lengths []int64
	pauses := map[blame.SiteID]timeline.Time{}
	var n, lost, all float64
	for _, i := range c.Tail {
		t := tallyAt(r.Site, attempts[i])
		all += float64(c.A.Requests[i].D)
		if !t.again() {
			continue
		}
		n++
		r.Made, r.TimedOut, r.Paused = r.Made+t.made, r.TimedOut+t.timedOut, r.Paused+t.paused
		lost += float64(t.out + t.slept)
		slept += float64(t.slept)
		for _, x := range attempts[i] {
			if x.Site != r.Site {
				continue
			}
			if x.TimedOut {
				lengths = append(lengths, int64(x.End-x.Start))
			}
			if pauses[x.Pause] += x.Paused; x.Pause != 0 && (r.Pause == 0 || pauses[x.Pause] > pauses[r.Pause]) {
				r.Pause = x.Pause
			}
		}
	}
	r.Made, r.TimedOut, r.Paused = r.Made/n, r.TimedOut/n, r.Paused/n
	r.Part = lost / max(all, 1)
	if slices.Sort(lengths); len(lengths) > 0 {
		r.Low, r.High = lengths[len(lengths)/4], lengths[len(lengths)*3/4]
	}
	return slept / float64(max(1, len(c.Tail)))
}

// compare measures what other requests do at the site.
func (r *Retries) compare(c *Case) {
	var calls, callers, others float64
	for _, i := range c.P.All() {
		t, w := tallyAt(r.Site, c.A.Attempts(i)), c.A.Weight[i]
		if t.made == 0 {
			continue
		}
		calls, callers = calls+w*t.made, callers+w
		if !t.again() {
			r.Others++
			others += w
			r.Usual += w * t.made
		}
	}
	if r.Others > 0 {
		r.Usual /= others
		r.Load = calls / (callers * r.Usual)
	}
	for _, i := range c.Typical {
		if tallyAt(r.Site, c.A.Attempts(i)).paused > 0 {
			r.Habit += 1 / float64(len(c.Typical))
		}
	}
}

// claim collects the pieces; slept is how long a slow request sleeps before calls.
func (r *Retries) claim(c *Case, slept float64) {
	r.Calls = c.Free(func(k blame.Key) bool {
		if r.TimedOut >= MinAgain && k.Flags&blame.TimedOut == 0 || r.TimedOut < MinAgain && !Waits(k) {
			return false
		}
		return k.Site == r.Site || k.First.Site == r.Site || k.Queue.Site == r.Site || k.Last.Site == r.Site
	})
	if r.Pause == 0 {
		return
	}
	pauses := c.Free(func(k blame.Key) bool { return k.Kind == blame.Timer && k.Site == r.Pause })
	if slept >= 0.5*c.Sum(pauses) { // else they mostly sleep there for something else
		r.Pauses = pauses
	}
}

// Repeated is how many calls requests make at a site, one after the other, and how long one
// takes, in nanoseconds, on average: slow requests, and typical ones. Where typical ones make none
// there, UsualNS is how long those take that they make elsewhere.
type Repeated struct{ Calls, Usual, NS, UsualNS float64 }

// Repeated compares the calls that slow and typical requests make at a site.
func (c *Case) Repeated(site blame.SiteID) (r Repeated) {
	r.Calls, r.NS = c.madeBy(site, c.Tail)
	if r.Usual, r.UsualNS = c.madeBy(site, c.Typical); r.Usual == 0 {
		r.UsualNS = c.callsTake(c.Typical)
	}
	return r
}

// callsTake is how long a call of requests that is answered takes, wherever they make it, in nanoseconds on average; 0 if there is none.
func (c *Case) callsTake(requests []int) (ns float64) {
	n := 0
	for _, i := range requests {
		for _, x := range c.A.Attempts(i) {
			if x.End > x.Start && !x.TimedOut {
				ns += float64(x.End - x.Start)
				n++
			}
		}
	}
	return ns / float64(max(1, n))
}

// madeBy is half of Repeated.
func (c *Case) madeBy(site blame.SiteID, requests []int) (made, ns float64) {
	for _, i := range requests {
		all := c.A.Attempts(i)
		made += tallyAt(site, all).made
		for _, x := range all {
			if x.Site == site {
				ns += float64(x.End - x.Start)
			}
		}
	}
	return made / float64(max(1, len(requests))), ns / max(1, made)
}

// severalCalls is how many calls a slow request must make, on average, where typical ones make none, for them to be many: with fewer it is
// something else that it asks for.
const severalCalls = 5

// Many reports whether it is how many calls slow requests make that takes them longer there,
// by so many nanoseconds, and not how long each takes.
func (r Repeated) Many(excess float64) bool {
	if r.Usual == 0 && r.Calls < severalCalls || r.Calls < 2 {
		return false // one is not many, if typical requests make none or half of them do
	}
	return r.UsualNS > 0 && r.NS <= GrownHold*r.UsualNS && 2*(r.Calls-r.Usual)*r.UsualNS >= excess
}
