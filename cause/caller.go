package cause

import (
	"cmp"
	"slices"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
)

// CallSite returns the site at which the program makes the call to a peer that a key is spent in: the
// goroutine that reads a connection has nothing of the program's own on its stack, but perhaps of a
// module that it was built with; who waits for it has, unless he queues for something else.
func (c *Case) CallSite(k blame.Key) blame.SiteID {
	sites := []blame.SiteID{k.Site, k.Last.Site, k.First.Site}
	if kind := c.HopKind(k.First); kind != NoQueue && kind != Reader {
		sites = sites[:2]
	}
	for _, s := range sites {
		if c.PlaceOf(s) != nil && len(c.callers(s)) > 0 {
			return s
		}
	}
	for _, s := range []blame.SiteID{k.Site, k.Last.Site} {
		if c.PlaceOf(s) != nil {
			return s
		}
	}
	return cmp.Or(k.First.Site, k.Site)
}

// Caller returns where the program makes the calls that slow requests wait for under keys at a
// site; at tells the site of a key. It is the innermost function of its own on the way, but for
// what a client library calls back, and for those of another package through which others call as
// well, who are not late: that package is the program's own client, for all who call. It is nil if there is none. called names
// the program's functions that it stands in, the innermost first, "" if there are none.
func (c *Case) Caller(site blame.SiteID, keys []blame.KeyID, at func(blame.Key) blame.SiteID) (place *Place, called string) {
	own := request.Callers(c.A.Timeline().Stacks.Frames(c.A.Sites[site].Stack))
	if len(own) == 0 {
		return c.PlaceOf(site), ""
	}
	i := 0
	for i+1 < len(own) && request.PackageOf(own[i].Func) != request.PackageOf(own[i+1].Func) && c.servesOthers(own[i].Func, own[i+1].Func, keys, at) {
		i++
	}
	var by []string
	for _, f := range own[i+1 : min(len(own), i+1+callersTold)] {
		by = append(by, shortName(f.Func))
	}
	return &Place{Function: own[i].Func, File: own[i].File, Line: own[i].Line}, strings.Join(by, ", ")
}

// callersTold is how many functions around a call are told: what is further out handles every request.
const callersTold = 3

// othersAside is the part of the late calls that may come from elsewhere.
const othersAside = 0.1

// servesOthers reports whether calls through a function come from elsewhere than from its caller,
// too, but hardly any of what slow requests wait for under keys.
func (c *Case) servesOthers(function, caller string, keys []blame.KeyID, at func(blame.Key) blame.SiteID) bool {
	through := func(k blame.Key) (in, by bool) {
		frames := c.A.Timeline().Stacks.Frames(c.A.Sites[at(k)].Stack)
		has := func(name string) bool {
			return slices.ContainsFunc(frames, func(f gotrace.Frame) bool { return f.Func == name })
		}
		in = has(function)
		return in, in && has(caller)
	}
	var late, elsewhere float64
	for _, id := range keys {
		in, by := through(c.Key(id))
		switch {
		case in && by:
			late += c.NS[id]
		case in:
			elsewhere += c.NS[id]
		}
	}
	if elsewhere > othersAside*late {
		return false
	}
	return slices.ContainsFunc(c.A.Keys, func(k blame.Key) bool {
		if k.Kind != blame.Network || isBlind(k) {
			return false
		}
		in, by := through(k)
		return in && !by
	})
}
