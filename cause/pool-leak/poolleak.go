// Package poolleak is the cause pool-leak.
package poolleak

import (
	"fmt"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/request"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "pool-leak", Title: "pool leak", Rank: 399, Layer: cause.Client, Unwanted: true, Broken: true,
	What:       "Connections or permits of a pool are taken and never given back, on some path of the code. What is left serves fewer and fewer requests, and in the end none: they wait until their time is out.",
	MustHold:   "in the end nobody gets anything any more, no request is under way that could still hold it, and somebody got something from the pool, was done, and gave nothing back although others waited, or no other goroutine of the program could hold it either; or ever fewer are in use while requests wait, up to about the end of the recording or of the requests; or only the end of a context gives it back, when the request that took it has long ended",
	MustNot:    "requests that are still at work with what they got; waits that are served up to the end of the recording",
	LookAlikes: []string{"pool-exhausted", "slow-dependency"},
	Fix: []string{
		"give back on every path: defer Close of rows, bodies and connections, and the release of permits, right behind the acquisition",
		"look at what the named function's callers do on errors and early returns",
		"until then a deadline on the wait, and a restart brings everything back; watch the pool's number in use",
	},
	Verify: "give back on every path in an interleaved A/B of some minutes: p99 and this share fall together, and the number in use falls to zero when nobody calls",
	Judge:  judge,
}

const (
	// minVain is how many requests must have waited in vain since anything was last
	// given back: with ten it is no gap between two uses.
	minVain = 10
	// longDry is how many times as long as a usual use nothing must have been given
	// back, while somebody waited, if it is still in use: a use of ten times its median
	// is rare even where uses vary, and all of them at a time would have to be.
	longDry = 10
	// surelyVain and surelyDry are the same where it is so long that it does not matter that nobody
	// was seen to keep anything, fewVain and veryDry where it is fewer, but much longer, and longDryNS at least, in nanoseconds.
	// Where nothing was given back in all of the recording it does: who has it may have been there before.
	surelyVain, surelyDry = 250, 100
	fewVain, veryDry      = 100, 10_000
	longDryNS             = 2e9
	// leastEnded is the part of the waits' time that must have ended, for who was let in to tell who keeps the others waiting.
	leastEnded = 0.2
)

func judge(c *cause.Case) *cause.Judgement {
	l := c.Pools()
	if len(l.Keys) == 0 {
		return nil
	}
	if _, _, keeps := c.A.Keeping(l.Site); keeps {
		return nil // it comes back when they give up
	}
	if j := left(c, l); j != nil {
		return j
	}
	if j := shrinks(c, l); j != nil {
		return j
	}
	vain, dry := c.A.Vain(l.Site)
	if vain < minVain {
		return nil // still given back, or never: pool-exhausted says what that means
	}
	usual, used := float64(c.A.Holds(l.Site).Usual), "before that it was used for %s at a time"
	if usual <= 0 {
		usual, used = c.UsuallyTook(), "requests usually take %s in all"
	}
	k := c.A.Kept(l.Site)
	// That it is a pool to which nothing ever comes back is known of a library's. How long it is used is not, then: what
	// requests take is the wait for it.
	kind := c.A.Sites[l.Site].Kind
	missing := k.Nobody() && (!k.Never || kind == blame.SitePool || kind == blame.SitePermit)
	if (usual <= 0 || float64(dry) < longDry*usual) && !(k.Never && missing) {
		return nil // likewise
	}
	surely := c.A.Queue(l.Site).Waits > 0 && (vain >= surelyVain && float64(dry) >= surelyDry*usual || vain >= fewVain && dry >= longDryNS && float64(dry) >= veryDry*usual)
	gave := fmt.Sprintf("of %d that got something there and were done while others waited, %d gave nothing back", k.Given, k.Kept)
	if k.Given == 0 {
		gave = "who kept something was not seen to: who gets it without a wait leaves no trace"
	}
	keeps := kept(k.Kept)
	switch {
	case k.Kept > 0 || k.Users > 0:
	case missing:
		gave, keeps = "no other goroutine of the program does anything meanwhile for which it could need something of the pool: what is missing, nobody has any more", cause.Yes
	default:
		gave += fmt.Sprintf("; %d goroutines of the program that are no requests may have it", k.Others)
	}
	return &cause.Judgement{
		Keys: l.Keys, Where: c.PlaceOf(l.Site),
		Subject: fmt.Sprintf("they wait in %s for a pool to which nothing comes back", c.SiteName(l.Site)),
		Evidence: []cause.Evidence{
			{
				Text: fmt.Sprintf("nothing was given back in the last %s in which requests waited in %s, %d of them in vain; "+used,
					cause.Ms(float64(dry)), c.SiteName(l.Site), vain, cause.Ms(usual)),
				Holds: cause.Yes, Decides: true, Number: float64(dry),
			},
			{
				Text:  fmt.Sprintf("%d requests are under way for most of that time and do something else than wait there", k.Users),
				Holds: cause.Of(k.Users == 0), Decides: true, Number: float64(k.Users),
			},
			{
				Text:  gave,
				Holds: keeps, Decides: !surely, Number: float64(k.Kept),
			},
		},
		Alike: []string{"pool-exhausted"}, Record: "the pool's own statistics (in use): if as many stay in use when nobody calls, they leak",
	}
}

