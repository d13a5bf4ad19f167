package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/whylate/whylate/capture/kernel/events"
)

// Live is what the kernel told about a process in a moment. All times are nanoseconds.
type Live struct {
	PID  int
	Name string
	// CPUs is how many the process may use, NS for how long this was counted, At since the
	// beginning.
	CPUs   int
	NS, At int64
	// Threads is how many threads left a CPU, OnNS for how long all had one.
	Threads int
	OnNS    int64
	// Queue are waits for a CPU, Throttled those for a quota, Disk those in a system call in
	// which nothing wakes a thread up but what it waits for, a device or a lock of the kernel,
	// and Faults those for pages.
	Queue, Throttled, Disk, Faults Waits
	// Lost is how many events were lost since the beginning.
	Lost int64
	// Counts are what the other sets of probes have counted since the beginning; Before is
	// what they had at the end of the moment before, nil in the first one.
	Counts, Before *events.After
	// Map are the waits for a CPU of the moments before and of this one.
	Map []events.Histogram
	// Missing are sets that are not there, and why.
	Missing []events.Missing
}

// Waits are waits of one kind.
type Waits struct {
	N, NS, MaxNS int64
	Histogram    events.Histogram
}

// Add counts a wait.
func (w *Waits) Add(ns int64) {
	w.N++
	w.NS += ns
	w.MaxNS = max(w.MaxNS, ns)
	w.Histogram.Add(ns)
}

// WriteLive writes l for a person to read: a page of one moment. As in [Terminal],
// nothing of the process leaves as a control character.
func WriteLive(w io.Writer, l *Live, opts TerminalOptions) error {
	p := &page{width: defaultWidth, color: opts.Color}
	if opts.Width > 0 {
		p.width = min(max(opts.Width, minWidth), maxWidth)
	}
	for _, s := range wrap(fmt.Sprintf("%s, process %d, after %s", quote(l.Name, maxName), l.PID, duration(l.At)), p.width) {
		p.line(p.styled(s, strong))
	}
	seconds := float64(max(l.NS, 1)) / 1e9
	p.field("CPU", fmt.Sprintf("%.2f of %s; %s left one", float64(l.OnNS)/1e9/seconds, counted(l.CPUs, "CPU"), counted(l.Threads, "thread")))
	p.liveWaits("run queue", &l.Queue, seconds)
	p.liveWaits("throttled", &l.Throttled, seconds)
	p.liveWaits("blocked", &l.Disk, seconds)
	p.liveWaits("pages", &l.Faults, seconds)
	if l.Counts != nil {
		p.liveCounts(l)
	}
	if l.Before == nil {
		for _, m := range l.Missing {
			p.field(quote(m.Probes, fieldColumn-3), "not there: "+quote(m.Why, maxSentence))
		}
	} else if len(l.Missing) > 0 { // why was said
		var names []string
		for _, m := range l.Missing {
			names = append(names, m.Probes)
		}
		p.field("not there", quote(strings.Join(names, ", "), maxSentence))
	}
	if l.Lost > 0 {
		p.field("lost", fmt.Sprintf("%s events", count(l.Lost)))
	}
	if len(l.Map) > 1 && longest(l.Map) > 1 {
		p.heading("Waits for a CPU")
		p.heat(l.Map)
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

// rate is how many there were in a second.
func rate(n int64, seconds float64) string {
	if x := float64(n) / seconds; x < 100 {
		return fmt.Sprintf("%.3g", x)
	}
	return count(int64(math.Round(float64(n) / seconds)))
}

// liveWaits says how long waits of a kind took.
func (p *page) liveWaits(name string, w *Waits, seconds float64) {
	if w.N == 0 {
		p.field(name, "none")
		return
	}
	p.field(name, fmt.Sprintf("%s waits a second, mean %s, 99 %% below %s, the longest %s", rate(w.N, seconds), duration(w.NS/w.N), duration(below(w.Histogram, 0.99)), duration(w.MaxNS)))
	p.line(strings.Repeat(" ", fieldColumn) + strip(w.Histogram))
}

// liveCounts says what the bursts have counted in this moment.
func (p *page) liveCounts(l *Live) {
	now, before := l.Counts, l.Before
	if before == nil {
		before = new(events.After)
	}
	if c := now.Readings; c != nil {
		p.field("clock", fmt.Sprintf("%s system calls that read it in the first %s", count(c.Calls), duration(c.ToNS-c.FromNS)))
	}
	if g := now.GC; g != nil {
		var was events.Cycles
		if before.GC != nil {
			was = *before.GC
		}
		p.liveBurst("GC", &g.Burst, &was.Burst, func(float64) string {
			n := g.N - was.N
			if n <= 0 {
				return "no cycle ended"
			}
			return fmt.Sprintf("%s ended, marking took %s each; the longest so far %s", counted(int(n), "cycle"), duration((g.NS-was.NS)/n), duration(g.MaxNS))
		})
	}
	if w := now.Waits; w != nil {
		var was events.Goroutines
		if before.Waits != nil {
			was = *before.Waits
		}
		p.liveBurst("goroutines", &w.Burst, &was.Burst, func(seconds float64) string {
			n := w.N - was.N
			if n <= 0 {
				return "no waits"
			}
			h := minus(w.Histogram, was.Histogram)
			return fmt.Sprintf("%s waits a second of runnable ones, mean %s, 99 %% below %s; the longest so far %s", rate(n, seconds), duration((w.NS-was.NS)/n), duration(below(h, 0.99)), duration(w.MaxNS))
		})
	}
	if c := now.Cgo; c != nil && len(c.Functions) > 0 {
		was := map[string]events.CFunction{}
		var over events.Burst
		if before.Cgo != nil {
			over = before.Cgo.Burst
			for _, f := range before.Cgo.Functions {
				was[f.Go] = f
			}
		}
		var calls int64
		var list []events.CFunction
		for _, f := range c.Functions[:min(len(c.Functions), maxItems)] {
			old := was[f.Go]
			f.Calls, f.NS, f.Histogram, f.Stack = f.Calls-old.Calls, f.NS-old.NS, minus(f.Histogram, old.Histogram), nil
			calls += f.Calls
			list = append(list, f)
		}
		p.liveBurst("C", &c.Burst, &over, func(seconds float64) string {
			return fmt.Sprintf("%s calls a second; the longest and the ways back to Go are those so far", rate(calls, seconds))
		})
		for _, f := range list {
			p.cFunction(&f)
		}
	}
}

// liveBurst says what a burst has counted since was, in so many seconds; nothing if it was
// over then.
func (p *page) liveBurst(name string, b, was *events.Burst, say func(seconds float64) string) {
	const gone = "not counted any more: it took its share"
	s := gone
	if !was.Short {
		s = say(float64(max(b.ToNS-max(was.ToNS, b.FromNS), 1)) / 1e9)
		if b.Short {
			s += "; " + gone
		}
	}
	p.field(name, s)
}

// minus is what a histogram has more than an earlier one.
func minus(h, was events.Histogram) events.Histogram {
	diff := append(events.Histogram(nil), h...)
	for i := range min(len(was), len(diff)) {
		diff[i] -= was[i]
	}
	for len(diff) > 0 && diff[len(diff)-1] == 0 {
		diff = diff[:len(diff)-1]
	}
	return diff
}
