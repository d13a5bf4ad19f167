package cause

import (
	"fmt"
	"math"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/timeline"
)

// LateRatio is how large late wake-ups may be, compared with the time that
// something outside of the program took, while they still cannot explain it.
const LateRatio = 0.25

// Of waits that are alike it is EvenRatio: whoever is late for a CPU is so by another time
// each time. Waits are alike if the middle half of them differ by evenMost of their length
// at most: for a peer that takes 8 ms longer it is 0.03 to 0.08, where threads are
// late by 2 to 4 ms 0.13 to 0.6.
const EvenRatio, evenMost = 0.5, 0.1

// recordOther is what may separate them instead, if it was not recorded.
const recordOther = "the other side's own times, or "

// wakesMin is in which part of the tenths of a second of some requests threads must have
// been woken for a P that was idle, for the longest of these wake-ups to be about the
// longest of all.
const wakesMin = 0.5

// manyLooks is how many looks at the process must lie in a wait for it to be known for which part of it the hypervisor had the CPUs:
// where the kernel tells what the threads did it is enough then that this cannot explain half of it. A shorter one may have lost all
// that was taken between two looks.
const manyLooks = 4

// lookEvery is how long it is from one look at the process to the next, on average, in nanoseconds.
func (c *Case) lookEvery() float64 {
	n := len(c.Host.Samples)
	if n < 2 {
		return math.Inf(1)
	}
	return float64(c.Host.Samples[n-1].MonoNS-c.Host.Samples[0].MonoNS) / float64(n-1)
}

// Punctual says whether threads got a CPU when they wanted one, while requests waited
// under keys for something outside of the program, what: its end is seen late, too,
// where they did not. A thread that is woken because a peer has answered waits no longer
// for a CPU than one that is woken because a goroutine is ready.
func (c *Case) Punctual(what string, keys []blame.KeyID) Evidence {
	return c.punctual(what, keys, true)
}

// PunctualWork says the same of calls that may compute, in C or in the kernel: then a CPU
// is taken from them, too, not only given late.
func (c *Case) PunctualWork(what string, keys []blame.KeyID) Evidence {
	return c.punctual(what, keys, false)
}

// punctual is Punctual, for waits that end with a wake-up if woken is set. It looks at the
// requests that most of the waiting is in.
func (c *Case) punctual(what string, keys []blame.KeyID, woken bool) Evidence {
	requests, ns, uneven := c.carriers(keys)
	if e, doubt := c.Stolen(); c.Watched() && doubt {
		return e
	} else if c.watchedWhole() && (c.Host == nil || c.stolenMore(requests) <= quiet) {
		return c.keptApart("this: " + what + " took " + Ms(ns))
	}
	n := c.outside(requests)
	longest, often := c.A.LateIn(c.spansOf(requests))
	if !woken || often < wakesMin {
		longest = math.Inf(1)
	}
	if c.Host != nil && c.Host.Scheduled {
		if e, doubt := c.Stolen(); doubt {
			return e
		}
		e := Evidence{Decides: true, Record: recordOther + recordKernel, Alike: []string{"host-contention"}}
		d := min(c.lateness(requests), n*min(longest, c.Host.TailWait()))
		e.Text = fmt.Sprintf("threads waited for a CPU for at most %s of a slow request's waits, %s took %s", Ms(d), what, Ms(ns))
		ratio := LateRatio
		if woken && uneven <= evenMost {
			ratio = EvenRatio
			e.Text += fmt.Sprintf(", each time the same (middle half within %s), as late threads do not", Pct(uneven))
		} else if c.watchedWhole() && ns >= manyLooks*c.lookEvery() {
			ratio = EvenRatio
		}
		if more := c.stolenMore(requests); more > quiet {
			d += sides * more * ns
			e.Text += fmt.Sprintf("; the hypervisor took %s of the CPUs then, beyond what it takes of those that are wanted at other times", Pct(more))
		}
		if t := c.Throttling(); t != nil && t.Tail*c.mean(requests) > d {
			d = t.Tail * c.mean(requests)
			e.Text = fmt.Sprintf("a CPU quota stopped the process for %s of a slow request, %s took %s", Ms(d), what, Ms(ns))
			e.Alike = []string{"quota-too-low"}
			ratio = LateRatio // it stops for about as long each time
		}
		e.Holds, e.Number = unless(d > ratio*ns), d/max(ns, 1)
		return e
	}
	late := c.LateWakeup()
	return Evidence{
		Text:  fmt.Sprintf("goroutines that were ready while a P was idle waited up to %s for their thread (99th percentile over tenths of a second), %s took %s in %.0f waits", Ms(late), what, Ms(ns), n),
		Holds: unless(n*late > LateRatio*ns), Decides: true, Number: late / max(ns, 1),
		Alike: []string{"host-contention"}, Record: RecordHost,
	}
}

