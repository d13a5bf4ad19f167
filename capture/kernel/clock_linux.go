//go:build amd64 || arm64

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/whylate/whylate/capture/kernel/events"
)

const (
	// clockFor is for how long readings of the clock are counted. The kernel takes the long
	// way into each system call of every process meanwhile.
	clockFor = time.Second
	// clockRuns is how often the programs may run for that, for all processes: at 60 ns
	// or so 12 ms of one CPU. Reached, they are removed at the next look, a period later.
	clockRuns = 200_000
)

// readings counts readings of the clock, for a moment.
type readings struct {
	clockObjects
	links
	pid  int
	runs uint64 // the most for which they run
}

// countReadings is about those of a process.
func countReadings(pid int, types *btf.Cache, runs uint64) (_ *readings, err error) {
	spec, err := loadClock()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[clockVarTarget].Set(int32(pid)); err != nil {
		return nil, err
	}
	r := &readings{pid: pid, runs: runs}
	if err := spec.LoadAndAssign(&r.clockObjects, &ebpf.CollectionOptions{Cache: types}); err != nil {
		return nil, err
	}
	return r, nil
}

// attach begins with the end of a call: a call that is seen to begin is seen to end.
func (r *readings) attach() error {
	for _, p := range []*ebpf.Program{r.WhylateExit, r.WhylateEnter} {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return err
		}
		r.add(l)
	}
	r.begin()
	return nil
}

func (r *readings) name() string { return events.Clock }

// count is what was counted so far, on all CPUs.
func (r *readings) count() (c events.Readings, err error) {
	var each []struct{ Runs, Calls, NS, Max uint64 }
	if err := r.WhylateReadings.Lookup(uint32(0), &each); err != nil {
		return c, fmt.Errorf("count readings of the clock: %w", err)
	}
	c.FromNS, c.ToNS = r.span()
	var runs uint64
	for _, x := range each {
		runs += x.Runs
		c.Calls += int64(x.Calls)
		c.NS += int64(x.NS)
		c.MaxNS = max(c.MaxNS, int64(x.Max))
	}
	c.Short = runs >= r.runs
	return c, nil
}

func (r *readings) due() bool {
	return r.ask(func() bool {
		c, err := r.count()
		return c.Short || c.ToNS-c.FromNS >= int64(clockFor) || err != nil
	})
}

func (r *readings) read() error { return nil }

func (r *readings) result(a *events.After) error {
	c, err := r.count()
	if err != nil {
		return err
	}
	if c.Calls > 0 {
		if c.Callers, err = r.callers(); err != nil {
			return err
		}
	}
	a.Readings = &c
	return nil
}

// callers are the stacks from which the clock was read. The functions of a program that
// is not Go, or not there any more, have no names here.
func (r *readings) callers() (list []events.Caller, err error) {
	names, err := namesOf(r.pid)
	if err != nil {
		return nil, nil
	}
	defer func() { err = errors.Join(err, names.close()) }()
	var number, n uint64
	each := r.WhylateCallers.Iterate()
	for each.Next(&number, &n) {
		stack := names.stackOf(r.WhylateStacks, number, "")
		same := func(c events.Caller) bool { return slices.Equal(c.Stack, stack) } // other lines of it
		if i := slices.IndexFunc(list, same); i >= 0 {
			list[i].N += int64(n)
		} else if stack != nil {
			list = append(list, events.Caller{N: int64(n), Stack: stack})
		}
	}
	slices.SortFunc(list, func(a, b events.Caller) int { return cmp.Or(cmp.Compare(b.N, a.N), slices.Compare(a.Stack, b.Stack)) })
	return list[:min(len(list), events.MaxCallers)], each.Err()
}

func (r *readings) close() error {
	_ = r.detach() // who called it has the error
	return r.clockObjects.Close()
}

// programs are those of which the kernel says what they took.
func (r *readings) programs() []program {
	return []program{{clockProgWhylateEnter, r.WhylateEnter}, {clockProgWhylateExit, r.WhylateExit}}
}
