package blame

import (
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// heldSection is a stack on which something was released for who waited at a site.
type heldSection struct {
	release gotrace.StackID
	site    SiteID
}

// Section returns the frame in which the holder of a lock that a hop was a wait for held
// it, on its stack when it released it: the innermost outside the standard library,
// unless that is but a wrapper around the unlock, or one that calls what it is given while
// it holds it, see calledBack. own says that it is a lock which the program made itself, of
// channels or conditions. ok is false for other hops, and where no function explains the wait.
func (a *Attribution) Section(h Hop, own bool) (f gotrace.Frame, ok bool) {
	frames := a.t.Stacks.Frames(a.Sites[h.WakerSite].Stack)
	at := func(s timeline.Segment) bool { return a.siteOf(s.WakerStack) == h.WakerSite }
	if !a.lockLike(h) && !(own && a.permitLike(h)) {
		return f, false
	}
	for { // the innermost that explains
		if f, ok = request.AppFrame(frames); !ok || a.explains(at, h.Site, f.Func) {
			break
		}
		frames = frames[slices.Index(frames, f)+1:]
	}
	if !ok {
		return f, false
	}
	if in, called := a.calledBack(at, h.Site, f.Func); called {
		return in, true
	}
	return f, true
}

// section returns the function in which a holder released what others waited for at
// a site, on its stack at that moment: the innermost function outside the standard
// library that other events of the recording have on their stacks too. A wrapper
// around the unlock hardly ever occurs there, the critical section does. If it does,
// because somebody was preempted in it, two things tell: nobody ever waits for a lock
// in it, and it leaves most of the time unexplained in which others waited.
func (a *Attribution) section(release gotrace.StackID, site SiteID) string {
	key := heldSection{release, site}
	if f, ok := a.sections[key]; ok {
		return f
	}
	at := func(s timeline.Segment) bool { return s.WakerStack == release }
	waiting := a.Sites[site].Stack
	found, sure := "", false
	frames := a.t.Stacks.Frames(release)
	for !sure && len(frames) > 0 {
		f, app := request.AppFrame(frames)
		if !app {
			break
		}
		if x := a.blocking[f.Func]; found == "" && x.blocks {
			found, sure = f.Func, x.locks || a.explains(at, site, f.Func)
		} else if found != "" && a.on(waiting, f.Func) && a.explains(at, site, f.Func) {
			found, sure = f.Func, true
		}
		if i := slices.Index(frames, f); i >= 0 {
			frames = frames[i+1:]
		}
	}
	a.sections[key] = found
	return found
}

// Bounds of what is looked at of holds.
const (
	maxExplained  = 200        // releases
	maxEntered    = 100        // pieces of a holder's life before each
	maxExplaining = 20_000_000 // of both, in all
)

// holds calls do for the last releases at a site that at accepts: who held what others waited for,
// and since when, that is since the release before, or since they waited.
func (a *Attribution) holds(at func(timeline.Segment) bool, site SiteID, do func(g timeline.GID, from, to timeline.Time)) {
	rs := a.releases[site]
	for i, n := len(rs)-1, 0; i >= 0 && n < maxExplained && a.explainable > 0; i-- {
		a.explainable--
		s := a.t.Gs[rs[i].g].Seg(int(rs[i].seg))
		if !at(s) {
			continue
		}
		n++
		from := s.Start
		if i > 0 {
			from = max(from, rs[i-1].at)
		}
		do(s.Waker, from, s.End)
	}
}

// stood calls do for the stacks that are known of a goroutine in [from, to], last first: in the pieces in which it did not
// run, until it returns false, and then in samples of its CPU time, until it does.
func (a *Attribution) stood(g timeline.GID, from, to timeline.Time, do func(s gotrace.StackID, start, end timeline.Time, sample bool) bool) {
	me := &a.t.Gs[g]
	for k, steps := me.SegmentAt(to)-1, 0; k >= 0 && me.Seg(k).End > from && steps < maxEntered; k, steps = k-1, steps+1 {
		a.explainable--
		if x := me.Seg(k); x.Stack != 0 && x.Kind != timeline.Running && !do(x.Stack, x.Start, x.End, false) {
			break
		}
	}
	all := a.sampled[g]
	for k := sort.Search(len(all), func(i int) bool { return a.t.Samples[all[i]].Time > to }) - 1; k >= 0; k-- {
		s := &a.t.Samples[all[k]]
		if s.Time <= from {
			break
		}
		a.explainable--
		if _, app := request.AppFrame(a.t.Stacks.Frames(s.Stack)); app && !do(s.Stack, s.Time, s.Time, true) {
			break
		}
	}
}

// explains reports whether holders that release somewhere, for those who wait at a
// site, stood in a function for most of the time since the release before it, while
// others waited: somebody held what they waited for.
func (a *Attribution) explains(at func(timeline.Segment) bool, site SiteID, function string) bool {
	var held, waited timeline.Time
	a.holds(at, site, func(g timeline.GID, from, to timeline.Time) {
		since := from
		a.stood(g, from, to, func(s gotrace.StackID, _, end timeline.Time, _ bool) bool {
			if a.on(s, function) {
				return true
			}
			since = max(since, min(end, to))
			return false
		})
		held += to - since
		waited += to - from
	})
	return waited > 0 && 2*held >= waited
}

// calledBack returns the frame of what a function calls while it holds what others wait for, where that is what
// it was given by who called it: a literal of that one, or a function of a package that called it, which it
// cannot import. ok is false where most of what is known of the holds is something else.
func (a *Attribution) calledBack(at func(timeline.Segment) bool, site SiteID, function string) (in gotrace.Frame, ok bool) {
	type called struct {
		frame gotrace.Frame
		ns    timeline.Time
	}
	by := map[string]called{}
	var all timeline.Time
	a.holds(at, site, func(g timeline.GID, from, to timeline.Time) {
		a.stood(g, from, to, func(s gotrace.StackID, start, end timeline.Time, sample bool) bool {
			frames := a.t.Stacks.Frames(s)
			i := slices.IndexFunc(frames, func(f gotrace.Frame) bool { return f.Func == function })
			if i < 0 {
				return false
			}
			ns := max(min(end, to)-max(start, from), 0)
			if sample {
				ns = samplePeriod
			}
			if all += ns; i > 0 && givenBy(frames[i-1], frames[i:]) {
				x := by[frames[i-1].Func]
				by[frames[i-1].Func] = called{frames[i-1], x.ns + ns}
			}
			return true
		})
	})
	for _, x := range by {
		if 2*x.ns > all {
			return x.frame, true
		}
	}
	return in, false
}

// givenBy reports whether a function outside the standard library was given to the one that calls it, the first of frames,
// by one that called that: it is a literal of one of them, or of the package that called the package of the first.
func givenBy(function gotrace.Frame, frames []gotrace.Frame) bool {
	if _, app := request.AppFrame([]gotrace.Frame{function}); !app {
		return false
	}
	mine, caller := request.PackageOf(frames[0].Func), ""
	for _, f := range frames[1:] {
		if strings.HasPrefix(function.Func, f.Func+".func") {
			return true
		}
		if pkg := request.PackageOf(f.Func); caller == "" && pkg != mine {
			caller = pkg
		}
	}
	pkg := request.PackageOf(function.Func)
	return pkg != mine && pkg == caller
}