// sides is from how many threads a hypervisor takes what it takes of every CPU, of those
// that a wait for somebody else on the same machine needs one after the other: who waits,
// and who is waited for.
const sides = 2

// restMin is the part of the recording that the time without slow requests has to be, for
// what happens in it to be usual.
const restMin = 0.1

// stolenMore is the part of the CPUs that a hypervisor took during some of the slow
// requests beyond what is usual: it takes only from CPUs that are wanted, and so, the
// more are. No thread is seen to wait for a CPU then.
func (c *Case) stolenMore(requests []int) float64 {
	h := c.Host
	if !h.OwnCPUs() || h.Rest.WallNS < restMin*h.Whole.WallNS {
		return 0
	}
	u := h.Over(hostSpans(c.spansOf(requests)))
	wanted := func(u host.Usage) float64 { return u.BusyNS + u.StealNS }
	usual := h.Rest.StealNS / max(1, wanted(h.Rest))
	return max(0, u.StealNS-usual*wanted(u)) / max(1, u.CPUNS())
}

// leastLong is how many waits that are longer than others tell whether they are alike,
// and spread by which part of their length they differ, in the middle half of their
// time, if they are not.
const leastLong, spread = 4, 0.25

// marked doubts that slow requests were meant to wait for time to pass for longer at a
// site of timers where the waits that are longer than others are those in mark phases:
// timers are then run late, and their goroutines wait for a P.
func (c *Case) marked(site blame.SiteID) []Evidence {
	long, short := c.A.TimersAt(site, c.A.Timeline().GC)
	out, usual := long.Out(), short.Out()
	if usual*float64(long.All) < outMin || out > (1-markedMost)*usual {
		return nil
	}
	return []Evidence{{
		Text:  fmt.Sprintf("%d of the %d longer waits there lie in mark phases, %d of %d others: who sleeps then is woken late", long.In, long.All, short.In, short.All),
		Holds: Unknown, Decides: true, Number: 1 - out/usual,
		Alike: []string{c.collector()}, Record: "GOGC doubled in an interleaved A/B: half of the longer waits go with the cycles",
	}}
}

// markedMost is the part of the longer waits that mark phases must explain: as many more
// of them lie there than of the others. Of waits that are meant it was at most 0.1, of
// those that the collector made longer 0.64 or more (incidents/hosts/gateway).
const markedMost = 0.5

// outMin is how many of the longer waits must be to be expected outside of mark phases,
// as others are, for it to mean something that they are not: by chance there would be
// none of three in one of twenty cases.
const outMin = 3

// crowded doubts that slow requests were meant to wait for time to pass ns nanoseconds
// longer, n times each, if threads may have waited for a CPU for as long at the ends of
// these waits.
func (c *Case) crowded(ns, n float64) []Evidence {
	if c.Host == nil || !c.Host.Scheduled || c.Watched() {
		return nil
	}
	d := min(c.Lateness(), n*c.Host.TailWait())
	if d < excused*ns {
		return nil
	}
	e := Evidence{
		Text:  fmt.Sprintf("threads waited for a CPU for up to %s at the ends of a slow request's waits there, which are %s longer", Ms(d), Ms(ns)),
		Holds: Unknown, Decides: true, Number: d / max(ns, 1),
		Alike: []string{"host-contention"}, Record: recordKernel,
	}
	if t := c.Throttling(); t != nil && t.Tail >= StoppedMin {
		e.Alike = append(e.Alike, "quota-too-low", "gomaxprocs-over-quota")
	}
	return []Evidence{e}
}

