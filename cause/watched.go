package cause

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
)

// Where the kernel's scheduling events were recorded, leaves say for how long a thread
// wanted a CPU and had none. Such time is nobody's but of those who had the CPUs: a
// quota, others on the host, or the process's own threads. What remains of a leaf is
// its own, without a doubt.

// wants reports whether a leaf is time in which a thread wanted a CPU. If many threads
// compute in C, they are in each other's way: then it is C's.
func wants(k blame.Key) bool {
	switch k.Off {
	case events.Queued, events.Stopped, events.Robbed, events.Observed:
		return true
	case events.Crowded:
		return k.Kind != blame.Cgo
	}
	return false
}

// robbedDoubt is the part of what requests seem to have computed that the hypervisor must have taken of slow ones beside, for it to be
// doubtful (0.45, 0.8 and 0.9 in three healthy recordings, at most 0.35 in eight with such requests).
const robbedDoubt = 0.4

// RobbedEvidence is the doubt about what requests computed, under keys, if the hypervisor took nearly as much of the requests: what it took
// between two looks is presumed of what ran the longest then, and is less than it took of all; ok is false if there is none.
func (c *Case) RobbedEvidence(keys []blame.KeyID) (e Evidence, ok bool) {
	var taken float64
	for i, k := range c.A.Keys {
		if k.Off == events.Robbed && k.Flags&blame.Self != 0 {
			taken += max(0, c.NS[i])
		}
	}
	if taken < robbedDoubt*c.Sum(keys) || c.Sum(keys) < NamedExcess || c.Share(keys) < NamedShare { // else nobody minds them
		return e, false
	}
	return Evidence{
		Text:  fmt.Sprintf("the hypervisor took %s of slow requests beside that, more than what it always takes, as far as can be told: it may have been more", Ms(taken)),
		Holds: Unknown, Decides: true, Number: taken / max(1, c.Excess),
		Alike: []string{"host-contention"}, Record: "again, on a machine of which a hypervisor takes less",
	}, true
}

// byOthers reports whether a leaf is time in which others had the CPU that a thread wanted, or the hypervisor.
func byOthers(k blame.Key) bool { return k.Off == events.Queued || k.Off == events.Robbed }

// asleep reports whether a leaf is time in which a thread did something else than to be on
// a CPU or to want one.
func asleep(k blame.Key) bool {
	return k.Off == events.Faulted || k.Off == events.Blocked || k.Off == events.Slept
}

// Watched reports whether the kernel's scheduling events were recorded.
func (c *Case) Watched() bool { return c.A.Watched() }

// watchedWhole reports whether they say what threads did in all of the slow requests: what
// a thread does when the recording ends is not known.
func (c *Case) watchedWhole() bool {
	return c.Watched() && !slices.ContainsFunc(c.Tail, func(i int) bool {
		return c.A.Found().Requests[c.A.Requests[i].Request].InFlight
	})
}

// offIn sums up what slow requests spent in a state longer than typical ones, in
// nanoseconds per request, under free keys.
func (c *Case) offIn(state events.State) (ns float64) {
	for i, k := range c.A.Keys {
		if !c.taken[i] && k.Off == state {
			ns += c.NS[i]
		}
	}
	return ns
}

// Outrun is for how much longer slow requests than typical ones have a thread that wants a CPU which
// others have, or the hypervisor, whichever cause that was given to, in nanoseconds per request; it needs the kernel's
// scheduling events.
func (c *Case) Outrun() (ns float64) {
	for i, k := range c.A.Keys {
		if byOthers(k) {
			ns += c.NS[i]
		}
	}
	return ns
}

// Queue is who had the CPUs while threads wanted one during slow requests, in
// nanoseconds per request more than during typical ones.
type Queue struct{ Others, Own, Quota, Robbed float64 }

// Queue returns it; it needs the kernel's scheduling events.
func (c *Case) Queue() Queue {
	return Queue{max(0, c.offIn(events.Queued)), max(0, c.offIn(events.Crowded)), max(0, c.offIn(events.Stopped)), max(0, c.offIn(events.Robbed))}
}

