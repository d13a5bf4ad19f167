//go:build amd64 || arm64

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/kernel/events"
)

// nobody is the id of no process; 0 is that of the idle threads.
const nobody = -1

// probes are the programs in the kernel. Nothing of them outlives the file descriptors
// in here.
type probes struct {
	schedObjects
	types *btf.Cache
	links []link.Link // in the order in which they are closed
	stats io.Closer   // while it is open the kernel measures programs; nil if it refused

	measured bool // the kernel measured them
}

// load loads the programs for a process; they do not run yet.
func load(pid int, o Options) (*probes, error) {
	spec, err := loadSched()
	if err != nil {
		return nil, err
	}
	cache := btf.NewCache()
	types, err := cache.Kernel()
	if err != nil {
		return nil, err
	}
	size := bufferSize(o.Buffer)
	spec.Maps[schedMapWhylateEvents].MaxEntries = size
	err = errors.Join(
		spec.Variables[schedVarTarget].Set(int32(pid)),
		spec.Variables[schedVarMuch].Set(uint64(size/2)),
		spec.Variables[schedVarStateArgument].Set(hasState(types) && !o.old),
		spec.Variables[schedVarTaskThrottled].Set(!o.old))
	if err != nil {
		return nil, err
	}
	p := &probes{types: cache}
	if err := spec.LoadAndAssign(&p.schedObjects, &ebpf.CollectionOptions{Cache: cache}); err != nil {
		return nil, err
	}
	return p, nil
}

// bufferSize is the next size of a ring buffer: a power of two, of whole pages.
func bufferSize(bytes int) uint32 {
	n := uint32(max(min(cmp.Or(max(bytes, 0), defaultBuffer), 1<<30), os.Getpagesize()))
	return 1 << bits.Len32(n-1)
}

// hasState tells whether sched_switch says in which state the thread is that leaves:
// since 5.18 it does (before, its state has to be read, which it may have left again).
func hasState(types *btf.Spec) bool {
	var t *btf.Typedef
	if err := types.TypeByName("btf_trace_sched_switch", &t); err != nil {
		return false
	}
	p, ok := t.Type.(*btf.Pointer)
	if !ok {
		return false
	}
	f, ok := p.Target.(*btf.FuncProto)
	return ok && len(f.Params) > 4 // data, preempt, prev, next, prev_state
}

// measure has the kernel measure what programs take from now on, if it does that for this
// process.
func (p *probes) measure() {
	if stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err == nil {
		p.stats, p.measured = stats, true
	}
}

// attach lets the programs run. Wake-ups come first, and go last: a thread that is seen
// to leave is also seen to be woken.
func (p *probes) attach() error {
	for _, prog := range []*ebpf.Program{p.WhylateWakeup, p.WhylateNew, p.WhylateSwitch} {
		l, err := link.AttachTracing(link.TracingOptions{Program: prog})
		if err != nil {
			return err
		}
		p.links = append([]link.Link{l}, p.links...)
	}
	return nil
}

// remove ends what the programs cost, and returns it. The buffer stays.
func (p *probes) remove() (cost []events.Program, err error) {
	for _, l := range p.links {
		err = errors.Join(err, l.Close())
	}
	p.links = nil
	if p.stats != nil {
		cost = p.cost([]program{
			{schedProgWhylateSwitch, p.WhylateSwitch},
			{schedProgWhylateWakeup, p.WhylateWakeup},
			{schedProgWhylateNew, p.WhylateNew},
		})
		err = errors.Join(err, p.stats.Close())
		p.stats = nil
	}
	return cost, errors.Join(err, p.schedPrograms.Close())
}

// program is one in the kernel.
type program struct {
	name string
	*ebpf.Program
}

// cost is what programs took, by the kernel's own count; nothing if it did not measure.
func (p *probes) cost(of []program) (list []events.Program) {
	if !p.measured {
		return nil
	}
	for _, x := range of {
		if s, failed := x.Stats(); failed == nil { // without it the cost is unknown
			list = append(list, events.Program{Name: x.name, Runs: int64(s.RunCount), NS: int64(s.Runtime)})
		}
	}
	return list
}

// lost is how many stretches the programs could not tell.
func (p *probes) lost() (n int64, err error) {
	var each []uint64
	if err := p.WhylateLost.Lookup(uint32(0), &each); err != nil {
		return 0, fmt.Errorf("count lost scheduling events: %w", err)
	}
	for _, x := range each {
		n += int64(x)
	}
	return n, nil
}

// close frees everything; it may be called in any state.
func (p *probes) close() error {
	_, err := p.remove()
	return errors.Join(err, p.schedObjects.Close())
}

// explain says what is missing where the programs that record scheduling events were not
// loaded or attached.
func explain(err error) error {
	if err == nil {
		return nil
	}
	var rejected *ebpf.VerifierError
	switch {
	case errors.Is(err, os.ErrPermission):
		err = reason(err)
	case errors.As(err, &rejected), errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, btf.ErrNotFound), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("record scheduling events: %w", err)
}

// reason says what is missing where a set of probes was not loaded or attached. The library
// takes each refusal for too low a limit of locked memory, which it is not since 5.11.
func reason(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission) && capable():
		return fmt.Errorf("%w: this process has CAP_BPF and CAP_PERFMON, so the machine does not allow it to anybody (a container's seccomp profile, or a kernel in lockdown)", os.ErrPermission)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: needs root, or CAP_BPF and CAP_PERFMON", os.ErrPermission)
	}
	return err
}

// capable tells whether this process has the capabilities that are needed.
func capable() bool {
	var has [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &has[0]); err != nil {
		return false
	}
	can := func(c int) bool { return has[c/32].Effective&(1<<(c%32)) != 0 }
	return can(unix.CAP_SYS_ADMIN) || can(unix.CAP_BPF) && can(unix.CAP_PERFMON)
}