// excused is the part of waits that late threads must be able to explain. Of waits that
// are meant it was at most 0.57, of those beside neighbours that compute at least 1.05
// (incidents/hosts/gateway).
const excused = 0.75

// collector is which cause of the collector's the cycles in the slow requests are.
func (c *Case) collector() string {
	var by [timeline.Starters]timeline.Time
	var all timeline.Time
	for _, x := range c.A.Timeline().Cycles {
		d := c.InTail(x.Start, x.End)
		by[x.Starter] += d
		all += d
	}
	g := c.Collection()
	switch {
	case 2*by[timeline.Forced] > all:
		return "forced-gc"
	case 2*by[timeline.Tracer] > all:
		return "observer"
	case g.AssistNS > g.WorkerNS:
		return "gc-assist"
	}
	return "gc-workers"
}

// quiet is the part of the CPUs that a hypervisor may take while nothing is late for it.
const quiet = 0.02

// doubtful is the part of what slow requests wait for timers that has to be of such as take longer than others there, to be in doubt.
const doubtful = 0.25

// LateTimers doubts that waits longer than others at a site of timers, for which slow
// requests waited ns nanoseconds longer, are meant to be: who is told to wait for longer
// waits for about as long as others who are, but threads that do not get a CPU see the
// end late by any time. So does a process that is all asleep when a hypervisor takes the
// CPU: nobody is ready then. Only the host tells that it did not. Waits at a site whose
// timers are not constant are doubted for what else makes them longer only.
func (c *Case) LateTimers(site blame.SiteID, ns float64) []Evidence {
	n, low, high, constant := c.A.Overlong(site, int64(ns/2))
	if n >= leastLong && float64(high-low) <= spread*float64(high) {
		return nil
	}
	if late, _, _, _ := c.A.Overlong(site, 0); constant && late == 0 {
		return nil // there are more of them, and each is on time
	}
	if n > 0 && float64(n)*float64(high) < doubtful*ns*c.count(c.Tail) {
		return nil // most of those that slow requests wait for are as long as ever there
	}
	times := max(1, float64(c.A.Waits(site).Timers)/float64(max(1, len(c.P.All()))))
	out := append(c.marked(site), c.crowded(ns, times)...)
	if e, doubt := c.Stolen(); doubt && c.Watched() {
		return append(out, e)
	}
	if n == 0 || c.Watched() && (c.Host == nil || !c.Host.OwnCPUs() || c.Host.Tail.Stolen() <= quiet) {
		return out
	}
	threads, often := c.A.LateIn(c.tailSpans())
	kept := c.Host != nil && c.Host.Scheduled && c.Host.OwnCPUs() && c.Host.Tail.Stolen() <= quiet
	if kept && threads < HealthyExcess && often >= wakesMin {
		return out
	}
	late := fmt.Sprintf("goroutines that were ready while a P was idle waited up to %s for their thread", Ms(threads))
	if c.Host != nil && c.Host.OwnCPUs() {
		late += fmt.Sprintf(", and the hypervisor took %s of the CPUs", Pct(c.Host.Tail.Stolen()))
	}
	e := Evidence{
		Text: fmt.Sprintf("%d took longer than the others there, and took any time, half of it in waits of %s to %s; %s",
			n, Ms(float64(low)), Ms(float64(high)), late),
		Holds: Unknown, Decides: true, Number: float64(n),
		Alike: []string{"host-contention"}, Record: recordKernel,
	}
	if c.Host == nil {
		e.Record = RecordHost
	}
	if t := c.Throttling(); c.Host == nil || t != nil && t.Tail >= StoppedMin {
		e.Alike = append(e.Alike, "quota-too-low", "gomaxprocs-over-quota")
	}
	return append(out, e)
}

// RunningOnCPU says, without the host's evidence, whether threads were on a CPU while
// they ran: where they were not, the end of what is outside is seen late, too.
func (c *Case) RunningOnCPU() []Evidence {
	f := c.OnCPUAll()
	if c.Host != nil || c.Watched() || !f.Known {
		return nil
	}
	return []Evidence{{
		Text:    fmt.Sprintf("running goroutines were on a CPU for %s of their time", Pct(min(1, f.Value))),
		Holds:   unless(f.Value < OnCPUMin),
		Decides: true, Number: f.Value,
	}}
}

