package cause

import (
	"fmt"

	"github.com/whylate/whylate/blame"
)

// Dispatch is waiting until a dispatcher starts a goroutine for the request: it starts one for each, and waits itself while as many as
// it lets work at a time are at work.
type Dispatch struct {
	Keys []blame.KeyID
	Site blame.SiteID // where requests wait
	// While requests are slow AtWork are at work on average when one is done, and those that are take Hold; Usual is what all take, in
	// nanoseconds.
	AtWork, Hold, Usual float64
	Part                float64 // of the waits at the site
	Jobs                int
}

// mostDispatched is the part of the waits that must end so.
const mostDispatched = 0.9

// Dispatch returns what slow requests spend so, nil where that is not most of what they wait for at the site, or none at all.
func (c *Case) Dispatch() *Dispatch {
	at := func(k blame.Key, born bool) bool {
		return k.First.Site != 0 && k.Queue.Site == 0 && k.Flags&blame.Self == 0 && (k.Flags&blame.Birth != 0) == born && c.HopKind(k.First) == Child
	}
	keys := c.Free(func(k blame.Key) bool { return at(k, true) })
	site, _ := TopBy(c, keys, func(k blame.Key) blame.SiteID { return k.First.Site })
	if site == 0 {
		return nil
	}
	keys = keep(keys, func(id blame.KeyID) bool { return c.Key(id).First.Site == site })
	own := c.Sum(c.Free(func(k blame.Key) bool { return at(k, false) && k.First.Site == site }))
	if c.Sum(keys) <= QueueRatio*own {
		return nil
	}
	by := c.A.Dispatched(site)
	if by.Part < mostDispatched || len(by.Jobs) < Pattern || c.A.HeldBack(by.By, c.tailSpans()) < 0.5 { // else something else holds it back
		return nil
	}
	d := &Dispatch{Keys: keys, Site: site, AtWork: by.AtWork(c.tailSpans()), Part: by.Part, Jobs: len(by.Jobs)}
	n := 0.0
	for _, j := range by.Jobs {
		took := float64(j.Ended - j.Begun)
		d.Usual += took / float64(len(by.Jobs))
		if c.InTail(j.Begun, j.Ended) > 0 {
			d.Hold, n = d.Hold+took, n+1
		}
	}
	d.Hold /= max(1, n)
	return d
}

// Evidence says who starts them, and whether they take no longer while requests are slow: else it is what they do that is late.
func (d *Dispatch) Evidence(c *Case) []Evidence {
	return []Evidence{
		{
			Text: fmt.Sprintf("one goroutine starts those that end %s of the waits in %s, each for one of them, and waits itself before it does: %.1f are at work on average when one is done and requests are slow",
				Pct(d.Part), c.SiteName(d.Site), d.AtWork),
			Holds: Yes, Decides: true, Number: d.AtWork,
		},
		{
			Text:  fmt.Sprintf("they take %s each while requests are slow, %s over all", Ms(d.Hold), Ms(d.Usual)),
			Holds: Of(d.Hold <= GrownHold*d.Usual), Decides: true, Number: d.Hold / max(1, d.Usual),
		},
	}
}
