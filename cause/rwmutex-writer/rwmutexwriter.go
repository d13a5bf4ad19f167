// Package rwmutexwriter is the cause rwmutex-writer.
package rwmutexwriter

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "rwmutex-writer", Title: "readers behind a writer", Rank: 405, Layer: cause.Code, Unwanted: true,
	What:       "A writer stops all readers of an RWMutex, who else do not stop each other: from when it asks for the lock, so also while it waits itself for a reader that holds it for long, until it gives the lock back.",
	MustHold:   "waits in RLock; whoever held the lock meanwhile, the writer or the readers before it, held it for long",
	MustNot:    "many short holders; waits in Lock; the waiters do themselves what the writer does",
	LookAlikes: []string{"lock-convoy", "lock-held-across-wait", "lock-held-across-work", "slow-dependency", "cache-stampede"},
	Fix: []string{
		"let readers read without a lock: the writer makes a copy, changes it, and swaps it in (copy-on-write, atomic.Pointer)",
		"hold the lock only to change the data: wait and compute before, on whichever side it is held for long",
		"let a long reader copy what it needs, or lock and unlock for each part",
	},
	Verify: "copy-on-write instead of the lock, A/B interleaved: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	l := c.Readers()
	if len(l.Keys) == 0 {
		return nil
	}
	if l.Open > 0.5 {
		return &cause.Judgement{
			Keys: l.Keys, Where: c.PlaceOfKeys(l.Keys),
			Subject:  "they wait in RLock for a writer that did not come and go until the recording ended",
			Evidence: []cause.Evidence{l.OpenEvidence()},
			Alike:    []string{"lock-held-across-wait", "lock-held-across-work"}, Record: "the goroutine profile: the holder stands inside the critical section",
		}
	}
	h := hold(c, l)
	or := ""
	if h.writing > 0 {
		or = ", or are one"
	}
	return &cause.Judgement{
		Keys: l.Keys, Where: h.where,
		Subject:  fmt.Sprintf("they wait in RLock in %s for a writer%s: %s", c.SiteName(l.Site), or, h.did()),
		Evidence: h.evidence(c, l),
		Alike:    cause.OffCPUCauses, Record: cause.RecordHost,
	}
}

// holding is what the lock was held for while readers waited for the writer.
type holding struct {
	// reading is the part of the time in which it was the readers before the writer
	// that held it. The rest is about the larger part, theirs or the writer's own.
	reading float64
	// writing is the part in which slow requests were the writer themselves.
	writing float64
	// waits is the part of it in which the holder waited, what its largest leaf,
	// ownWork Case.OwnWork of the waits.
	waits, ownWork float64
	what           leaf
	// where is the place of the leaf in the holder's code, writer where the writer
	// gives the lock back.
	where, writer *cause.Place
}

type leaf struct {
	kind  blame.LeafKind
	class blame.ClassID
	site  blame.SiteID
	last  blame.Hop
}

func hold(c *cause.Case, l *cause.Locks) *holding {
	var reading, writing []blame.KeyID
	for _, id := range l.Keys {
		if c.ForReaders(c.Key(id)) {
			reading = append(reading, id)
		} else {
			writing = append(writing, id)
		}
	}
	h := &holding{reading: c.Sum(reading) / max(c.Sum(l.Keys), 1), writer: l.Holder}
	h.writing = c.Sum(l.Writers) / max(c.Sum(l.Keys), 1)
	keys := writing
	if h.reading > 0.5 {
		keys = reading
	}
	var waited, worked []blame.KeyID
	for _, id := range keys {
		switch k := c.Key(id); {
		case k.Kind == blame.UnknownHolder || k.Kind == blame.Unresolved:
		case cause.Waits(k):
			waited = append(waited, id)
		default:
			worked = append(worked, id)
		}
	}
	h.waits = c.Sum(waited) / max(c.Sum(waited)+c.Sum(worked), 1)
	h.ownWork = c.OwnWork(waited)
	most := worked
	if h.waits >= 0.5 {
		most = waited
	}
	h.what, _ = cause.TopBy(c, most, func(k blame.Key) leaf { return leaf{k.Kind, k.Class, k.Site, k.Last} })
	// In a reply reader's stack there is nothing of the program's own, and what calls the peer
	// may serve all who call one: the writer is who holds the lock meanwhile.
	if h.where = c.PlaceOf(h.what.site); h.where == nil && h.reading <= 0.5 {
		h.where = h.writer
	}
	if h.where == nil {
		h.where = c.PlaceOfHolder(h.what.site, h.what.last)
	}
	if h.where == nil {
		h.where = h.writer
	}
	return h
}

// did is what the writer did, for a sentence.
func (h *holding) did() string {
	verb := "computes"
	if h.waits >= 0.5 {
		verb = fmt.Sprintf("waits (%s)", h.what.kind)
	}
	if h.reading > 0.5 {
		return fmt.Sprintf("%s waits itself for a reader, and %s holds the lock and %s", cause.PlaceName(h.writer), cause.PlaceName(h.where), verb)
	}
	return fmt.Sprintf("%s holds the lock and %s", cause.PlaceName(h.writer), verb)
}

func (h *holding) evidence(c *cause.Case, l *cause.Locks) []cause.Evidence {
	behind := fmt.Sprintf("they stand in RLock, so behind a writer: for %s of that time it waited for readers that came before it, for the rest it had the lock", cause.Pct(h.reading))
	if h.writing > 0 {
		behind = fmt.Sprintf("for %s of that time they stand in RLock, so behind a writer who waits for readers that came before; for the rest they are such writers", cause.Pct(1-h.writing))
	}
	ev := []cause.Evidence{{Text: behind, Holds: cause.Yes, Decides: true, Number: h.reading}, l.HoldEvidence(true)}
	if h.waits < 0.5 {
		return append(ev, c.RunnerCPU(h.what.class))
	}
	ev = append(ev, cause.Evidence{Text: fmt.Sprintf("whoever held it spent %s of its time waiting, most of it in %s (%s)", cause.Pct(h.waits), cause.PlaceName(h.where), h.what.kind), Holds: cause.Yes, Number: h.waits})
	if h.reading <= 0.5 { // readers may all do the same: without a writer they do it side by side
		l.OwnWork = h.ownWork
		ev = append(ev, l.OwnWorkEvidence())
	}
	return ev
}