// unless is Yes without doubt and Unknown with it.
func unless(doubt bool) Truth {
	if doubt {
		return Unknown
	}
	return Yes
}

// MinLooks is how many looks at the process the host's evidence needs within the
// slow requests, before it denies anything of what its threads did in them: with
// fewer, half of the time in question is missed by chance in one of a hundred
// cases. MinSeen is how often they must have been seen blocked for it to affirm.
const MinLooks, MinSeen = 7, 3

// Blocked says whether threads were in uninterruptible sleep, which is how they
// wait for devices and pages, for a quarter or more of the part of the slow
// requests' time that keys make up, and clearly more often than at other times.
// It is unknown without the host's evidence, with too few looks, and in between.
func (c *Case) Blocked(keys []blame.KeyID) Evidence {
	if c.watchedWhole() {
		return c.blockedIn(keys)
	}
	if c.Host == nil {
		return Evidence{Text: "whether threads waited for a device meanwhile is unknown: no host evidence was recorded", Holds: Unknown, Record: RecordHost}
	}
	tail := c.tailSpans()
	var looks, blocked, rest, restBlocked float64
	for i := range c.Host.Samples {
		s := &c.Host.Samples[i]
		at := timeline.Time(s.MonoNS)
		if at < c.A.Timeline().Start || at > c.A.Timeline().End {
			continue
		}
		n, hit := &rest, &restBlocked
		if timeline.Overlap(tail, at-1, at) > 0 {
			n, hit = &looks, &blocked
		}
		*n++
		if len(s.Blocked) > 0 {
			*hit++
		}
	}
	in, out := blocked/max(looks, 1), restBlocked/max(rest, 1)
	e := Evidence{
		Text:   fmt.Sprintf("threads waited for a device or a page in %.0f of %.0f looks during slow requests, in %.0f of %.0f at other times", blocked, looks, restBlocked, rest),
		Record: recordKernel, Number: in,
	}
	want := 0.25 * min(1, c.Share(keys))
	switch {
	case blocked >= MinSeen && in >= want && in >= 3*out:
		e.Holds = Yes
	case looks*min(1, c.Share(keys)) >= MinLooks && in <= 0.4*want:
		e.Holds = No
	}
	return e
}

// SampledOn returns the part of the CPU samples of requests that have a function
// on their stack that on accepts, and how many samples there are.
func (c *Case) SampledOn(requests []int, on func(function string) bool) (part float64, samples int) {
	in := c.sampleOf(requests)
	hits := 0
	t := c.A.Timeline()
	for _, s := range t.Samples {
		if !in(s) {
			continue
		}
		samples++
		for _, f := range t.Stacks.Frames(s.Stack) {
			if on(f.Func) {
				hits++
				break
			}
		}
	}
	return float64(hits) / float64(max(samples, 1)), samples
}

// SampledBy returns the part of the CPU samples in the slow requests' time, of whatever
// goroutine, of goroutines whose root function by accepts, and how many samples there are.
func (c *Case) SampledBy(by func(root string) bool) (part float64, samples int) {
	tail := c.tailSpans()
	hits := 0
	for _, s := range c.A.Timeline().Samples {
		if timeline.Overlap(tail, s.Time-1, s.Time) == 0 {
			continue
		}
		if samples++; by(c.A.Root(s.G)) {
			hits++
		}
	}
	return float64(hits) / float64(max(samples, 1)), samples
}

// Outputs says what the process's standard output and error are, "" if unknown.
func (c *Case) Outputs() string {
	if c.Host == nil {
		return ""
	}
	var out []string
	for _, o := range []struct{ name, kind string }{{"output", c.Host.Static.Stdout}, {"error", c.Host.Static.Stderr}} {
		if word := outputs[o.kind]; word != "" {
			out = append(out, fmt.Sprintf("standard %s is a %s", o.name, word))
		}
	}
	return strings.Join(out, ", ")
}

// outputs are the words for host.Static's kinds of files; others are not quoted.
var outputs = map[string]string{"pipe": "pipe", "file": "file", "tty": "terminal", "socket": "socket", "null": "null device"}
