// Package slowdns is the cause slow-dns.
package slowdns

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "slow-dns", Title: "slow name resolution", Rank: 301, Layer: cause.Network,
	What:       "Requests wait until a name is resolved: a slow or lossy name server, several search domains asked in turn, a lookup for every connection.",
	MustHold:   "waits for a lookup of package net, or for the resolver of C",
	MustNot:    "another phase of connecting; replies that were in but nobody polled; the thread kept from the CPU",
	LookAlikes: []string{"slow-dependency", "dial-per-request", "netpoll-starvation", "host-contention"},
	Fix: []string{
		"keep connections, so that names are not looked up in the request",
		"a caching resolver on the machine, or a cache in the process",
		"end the name with a dot, or lower ndots, so that no search domains are asked first",
	},
	Verify: "connect to the address instead of the name in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	resolves := func(s blame.SiteID) bool { return c.A.Sites[s].Kind == blame.SiteDNS }
	// What a goroutine does whose answer ends a wait for a lookup, it does for the lookup.
	r := c.Root(func(k blame.Key) bool { return cause.Waits(k) && (resolves(k.Site) || resolves(k.Last.Site)) })
	if len(r.Keys) == 0 {
		return nil
	}
	share, n := c.Reached(func(k blame.Key) bool { return resolves(k.Site) || resolves(k.Last.Site) })
	return &cause.Judgement{
		Keys: r.Keys, Where: r.Where, Via: r.Via,
		Subject: fmt.Sprintf("they wait in %s until a name is resolved", cause.PlaceName(r.Where)),
		Evidence: []cause.Evidence{
			{
				Text:  fmt.Sprintf("%s of the excess are waits for name lookups; %.0f requests look up names, %s of all", cause.Pct(c.Share(r.Keys)), n, cause.Pct(share)),
				Holds: cause.Yes, Decides: true, Number: c.Share(r.Keys),
			},
			c.Punctual("the resolver", r.Keys),
		},
	}
}
