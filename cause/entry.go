// Package cause is the catalogue of causes and the judge that tests them against
// an attributed recording.
//
// A cause is an [Entry]: what it is, how it is recognised, what to do, how to
// prove that it helped. Entries live in one directory each, below this one;
// package all registers them. [Judge] tests them in the order in which they own
// time, so that no nanosecond is claimed twice.
package cause

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/blame"
)

// Truth is the value of a piece of evidence.
type Truth int8

// Evidence has three values: an instrument may be missing.
const (
	No      Truth = -1
	Unknown Truth = 0
	Yes     Truth = 1
)

// Of turns a condition into a Truth.
func Of(ok bool) Truth {
	if ok {
		return Yes
	}
	return No
}

// Evidence is one statement about a recording that speaks for or against a cause.
type Evidence struct {
	// Text states it with its numbers.
	Text string
	// Holds is Yes if it speaks for the cause.
	Holds Truth
	// Decides marks evidence without which the cause cannot be named; other
	// evidence only lowers the confidence.
	Decides bool
	// Number is the value the text speaks of, most often a share.
	Number float64
	// Record is what would make unknown evidence known, and Alike the ids that
	// cannot be told apart without it; if Record is empty, both are the judgement's.
	Record string
	Alike  []string
}

// Judgement is what an entry says about a case.
type Judgement struct {
	// Keys are the pieces that the cause claims; only those still free count.
	Keys []blame.KeyID
	// Evidence is for and against, the most important first.
	Evidence []Evidence
	// Where is the place in the code, nil if there is none.
	Where *Place
	// Subject completes the sentence "the time went to ...".
	Subject string
	// Fix are remedies that only this case shows; they precede the entry's.
	Fix []string
	// Via lists the ids of causes that stand between the request and the root.
	Via []string
	// Alike are the ids that cannot be told apart from this one while a deciding
	// piece of evidence is unknown, and Record is what would separate them, for
	// evidence that does not say so itself.
	Alike  []string
	Record string
}

// Untested is the judgement of an entry whose instrument is missing: neither
// found nor ruled out.
var Untested = &Judgement{}

// With returns j with more evidence.
func (j *Judgement) With(more ...Evidence) *Judgement {
	j.Evidence = append(j.Evidence, more...)
	return j
}

// Holds combines the evidence: No beats Unknown beats Yes among what decides.
func (j *Judgement) Holds() Truth {
	t := Yes
	for _, e := range j.Evidence {
		if e.Decides && e.Holds < t {
			t = e.Holds
		}
	}
	return t
}

// alike returns the ids that the unknown evidence leaves possible beside the
// judged one, and what would separate them.
func (j *Judgement) alike() (ids []string, record string) {
	for _, e := range j.Evidence {
		if !e.Decides || e.Holds != Unknown {
			continue
		}
		alike, rec := e.Alike, e.Record
		if rec == "" {
			alike, rec = j.Alike, j.Record
		}
		for _, id := range alike {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		if !strings.Contains(record, rec) {
			if record != "" {
				record += "; "
			}
			record += rec
		}
	}
	return ids, record
}

// Layer groups the elimination table.
type Layer int

// The layers, in the order in which an expert would rule them out.
const (
	Network Layer = iota
	Load
	Client
	GC
	Scheduler
	Host
	Code
)

// Entry is one cause of the catalogue.
type Entry struct {
	// ID names it; Title is the same in words.
	ID, Title string
	// Rank orders ownership: entries of lower rank claim time first.
	Rank  int
	Layer Layer
	// Ours marks what whylate itself did: it is no property of the service and not
	// held against it.
	Ours bool
	// Unwanted marks what no endpoint takes its time for by design: it is named also where the slow
	// requests are just another endpoint, without an objective.
	Unwanted bool
	// Broken marks what works for nobody: it is named also where every request takes as long, without an objective.
	Broken bool
	// Needless marks what no request has to do, whatever it is for: where the slow requests are just another endpoint it is named
	// from NeedlessShare of their time on, also if it is not Unwanted, or that endpoint is only a part of why they are slow.
	Needless bool
	// Computes marks what takes CPUs that requests want, Contends what others have them for, and Crowds what also follows from
	// that: threads that wait for a CPU keep their Ps meanwhile.
	Computes, Contends, Crowds bool
	// Outside marks what the requests' own clients take: others are late for a reason of their own.
	Outside bool
	// Varies marks what takes more or less time by itself, without that anything happens: see Verdict.spread.
	Varies bool
	// What it is, MustHold and MustNot what has to be seen and not to be seen.
	What, MustHold, MustNot string
	// LookAlikes are ids that show similar symptoms.
	LookAlikes []string
	// Fix lists remedies, the most likely first; Verify is the experiment that
	// proves one.
	Fix    []string
	Verify string
	// Judge tests the entry against what is still free of the case. It returns
	// nil when the case has nothing of its kind, and Untested when an instrument
	// is missing without which nothing can be said at all. What is costly to find
	// out it asks last: see Case.TooLittle.
	Judge func(c *Case) *Judgement
}

var registry []*Entry

// Register adds an entry to the catalogue. It is called by package all only.
func Register(e *Entry) {
	if Lookup(e.ID) != nil {
		panic(fmt.Sprintf("cause %q is registered twice", e.ID))
	}
	registry = append(registry, e)
	sort.SliceStable(registry, func(i, j int) bool {
		return registry[i].Rank < registry[j].Rank || registry[i].Rank == registry[j].Rank && registry[i].ID < registry[j].ID
	})
}

// Entries returns the catalogue in the order of ownership.
func Entries() []*Entry { return registry }

// Lookup returns the entry with an id, or nil.
func Lookup(id string) *Entry {
	for _, e := range registry {
		if e.ID == id {
			return e
		}
	}
	return nil
}

// fixes returns what a judgement advises before what the catalogue does, each once. The result is the caller's.
func (e *Entry) fixes(j *Judgement) []string {
	all := slices.Clone(j.Fix)
	for _, f := range e.Fix {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}