// Neighbour is a program that had a CPU until threads got it that wanted one during slow requests: the processes of one name, or one
// that has none.
type Neighbour struct {
	// Process is the one of them that had it for longest, Processes is how many they are.
	events.Process
	Processes int
	// Share is their part of the time in which others had the CPUs.
	Share float64
	most  int64 // of one of them
}

// String names it.
func (n Neighbour) String() string {
	switch {
	case n.Name == "":
		return fmt.Sprintf("process %d", n.PID)
	case n.Processes > 1:
		return fmt.Sprintf("%s (%d processes, such as %d)", strconv.Quote(n.Name), n.Processes, n.PID)
	}
	return fmt.Sprintf("%s (process %d)", strconv.Quote(n.Name), n.PID)
}

// programs returns who had the CPUs that threads wanted during slow requests, those with the largest shares first, and which part of that
// time nobody is known to have had them. It is empty if that is not known, or was not asked.
func (c *Case) programs() (list []Neighbour, none float64) {
	behind, own := c.A.Behind(c.tailSpans())
	all := float64(own)
	none = all
	at := map[events.Process]int{} // by name, or by number if there is none
	for p, ns := range behind {
		all += float64(ns)
		if p.PID == 0 {
			none += float64(ns)
			continue
		}
		program := p
		if p.Name != "" {
			program.PID = 0
		}
		i, ok := at[program]
		if !ok {
			i = len(list)
			at[program], list = i, append(list, Neighbour{Process: p})
		}
		n := &list[i]
		n.Processes++
		n.Share += float64(ns)
		if ns > n.most || ns == n.most && p.PID < n.PID {
			n.most, n.Process = ns, p
		}
	}
	for i := range list {
		list[i].Share /= max(1, all)
	}
	slices.SortFunc(list, func(a, b Neighbour) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.PID, b.PID)) })
	return list, none / max(1, all)
}

// neighboursTold is how many are told, and neighbourLeast from which share on.
const neighboursTold, neighbourLeast = 3, 0.1

// Neighbours returns those with the largest shares, the largest first, and says that; it needs kernel events of a version that asks
// for them.
func (c *Case) Neighbours() (list []Neighbour, e Evidence) {
	list, none := c.programs()
	var told []string
	for i, n := range list {
		if i < neighboursTold && n.Share >= neighbourLeast {
			told = append(told, fmt.Sprintf("%s %s of that time", n, Pct(n.Share)))
		}
	}
	list = list[:len(told)]
	if len(told) == 0 {
		return nil, e
	}
	text := "of others, before the process's threads got a CPU it was with " + strings.Join(told, ", ")
	if none >= neighbourLeast {
		text += fmt.Sprintf(", and with nobody %s", Pct(none))
	}
	return list, Evidence{Text: text, Holds: Yes, Number: list[0].Share}
}

// All is the time in which threads wanted a CPU.
func (q Queue) All() float64 { return q.Others + q.Own + q.Quota + q.Robbed }

// robbedLeast is the part of it from which on the hypervisor's is told.
const robbedLeast = 0.01

// Evidence says who had the CPUs, by the kernel's own events, and whether those that
// of returns had them mostly.
func (q Queue) Evidence(of float64) Evidence {
	hypervisor := ""
	if q.Robbed > robbedLeast*q.All() {
		hypervisor = fmt.Sprintf(", the hypervisor for %s", Pct(q.Robbed/q.All()))
	}
	return Evidence{
		Text: fmt.Sprintf("threads wanted a CPU for %s of a slow request: others had it for %s of that%s, the process's own threads for %s, its quota was used up for %s (the kernel's scheduling events)",
			Ms(q.All()), Pct(q.Others/max(1, q.All())), hypervisor, Pct(q.Own/max(1, q.All())), Pct(q.Quota/max(1, q.All()))),
		Holds: Of(2*of >= q.All() && of > 0), Decides: true, Number: of / max(1, q.All()),
	}
}

// WantedFrom returns the free pieces in which threads wanted a CPU and, as state says,
// others, the process's own threads or a quota kept it from them.
func (c *Case) WantedFrom(state events.State) (out []blame.KeyID) {
	for i, k := range c.A.Keys {
		if !c.taken[i] && k.Off == state {
			out = append(out, blame.KeyID(i))
		}
	}
	return out
}

