package events

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/whylate/whylate/evidence"
)

// What the lists in the last line may hold.
const (
	MaxFunctions = 64 // of C, and of those that the user named
	MaxSites     = 64
	MaxCallers   = 16
	// MaxConnections is how many with which something was wrong.
	MaxConnections = 256
	MaxInstants    = 16 // of each of them
	MaxProcesses   = 64 // behind which threads waited for a CPU
	MaxFrames      = 16 // of a stack
	// maxText is in bytes; see Text.
	maxText  = 128
	maxSlots = 64
)

// Text makes a name that a process gave fit to be written: what is too long or not to be
// printed is cut off or replaced, so that no line grows in JSON.
func Text(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || strings.ContainsRune("\"\\<>&", r) {
			return '?'
		}
		return r
	}, name)
	if len(name) <= maxText {
		return name
	}
	cut := maxText
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut]
}

// Bursts are those of the sets of probes in functions of the process.
func (a *After) Bursts() (list []*Burst) {
	if a.Cgo != nil {
		list = append(list, &a.Cgo.Burst)
	}
	if a.Allocs != nil {
		list = append(list, &a.Allocs.Burst)
	}
	if a.GC != nil {
		list = append(list, &a.GC.Burst)
	}
	if a.Waits != nil {
		list = append(list, &a.Waits.Burst)
	}
	if a.Func != nil {
		list = append(list, &a.Func.Burst)
	}
	return list
}

// check tells what cannot be in what was counted.
func (a *After) check() error {
	var c checker
	c.most("processes", len(a.Processes), MaxProcesses)
	for _, p := range a.Processes {
		c.counts(int64(p.PID))
		c.names(p.Name)
	}
	if r := a.Readings; r != nil {
		c.span(r.FromNS, r.ToNS)
		c.times(r.Calls, r.NS, r.MaxNS)
		c.most("callers", len(r.Callers), MaxCallers)
		for _, x := range r.Callers {
			c.counts(x.N)
			c.stack(x.Stack)
		}
	}
	for _, b := range a.Bursts() {
		c.span(b.FromNS, b.ToNS)
		c.counts(b.Hits, b.HitNS, b.Lost)
	}
	if g := a.Cgo; g != nil {
		c.counts(int64(g.More))
		c.most("functions", len(g.Functions), MaxFunctions)
		for i := range g.Functions {
			f := &g.Functions[i]
			c.names(f.Name, f.Go)
			c.times(f.Calls, f.NS, f.MaxNS)
			c.counts(f.Goroutine)
			c.histogram(f.Histogram)
			c.stack(f.Stack)
			if f.Back != nil {
				c.times(f.Back.Calls, f.Back.NS, f.Back.MaxNS)
			}
		}
	}
	if m := a.Allocs; m != nil {
		c.times(m.Samples, m.Bytes, m.MaxSize)
		c.most("sites", len(m.Sites), MaxSites)
		for _, x := range m.Sites {
			c.counts(x.Samples, x.Bytes)
			c.stack(x.Stack)
		}
	}
	if g := a.GC; g != nil {
		c.times(g.N, g.NS, g.MaxNS)
	}
	if w := a.Waits; w != nil {
		c.times(w.N, w.NS, w.MaxNS)
		c.counts(w.Goroutine)
		c.histogram(w.Histogram)
	}
	if f := a.Func; f != nil {
		c.counts(f.Calls, int64(f.Skipped), f.Unended)
		c.most("functions", len(f.Functions), MaxFunctions)
		c.names(f.Functions...)
	}
	if t := a.TCP; t != nil {
		c.span(t.FromNS, t.ToNS)
		c.counts(int64(t.More), t.Others, t.OtherResets, t.Lost)
		c.most("connections", len(t.Connections), MaxConnections)
		for _, x := range t.Connections {
			c.names(x.Local, x.Remote)
			c.counts(x.Again, x.Syns, x.ResetsSent, x.ResetsGot)
			c.most("instants", len(x.AtNS), MaxInstants)
			c.counts(x.AtNS...)
		}
	}
	return c.err
}

// checker keeps the first error.
type checker struct{ err error }

func (c *checker) bad(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *checker) counts(list ...int64) {
	for _, n := range list {
		if n < 0 {
			c.bad("%w: a negative number", evidence.ErrMalformed)
		}
	}
}

func (c *checker) span(from, to int64) {
	c.counts(from)
	if to < from {
		c.bad("%w: it ends before it begins", evidence.ErrMalformed)
	}
}

// times are so many, their sum and the longest.
func (c *checker) times(n, sum, longest int64) {
	c.counts(n, sum, longest)
	if longest > sum {
		c.bad("%w: the longest is longer than all together", evidence.ErrMalformed)
	}
}

func (c *checker) most(what string, n, most int) {
	if n > most {
		c.bad("%d %s, more than %d: %w", n, what, most, evidence.ErrTooLarge)
	}
}

func (c *checker) histogram(h Histogram) {
	c.most("slots", len(h), maxSlots)
	c.counts(h...)
}

func (c *checker) stack(s Stack) {
	c.most("frames", len(s), MaxFrames)
	c.names(s...)
}

func (c *checker) names(list ...string) {
	for _, s := range list {
		c.most("bytes of a name", len(s), maxText)
	}
}
