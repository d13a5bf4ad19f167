// Package singleworker is the cause single-worker.
package singleworker

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "single-worker", Title: "single worker", Rank: 420, Layer: cause.Code,
	What:       "Many requests hand their work to one goroutine, a batcher or serialiser, and wait for its answer while it flushes, sleeps or computes; also one after the other, under a lock.",
	MustHold:   "waits of many requests ended by one goroutine, or by such as one starts for each, one at a time, that take no longer than usual; or by the one that has their queue while others have nothing to do, or by such as keep what they are handed until a timer ends that, whose own timer, system call or computation fills them, or a call to a peer that it makes for few of those who wait, or a client that does not take what it is sent",
	MustNot:    "several goroutines that serve from one queue end the waits; the worker waits for a peer on behalf of most who wait, or nobody knows for what; who ends them, or tells that one to, takes no work and only sleeps (a ticker, a broadcast)",
	LookAlikes: []string{"back-pressure", "lock-convoy", "cache-stampede", "slow-dependency", "slow-client"},
	Fix: []string{
		"take the slow part (flush, fsync, sleep) out of the worker's loop: double buffering, an own goroutine",
		"run several workers, sharded by key",
		"flush when the batch is full or nobody else waits, instead of on a timer",
	},
	Verify: "two workers instead of one, A/B interleaved: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	w := c.Workers()
	if a := c.Answerer(); a != nil && a.Serial() && c.Sum(a.Keys) > c.Sum(w.Keys) {
		return answers(c, a)
	}
	switch {
	case len(w.Keys) == 0:
		if d := c.Dispatch(); d != nil && d.AtWork < cause.ManyHolders {
			return dispatched(c, d)
		}
		return nil
	case c.TooLittle(w.Keys):
		return &cause.Judgement{Keys: w.Keys}
	}
	q := c.A.Queue(w.Site)
	top, _ := cause.TopBy(c, w.Keys, func(k blame.Key) leaf {
		if k.Kind == blame.CPU || k.Kind == blame.Timer { // of whom it is, others hand it on
			return leaf{k.Kind, k.Site, k.Class}
		}
		return leaf{k.Kind, k.Site, 0}
	})
	where := c.PlaceOf(top.site)
	called := ""
	switch top.kind {
	case blame.CPU:
		where = c.ClassPlace(top.class)
	case blame.Network:
		site, _ := cause.TopBy(c, w.Keys, c.CallSite)
		where, called = c.Caller(site, w.Keys, c.CallSite)
	}
	if where == nil {
		where = w.Holder
	}
	var fix []string
	cpu := cause.Evidence{Text: fmt.Sprintf("meanwhile it was in: %s, %s", top.kind, cause.PlaceName(where)), Holds: cause.Yes}
	switch top.kind {
	case blame.UnknownHolder, blame.Unresolved:
		cpu.Text = "meanwhile it waited itself, and it is not known for what: that it was busy is not seen"
		cpu.Holds, cpu.Decides = cause.Unknown, true
		cpu.Alike, cpu.Record = []string{"slow-dependency", "slow-client", "back-pressure"}, "runtime/trace regions around what the goroutine does for each of them"
	case blame.CPU:
		cpu = c.RunnerCPU(top.class)
	case blame.Network:
		cpu.Text += ", on behalf of few of those who wait"
		client, known := c.ForClients(w.Keys)
		switch {
		case client:
			cpu.Text = fmt.Sprintf("meanwhile it waited in %s until a client took what it was sent, and everybody with it", cause.PlaceName(where))
			fix = []string{"give each client a queue of its own, with a bound and a deadline: who does not keep up is dropped, and keeps nobody"}
			if !known {
				cpu.Text = fmt.Sprintf("meanwhile it waited in %s for room on a connection that a trace does not tell from those to peers", cause.PlaceName(where))
				cpu.Holds, cpu.Decides = cause.Unknown, true
				cpu.Alike, cpu.Record = []string{"slow-dependency", "slow-client"}, "packets, or whose connection that is"
			}
		case w.InTurn:
			cpu.Text = fmt.Sprintf("meanwhile it was in: %s, %s, for one after the other, and the peer answers each as fast as usual: %s at a time", top.kind, cause.PlaceName(where), cause.Ms(c.MeanHold(w.Keys)))
		}
		if called != "" {
			cpu.Text += ", called by " + called
		}
	case blame.Timer:
		if top.class != c.A.ClassAt(q.Worker, c.A.Timeline().End) && c.A.TakesNoWork(top.class) {
			cpu.Text = fmt.Sprintf("meanwhile it waited for another goroutine, which takes no work and sleeps in %s: it may pass on news to who waits for that on purpose, as a long poll does", cause.PlaceName(where))
			cpu.Holds, cpu.Decides = cause.Unknown, true
			cpu.Alike, cpu.Record = []string{"timer-wait"}, cause.RecordEndpoints
		}
	}
	class := c.A.ClassAt(q.Worker, c.A.Timeline().End)
	worker, does := c.ClassName(class), fmt.Sprintf("%s in %s", top.kind, cause.PlaceName(where))
	switch {
	case worker == "" || worker == cause.PlaceName(where):
	case top.class != 0 && c.A.RootOf(top.class) != c.A.RootOf(class):
		does += fmt.Sprintf(", for which %s waits", worker)
	default:
		does += ", run by " + worker
	}
	who, one := "one goroutine that serves everybody", cause.Evidence{
		Text:    fmt.Sprintf("one goroutine ended %s of %d waits in %s", cause.Pct(q.Busiest), q.Waits, c.SiteName(w.Site)),
		Holds:   cause.Of(q.Busiest > cause.OneWorker),
		Decides: true, Number: q.Busiest,
	}
	if n := c.A.PerActivation(w.Site); 2*n < float64(q.Waits) { // else it is seen to work on one piece only
		one.Text += fmt.Sprintf(", %.1f for each piece of its work", n)
	}
	if one.Holds != cause.Yes && c.Keyed(w.Site) {
		own, ahead := c.A.Keyed(w.Site)
		who = "one of several goroutines, each with a queue of its own"
		one.Text = fmt.Sprintf("%d goroutines end waits in %s; of the time in which who waits there is behind others of the same one (%s in all), %s is by such as have no queue in common with another one",
			q.Wakers, c.SiteName(w.Site), cause.Ms(float64(ahead)), cause.Pct(own))
		one.Holds, one.Number = cause.Yes, own
		fix = []string{
			"take the slow part out of the goroutine's loop, or do what is queued for a key in one go",
			"bound what one caller may queue for a key, or let the rest pass it",
			"divide the key that everybody asks for, if its order does not matter",
		}
	}
	if one.Holds != cause.Yes && top.kind == blame.Timer && c.A.Gathers(w.Site, top.site) {
		who = "one of several goroutines that keep what they are handed for a while"
		one.Text = fmt.Sprintf("%d goroutines end waits in %s, most of these such as keep what they are handed until they have enough, or a timer ends that", q.Wakers, c.SiteName(w.Site))
		one.Holds = cause.Yes
		fix = []string{
			"flush as soon as nothing more is there, instead of on a timer: while it flushes, the next lot gathers by itself",
			"a shorter time, or fewer that are enough: what few keys get never fills a lot",
		}
	}
	return &cause.Judgement{
		Alike: cause.OffCPUCauses, Record: cause.RecordHost,
		Keys: w.Keys, Where: where,
		Subject:  fmt.Sprintf("they wait in %s for %s (%s)", c.SiteName(w.Site), who, does),
		Evidence: []cause.Evidence{one, cpu}, Fix: fix,
	}
}