// leastStages is how many times a pool must be seen to have fewer items than before, and no more again: one time a job may have taken
// them, that is not yet done.
const leastStages = 3

// saidStages is how many of them are told, the last ones: a pool may be large.
const saidStages = 6

// shrinks judges a pool whose items become fewer and fewer.
func shrinks(c *cause.Case, l *cause.Locks) *cause.Judgement {
	stages, users := c.A.Shrinks(l.Site)
	if len(stages) < leastStages {
		return nil
	}
	var each []string
	for _, s := range stages[max(0, len(stages)-saidStages):] {
		each = append(each, fmt.Sprintf("%d until %s", s.Items, cause.Ms(float64(s.Until-c.A.Timeline().Start))))
	}
	return &cause.Judgement{
		Keys: l.Keys, Where: c.PlaceOf(l.Site),
		Subject: fmt.Sprintf("they wait in %s for a pool to which ever less comes back", c.SiteName(l.Site)),
		Evidence: []cause.Evidence{
			{
				Text:  fmt.Sprintf("while requests waited in %s as many items were in use, and never again so many: %s of the recording", c.SiteName(l.Site), strings.Join(each, ", ")),
				Holds: cause.Yes, Decides: true, Number: float64(len(stages)),
			},
			{
				Text:  fmt.Sprintf("%d requests are under way since before the last of that, and do something else than wait there", users),
				Holds: cause.Of(users == 0), Decides: true, Number: float64(users),
			},
		},
		Alike: []string{"pool-exhausted"}, Record: "the pool's own statistics (in use): if as many stay in use when nobody calls, they leak",
	}
}

// left judges items that come back, but only when a context ends: database/sql waits for that
// with a goroutine for each query and each transaction, and closes what is still open then.
func left(c *cause.Case, l *cause.Locks) *cause.Judgement {
	x := c.A.Left(l.Site)
	if x.N == 0 {
		return nil
	}
	var left, ended float64
	for _, id := range l.Keys {
		k := c.Key(id)
		if k.Kind == blame.Open { // nobody has let them in yet: who has it is not known
			continue
		}
		ended += c.NS[id]
		_, own := request.AppFrame(c.A.Timeline().Stacks.Frames(c.A.Sites[k.Site].Stack))
		if cause.Waits(k) && (k.Kind == blame.Awaited || !own) && x.At[blame.Leaves{Class: k.Class, Site: k.Site}] { // the program's own code waits for something
			left += c.NS[id]
		}
	}
	part := left / max(1, ended)
	if part < 0.5 || ended < leastEnded*c.Sum(l.Keys) {
		return nil
	}
	where := c.PlaceOf(l.Site)
	if f, ok := request.AppFrame(c.A.Timeline().Stacks.Frames(x.By)); ok {
		where = &cause.Place{Function: f.Func, File: f.File, Line: f.Line}
	}
	return &cause.Judgement{
		Keys: l.Keys, Where: where,
		Subject: fmt.Sprintf("they wait in %s for a pool to which %s gives nothing back, until its context ends", c.SiteName(l.Site), cause.PlaceName(where)),
		Evidence: []cause.Evidence{{
			Text: fmt.Sprintf("%s of that time somebody had it who did nothing but wait for the end of a context; %d times that gave it back, after the request had ended that took it",
				cause.Pct(part), x.N),
			Holds: cause.Yes, Decides: true, Number: part,
		}},
		Fix: []string{"close rows, or end the transaction, in the named function: a deferred Close or Rollback right behind the query"},
	}
}

// kept is Unknown if nobody was seen to keep anything: who got it without a wait, or
// when nobody else waited, leaves no trace.
func kept(n int) cause.Truth {
	if n == 0 {
		return cause.Unknown
	}
	return cause.Yes
}
