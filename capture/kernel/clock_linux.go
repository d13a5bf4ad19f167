//go:build amd64 || arm64

package kernel

import (
	"errors"
	"fmt"
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
	links []link.Link
	from  int64
	runs  uint64 // the most for which they run
}

// countReadings begins to count those of a process.
func countReadings(pid int, types *btf.Cache, runs uint64) (_ *readings, err error) {
	spec, err := loadClock()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[clockVarTarget].Set(int32(pid)); err != nil {
		return nil, err
	}
	r := &readings{runs: runs}
	if err := spec.LoadAndAssign(&r.clockObjects, &ebpf.CollectionOptions{Cache: types}); err != nil {
		return nil, err
	}
	// The end of a call comes first: a call that is seen to begin is seen to end.
	for _, p := range []*ebpf.Program{r.WhylateExit, r.WhylateEnter} {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.links = append([]link.Link{l}, r.links...)
	}
	r.from = monotonic()
	return r, nil
}

// count is what was counted so far, on all CPUs, and whether it is time to end.
func (r *readings) count() (c events.Readings, end bool, err error) {
	var each []struct{ Runs, Calls, NS, Max uint64 }
	if err := r.WhylateReadings.Lookup(uint32(0), &each); err != nil {
		return c, true, fmt.Errorf("count readings of the clock: %w", err)
	}
	c.FromNS, c.ToNS = r.from, monotonic()
	var runs uint64
	for _, x := range each {
		runs += x.Runs
		c.Calls += int64(x.Calls)
		c.NS += int64(x.NS)
		c.MaxNS = max(c.MaxNS, int64(x.Max))
	}
	c.Short = runs >= r.runs
	return c, c.Short || c.ToNS-c.FromNS >= int64(clockFor), nil
}

// close ends counting. It may be called again.
func (r *readings) close() (err error) {
	for _, l := range r.links {
		err = errors.Join(err, l.Close())
	}
	r.links = nil
	return errors.Join(err, r.clockObjects.Close())
}

// programs are those of which the kernel says what they took.
func (r *readings) programs() []program {
	return []program{{clockProgWhylateEnter, r.WhylateEnter}, {clockProgWhylateExit, r.WhylateExit}}
}