// StoppedByQuota returns the pieces that a quota owns: where the kernel told when it was
// used up, no others, unless it was for most of the slow requests' time.
func (c *Case) StoppedByQuota() []blame.KeyID {
	if c.Watched() && !c.Stopped() {
		return c.WantedFrom(events.Stopped)
	}
	return c.OffCPU()
}

// Others returns those of keys, of OffCPU, of which it is not known that a quota or the
// process's own threads kept the CPU from who wanted it, nor that handshakes did.
func (c *Case) Others(keys []blame.KeyID) []blame.KeyID {
	keys = keep(keys, func(id blame.KeyID) bool { return byOthers(c.Key(id)) || !wants(c.Key(id)) })
	return without(keys, c.Dials().Queues)
}

// OffCPUIn returns the free pieces in which threads did something else than to be on a CPU
// or to want one.
func (c *Case) OffCPUIn(state events.State) []blame.KeyID {
	return c.Free(func(k blame.Key) bool { return k.Off == state })
}

// keptApart is the evidence that what is looked at contains no time in which a thread
// wanted a CPU: the kernel told it apart.
func (c *Case) keptApart(what string) Evidence {
	return Evidence{
		Text:  fmt.Sprintf("time in which threads wanted a CPU is not in %s: the kernel's scheduling events tell it apart, %s of a slow request", what, Ms(c.Queue().All())),
		Holds: Yes, Decides: true, Number: c.Queue().All() / max(1, c.Excess),
	}
}

// blockedIn says which part of the time under keys threads slept for a device.
func (c *Case) blockedIn(keys []blame.KeyID) Evidence {
	var blocked float64
	for _, id := range keys {
		if c.Key(id).Off == events.Blocked {
			blocked += c.NS[id]
		}
	}
	part := blocked / max(1, c.Sum(keys))
	e := Evidence{
		Text:   fmt.Sprintf("threads waited for a device for %s of that time (the kernel's scheduling events)", Pct(part)),
		Number: part,
	}
	switch {
	case part >= blockedMost:
		e.Holds = Yes
	case part <= blockedLeast:
		e.Holds = No
	}
	return e
}

// Slept is the part of the time under keys for which threads are known to have slept, and not for a device: as who writes
// to a pipe, or a terminal, waits for whoever reads. It is 0 without the kernel's scheduling events.
func (c *Case) Slept(keys []blame.KeyID) float64 {
	return c.Sum(keep(keys, func(id blame.KeyID) bool { return c.Key(id).Off == events.Slept })) / max(1, c.Sum(keys))
}

// Polled is the part of the time under keys that are waits for Go's network poller, which knows no files on disks.
func (c *Case) Polled(keys []blame.KeyID) float64 {
	return c.Sum(keep(keys, func(id blame.KeyID) bool { return c.Key(id).Kind == blame.Network })) / max(1, c.Sum(keys))
}

// CallsInto says how often a function of C was called, and how long that took, where probes
// counted it: by slow requests and by all others. ok is false where they did not.
func (c *Case) CallsInto(name string) (e Evidence, ok bool) {
	g := c.kernel.Cgo
	if g == nil {
		return e, false
	}
	var calls, ns, longest int64
	for _, f := range g.Functions { // packages may have functions of one name
		if f.Name == name {
			calls, ns, longest = calls+f.Calls, ns+f.NS, max(longest, f.MaxNS)
		}
	}
	if calls == 0 {
		return e, false
	}
	return Evidence{
		Text: fmt.Sprintf("in %s probes saw %d calls of %s by all requests: %s on average, the longest %s",
			Ms(float64(g.ToNS-g.FromNS)), calls, name, Ms(float64(ns)/float64(calls)), Ms(float64(longest))),
		Holds: Yes, Number: float64(longest) / 1e9,
	}, true
}

// blockedMost is the part of calls from which on they are waits for a device, blockedLeast
// the part up to which they are none; in between they are both.
const blockedMost, blockedLeast = 0.5, 0.1
