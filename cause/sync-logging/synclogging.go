// Package synclogging is the cause sync-logging.
package synclogging

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "sync-logging", Title: "synchronous logging", Rank: 300, Layer: cause.Code, Unwanted: true,
	What:       "Requests write their own log lines and wait until whoever reads them has room: a pipe to a slow collector, a terminal, a busy disk. All of them share one lock of the logger or the file.",
	MustHold:   "writes below a logging package, or to standard output or error, by the request or by those it queues behind in the logger",
	MustNot:    "a goroutine of its own writes for all (then it is its queue); a device that the threads wait for, where the write is no logger's",
	LookAlikes: []string{"lock-held-across-wait", "slow-disk", "back-pressure", "host-contention"},
	Fix: []string{
		"write through a buffer that a goroutine of its own flushes, and drop lines when it is full",
		"log less in the request: one line, sampled, below a level that is switched off",
		"make the reader faster: a file that is rotated outside instead of a pipe to a collector",
	},
	Verify: "discard the log lines in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	writes := func(k blame.Key) bool {
		return k.Flags&blame.Blind == 0 && (k.Kind == blame.Syscall || k.Kind == blame.Network)
	}
	lines := c.Root(func(k blame.Key) bool {
		s := &c.A.Sites[k.Site]
		return s.Log && (writes(k) || k.Kind == blame.Open && s.Kind == blame.SiteMutex) // nobody has taken the line until the end
	})
	isBare := func(k blame.Key) bool {
		s := &c.A.Sites[k.Site]
		return writes(k) && !s.Log && s.Kind == blame.SiteWriteFD
	}
	bare := c.Root(isBare)
	if data := durable(c, bare.Keys); len(data) > 0 && !(toReader(c) && c.Blocked(bare.Keys).Holds == cause.No) {
		bare = c.Root(func(k blame.Key) bool { return isBare(k) && !data[c.A.Sites[k.Site].Func] })
	}
	r, ev, what := lines, logged(c, lines), "write to a log in %s and wait until it takes the line"
	if bare.NS > lines.NS {
		r, ev, what = bare, written(c, bare), "write in %s to a file or a pipe and wait until it takes that"
	}
	if len(r.Keys) == 0 {
		return nil
	}
	return &cause.Judgement{
		Keys: r.Keys, Where: r.Where, Via: r.Via,
		Subject:  fmt.Sprintf("they "+what, cause.PlaceName(r.Where)),
		Evidence: append(ev, c.Punctual("the writes", r.Keys)),
	}
}

// synced is the part of the time that a function writes for which it must sync, in
// the same slow requests, for both to wait for one disk: where that makes writes wait,
// syncs wait no less.
const synced = 0.1

// durable returns the functions of writes that sync what they write, in the slow
// requests themselves: that is data, and waits for the same disk. What a function
// syncs at other times, or quickly, says nothing about what it writes.
func durable(c *cause.Case, writes []blame.KeyID) map[string]bool {
	syncs, wrote := map[string]float64{}, map[string]float64{}
	for id, k := range c.A.Keys {
		if s := &c.A.Sites[k.Site]; s.Kind == blame.SiteSync && s.App {
			syncs[s.Func] += c.NS[id]
		}
	}
	for _, id := range writes {
		wrote[c.A.Sites[c.Key(id).Site].Func] += c.NS[id]
	}
	out := map[string]bool{}
	for f, ns := range syncs {
		if ns > 0 && ns >= synced*wrote[f] && wrote[f] > 0 {
			out[f] = true
		}
	}
	return out
}

