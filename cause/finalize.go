package cause

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/request"
)

// Finalized is what slow requests waited for what finalizers and cleanups give back.
type Finalized struct {
	Keys []blame.KeyID
	// Site is where most of that is waited for, Part the part of all waits there that
	// finalizers ended, Waits the number of these.
	Site  blame.SiteID
	Part  float64
	Waits int
	// Idle is the part of the time in which there was no finalizer to run, because the
	// collector had not found anything, Weak that in which weak pointers had to wait for
	// it. Else What was done.
	Idle, Weak float64
	What       blame.LeafKind
	// Class is that of the goroutines that ran them, Where the place of the finalizer
	// that took most of the time, nil if it is none of the target's own.
	Class blame.ClassID
	Where *Place
}

// mostlyFinalized is the part of the waits at a place that finalizers must end for what
// is waited for there to come back by them: below it most of it is given back otherwise.
const mostlyFinalized = 0.5

// Finalized sums up the waits that finalizers ended, and those that weak pointers caused.
// A lock in front of them is left alone, unless its holder needs what they give back as
// much as those who wait for the lock.
func (c *Case) Finalized() *Finalized {
	w := c.Processors().Winner
	direct := func(k blame.Key) bool { // a queue of theirs, whatever kind it is
		if k.Kind == blame.Open || k.Kind == blame.Awaited { // nobody ended the wait, but those of others there
			if c.A.Queue(k.Site).Finalizers > mostlyFinalized {
				return true
			}
		}
		_, h := c.Serial(k)
		return c.A.Finalizing(h.Waker)
	}
	is := func(k blame.Key) bool {
		switch k.Kind {
		case blame.GCWait:
			return c.A.Sites[k.Site].Kind == blame.SiteWeak
		case blame.Behind:
			return direct(k) && (w == Own || w == NoHolder)
		case blame.Open, blame.Awaited:
			return direct(k)
		}
		return c.A.Finalizing(k.Class) || direct(k)
	}
	f := &Finalized{Keys: c.Root(is).Keys}
	mine := map[blame.KeyID]bool{}
	for _, id := range f.Keys {
		mine[id] = true
	}
	for _, id := range c.Free(func(k blame.Key) bool { return is(k) && direct(k) }) {
		if !mine[id] {
			f.Keys = append(f.Keys, id)
		}
	}
	c.describe(f)
	return f
}

// describe fills in what is known of f.Keys.
func (c *Case) describe(f *Finalized) {
	f.Site, _ = TopBy(c, f.Keys, func(k blame.Key) blame.SiteID {
		if _, h := c.Serial(k); h.Site != 0 {
			return h.Site
		}
		return k.Site
	})
	q := c.A.Queue(f.Site)
	f.Waits, f.Part = q.Waits, q.Finalizers
	type leaf struct {
		kind  blame.LeafKind
		class blame.ClassID
		site  blame.SiteID
	}
	var worked []blame.KeyID
	sum := max(1, c.Sum(f.Keys))
	for _, id := range f.Keys {
		switch k := c.Key(id); {
		case k.Kind == blame.UnknownHolder, k.Kind == blame.Unresolved:
		case k.Kind == blame.GCWait:
			f.Weak += c.NS[id] / sum
		case k.Kind == blame.Uncollected, k.Kind == blame.Open, k.Kind == blame.Awaited:
			f.Idle += c.NS[id] / sum
		default:
			worked = append(worked, id)
		}
	}
	top, _ := TopBy(c, worked, func(k blame.Key) leaf { return leaf{k.Kind, k.Class, k.Site} })
	f.What, f.Class = top.kind, top.class
	gave, _ := TopBy(c, worked, func(k blame.Key) blame.SiteID {
		_, h := c.Serial(k)
		return h.WakerSite
	})
	if f.Where = c.finalizer(gave); f.Where == nil {
		f.Where = c.PlaceOfKeys(worked)
	}
}

// finalizer returns the finalizer on a site's stack: the outermost function of the
// target's own.
func (c *Case) finalizer(s blame.SiteID) *Place {
	frames := c.A.Timeline().Stacks.Frames(c.A.Sites[s].Stack)
	for i := len(frames) - 1; i >= 0; i-- {
		if f, ok := request.AppFrame(frames[i : i+1]); ok {
			return &Place{Function: f.Func, File: f.File, Line: f.Line}
		}
	}
	return nil
}

// FinalizerEvidence says who gives back what is waited for.
func (c *Case) FinalizerEvidence(f *Finalized) Evidence {
	if f.Waits == 0 {
		return Evidence{Text: "nothing was given back where they wait in the whole recording", Holds: No, Decides: true}
	}
	return Evidence{
		Text:  fmt.Sprintf("finalizers or cleanups ended %s of %d waits in %s", Pct(f.Part), f.Waits, c.SiteName(f.Site)),
		Holds: Of(f.Part > mostlyFinalized), Decides: true, Number: f.Part,
	}
}