// answers judges who answers all that requests ask by a broker in the process itself.
func answers(c *cause.Case, a *cause.Answerer) *cause.Judgement {
	site, _ := cause.TopBy(c, a.Keys, c.CallSite)
	return &cause.Judgement{
		Keys: a.Keys, Where: a.Where,
		Subject:  fmt.Sprintf("they ask by a broker in %s, and one goroutine of this process answers all (%s in %s)", c.SiteName(site), a.Kind, cause.PlaceName(a.Where)),
		Evidence: a.Evidence(c),
		Fix:      []string{"let several answer: a queue group, or a goroutine for each message, with a bound"},
	}
}

// dispatched judges a dispatcher that lets one at a time work.
func dispatched(c *cause.Case, d *cause.Dispatch) *cause.Judgement {
	return &cause.Judgement{
		Keys: d.Keys, Where: c.PlaceOf(d.Site),
		Subject:  fmt.Sprintf("they wait in %s until what came before is done, one after the other", c.SiteName(d.Site)),
		Evidence: d.Evidence(c), Alike: []string{"slow-dependency"}, Record: "runtime/trace regions around what is done for each of them",
		Fix: []string{"let several work at a time: the limit of the semaphore, the number of workers"},
	}
}

type leaf struct {
	kind  blame.LeafKind
	site  blame.SiteID
	class blame.ClassID
}