// ofOwn returns those of some writes whose functions open files, too, in at least half of the slow requests that make them: who
// writes to a log, or to its standard output, has it open.
func ofOwn(c *cause.Case, writes []blame.KeyID) (out []blame.KeyID) {
	is := map[blame.KeyID]bool{}
	for _, id := range writes {
		is[id] = true
	}
	wrote, opened := map[string]int{}, map[string]int{}
	for _, r := range c.Tail {
		writes, opens := map[string]bool{}, map[string]bool{}
		for _, p := range c.A.Requests[r].Pieces {
			k := c.Key(p.Key)
			s := &c.A.Sites[k.Site]
			if is[p.Key] {
				writes[s.Func] = true
			} else if k.Kind == blame.Syscall && k.Flags&blame.Self != 0 && s.App && s.Kind == blame.SiteFile && c.Opens(k.Site) {
				opens[s.Func] = true
			}
		}
		for f := range writes {
			if wrote[f]++; opens[f] {
				opened[f]++
			}
		}
	}
	for _, id := range writes {
		if f := c.A.Sites[c.Key(id).Site].Func; opened[f] > 0 && 2*opened[f] >= wrote[f] {
			out = append(out, id)
		}
	}
	return out
}

// logged is the evidence of writes below a logging package.
func logged(c *cause.Case, r *cause.Root) []cause.Evidence {
	e := cause.Evidence{Text: "what the log is written to is unknown: no host evidence was recorded", Holds: cause.Unknown}
	if out := c.Outputs(); out != "" {
		e = cause.Evidence{Text: out, Holds: cause.Yes}
	}
	return []cause.Evidence{{
		Text:  fmt.Sprintf("%s of the excess are writes below a logging package, by the requests themselves and by those in front of them", cause.Pct(c.Share(r.Keys))),
		Holds: cause.Yes, Decides: true, Number: c.Share(r.Keys),
	}, e}
}

// written is the evidence of writes to files that no logging package makes: of
// the trace alone they may be lines of a log or data.
func written(c *cause.Case, r *cause.Root) []cause.Evidence {
	e := c.Blocked(r.Keys)
	e.Decides, e.Alike, e.Record = true, []string{"slow-disk"}, cause.RecordHost
	if out := c.Outputs(); out != "" {
		e.Text += "; " + out
	}
	slept, polled := c.Slept(r.Keys), c.Polled(r.Keys)
	if slept > 0 {
		e.Text += fmt.Sprintf("; for %s of it they slept for no device, as who waits for a reader does", cause.Pct(slept))
	}
	if polled > 0 {
		e.Text += fmt.Sprintf("; for %s of it Go's poller waited until there was room, as in a pipe or a terminal", cause.Pct(polled))
	}
	switch {
	case e.Holds == cause.No && slept >= 0.5, polled >= 0.5: // who writes to a disk never waits like that
		e.Holds = cause.Yes
	case c.Host == nil:
	case e.Holds == cause.Yes && !toFile(c): // standard output and error are no files: a disk
		e.Holds = cause.No
	case e.Holds == cause.No && toReader(c) && !copies(c, r): // no disk, no copying, but somebody reads
		e.Holds = cause.Yes
	default:
		e.Holds = cause.Unknown
	}
	if e.Holds == cause.Yes && polled < 0.5 && 2*c.Sum(ofOwn(c, r.Keys)) > c.Sum(r.Keys) {
		e.Text += "; but the same functions open files in these requests: they may be what is written, on a file system whose server is waited for like a reader"
		e.Holds = cause.Unknown
	}
	return []cause.Evidence{{
		Text:  fmt.Sprintf("%s of the excess are writes to a file or pipe, by the requests themselves and by those in front of them", cause.Pct(c.Share(r.Keys))),
		Holds: cause.Yes, Decides: true, Number: c.Share(r.Keys),
	}, e}
}

// copies reports whether the kernel computed for so long during the slow requests
// that it may have been copying what they wrote.
func copies(c *cause.Case, r *cause.Root) bool {
	return c.Host.Tail.SystemNS/float64(max(1, len(c.Tail))) >= 0.5*r.NS
}

func toFile(c *cause.Case) bool {
	return c.Host.Static.Stdout == "file" || c.Host.Static.Stderr == "file"
}

// toReader reports whether standard output or error are known to go to somebody who
// may read slowly.
func toReader(c *cause.Case) bool {
	if c.Host == nil {
		return false
	}
	for _, kind := range []string{c.Host.Static.Stdout, c.Host.Static.Stderr} {
		switch kind {
		case "pipe", "tty", "socket":
			return true
		}
	}
	return false
}
