// Package slowclient is the cause slow-client.
package slowclient

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "slow-client", Title: "slow client", Rank: 598, Layer: cause.Load, Unwanted: true, Outside: true,
	What: "The request waits for whoever sent it: the client, or the way to it, takes its time to send the rest of the request, or to take the answer. " +
		"A client or load generator that is late before it sends anything is not seen here: only its own times show that, from the intended sending on.",
	MustHold:   "waits on the request's own connection, in which its body is read or its answer written, or for the window of its stream, or on any where all that the process has are its clients', that ended while a P was idle or the network had been polled; threads run when they should",
	MustNot:    "waits on connections that the service opened; all Ps busy at the end of the wait; threads kept from the CPU; busy CPUs which clients on this machine may have waited for",
	LookAlikes: []string{"slow-dependency", "accept-queue", "netpoll-starvation", "host-contention"},
	Fix: []string{
		"measure without it: a request's time begins when its body is read, and ends before its answer is written",
		"let a proxy take slow clients' requests and answers whole (request and response buffering), or read the body before anything scarce is taken: a lock, a connection, a permit",
		"bound it: ReadTimeout and WriteTimeout of the server, or a deadline for each read and write (http.ResponseController), and a limit on sizes",
	},
	Verify: "send the same requests from a client that sends at once and reads what it gets, beside the service, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

// sure is the part of the waits that must stand in the functions of a known server,
// which tell its own connection from others.
const sure = 0.8

func judge(c *cause.Case) *cause.Judgement {
	keys := c.Free(func(k blame.Key) bool {
		return k.Kind == blame.Network && k.Flags&blame.Inbound != 0 && k.Flags&blame.Blind == 0
	})
	if len(keys) == 0 {
		return nil
	}
	waited, own, answering := c.Sum(keys), 0.0, 0.0
	for _, id := range keys {
		site := &c.A.Sites[c.Key(id).Site]
		if site.Kind == blame.SiteInbound || c.Key(id).Flags&blame.Answer != 0 {
			own += c.NS[id]
		}
		if site.Write || site.Window {
			answering += c.NS[id]
		}
	}
	part := own / max(waited, 1)
	ev := cause.Evidence{
		Text:  fmt.Sprintf("%s of these waits are in the server's own reading and writing of the request's connection", cause.Pct(part)),
		Holds: cause.Yes, Decides: true, Number: part,
	}
	switch {
	case part >= sure:
	case c.OnlyServes():
		ev.Text += "; in the end the process had no other connections than its clients', and it was not seen to make any"
	default:
		ev.Text += "; the others read before anything is written, or write, on a connection that a trace does not tell from those to peers"
		ev.Holds, ev.Alike, ev.Record = cause.Unknown, []string{"slow-dependency"}, "packets, or a runtime/trace region around the reading of the request and the writing of its answer"
	}
	written := answering / max(waited, 1)
	what := "to send the rest of the request"
	if written > 0.5 {
		what = "to take the answer"
	}
	where, in := c.PlaceOfKeys(keys), ""
	if where != nil {
		in = " in " + cause.PlaceName(where)
	}
	evidence := []cause.Evidence{
		ev,
		{Text: fmt.Sprintf("%s of them are for the rest of the request, %s for room for the answer", cause.Pct(1-written), cause.Pct(written)), Holds: cause.Yes, Number: written},
		c.Punctual("the client", keys),
	}
	if e, ok := c.ClientsStarved(keys); ok {
		evidence = append(evidence, e)
	}
	evidence = append(evidence, c.RunningOnCPU()...)
	return &cause.Judgement{
		Keys: keys, Where: where, Via: c.Via(keys),
		Subject:  fmt.Sprintf("they wait%s for their own client %s", in, what),
		Evidence: append(evidence, c.OtherEndpoint()...),
		Alike:    []string{"host-contention"}, Record: cause.RecordHost,
	}
}
