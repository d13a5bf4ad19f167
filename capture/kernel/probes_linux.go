//go:build amd64 || arm64

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"sync"
	"time"

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
	meter meter
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

// attach lets the programs run. Those that make threads known come first, then wake-ups, and
// they go last: a thread that is seen to leave is also seen to be woken.
func (p *probes) attach() error {
	for _, prog := range []*ebpf.Program{p.WhylateFork, p.WhylateWakeup, p.WhylateNew, p.WhylateSwitch} {
		l, err := link.AttachTracing(link.TracingOptions{Program: prog})
		if err != nil {
			return err
		}
		p.links = append([]link.Link{l}, p.links...)
		if prog == p.WhylateFork {
			if err := p.meet(); err != nil {
				return err
			}
		}
	}
	return nil
}

// meet makes the threads known that there are.
func (p *probes) meet() error {
	it, err := link.AttachIter(link.IterOptions{Program: p.WhylateKnown})
	if err != nil {
		return err
	}
	all, err := it.Open()
	if err == nil {
		_, err = io.Copy(io.Discard, all)
		err = errors.Join(err, all.Close())
	}
	return errors.Join(err, it.Close())
}

// programs are those of the stretches.
func (p *probes) programs() []program {
	return []program{
		{schedProgWhylateSwitch, p.WhylateSwitch}, {schedProgWhylateWakeup, p.WhylateWakeup}, {schedProgWhylateNew, p.WhylateNew}, {schedProgWhylateFork, p.WhylateFork},
	}
}

// remove ends what the programs cost, and returns it. The buffer stays.
func (p *probes) remove() (cost []events.Program, err error) {
	for _, l := range p.links {
		err = errors.Join(err, l.Close())
	}
	if p.links != nil { // a CPU may be in one of them still: this waits as synchronize_rcu does
		const global = 1 // MEMBARRIER_CMD_GLOBAL, linux/membarrier.h
		if _, _, e := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); e != 0 {
			time.Sleep(10 * time.Millisecond) // with nohz_full there is none; they take a microsecond
		}
	}
	p.links = nil
	cost = p.meter.cost(p.programs())
	p.meter.end()
	return cost, errors.Join(err, p.schedPrograms.Close())
}

// program is one in the kernel.
type program struct {
	name string
	*ebpf.Program
}

// meter has the kernel measure what programs take, in one of measuredPeriods: to read the
// clock before and after each run takes a fifth of what the shortest runs take. Somebody
// else may let the kernel measure all the time: what counts is what was measured in those
// periods. It may be used by any goroutines.
type meter struct {
	mu          sync.Mutex
	of          map[*ebpf.Program]*measured
	stats       io.Closer     // while it is open the kernel measures
	begun, open time.Time     // since when it is used, and open
	was         time.Duration // for how long it was open before
	ticks       int
	refused     bool      // by the kernel
	ended       time.Time // zero before that
}

// measured is what a program took: all in the periods that are over, and what the kernel
// had counted when the one began that is not.
type measured struct{ all, from ebpf.ProgramStats }

// add takes what the kernel has counted since from.
func (m *measured) add(p *ebpf.Program) {
	if s, err := p.Stats(); err == nil { // without it the cost is unknown
		m.all.RunCount += s.RunCount - m.from.RunCount
		m.all.Runtime += s.Runtime - m.from.Runtime
		m.from = *s
	}
}

const measuredPeriods = 10

// watch measures programs from now on.
func (m *meter) watch(list []program) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[*ebpf.Program]*measured{}
	}
	for _, x := range list {
		m.of[x.Program] = new(measured) // it has not run yet
	}
}

// tick is called once in each period, and first when programs begin.
func (m *meter) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused || !m.ended.IsZero() {
		return
	}
	now := time.Now()
	if m.ticks == 0 {
		m.begun = now
	}
	if m.ticks%measuredPeriods == 0 {
		stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
		if err != nil {
			m.refused = true
			return
		}
		for p, x := range m.of {
			if s, err := p.Stats(); err == nil {
				x.from = *s
			}
		}
		m.stats, m.open = stats, now
	} else if m.stats != nil {
		m.pause(now)
	}
	m.ticks++
}

// pause ends a period.
func (m *meter) pause(now time.Time) {
	for p, x := range m.of {
		x.add(p)
	}
	_ = m.stats.Close() // of a descriptor that was only held
	m.stats, m.was = nil, m.was+now.Sub(m.open)
}

// cost is what programs took since the first tick, as far as it was measured, and forgets
// them; nothing if it was not.
func (m *meter) cost(of []program) (list []events.Program) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused || m.ticks == 0 {
		return nil
	}
	now, open := time.Now(), m.was
	if !m.ended.IsZero() {
		now = m.ended
	}
	if m.stats != nil {
		open += now.Sub(m.open)
	}
	part := float64(now.Sub(m.begun)) / float64(max(1, open))
	for _, p := range of {
		x := m.of[p.Program]
		if x == nil {
			continue
		}
		if m.stats != nil {
			x.add(p.Program)
		}
		delete(m.of, p.Program)
		list = append(list, events.Program{Name: p.name, Runs: int64(part * float64(x.all.RunCount)), NS: int64(part * float64(x.all.Runtime))})
	}
	return list
}

// end ends measuring.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended.IsZero() {
		return
	}
	m.ended = time.Now()
	if m.stats != nil {
		m.pause(m.ended)
	}
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

// batch is the size of one in bpf/sched.bpf.c.
const batch = 16

// unsent are the stretches that each CPU has not sent. No program may run any more.
func (p *probes) unsent() (list [][]byte, err error) {
	var each []struct {
		N, _ uint32
		Of   [batch * stretchBytes]byte
	}
	if err := p.WhylateBatch.Lookup(uint32(0), &each); err != nil {
		return nil, fmt.Errorf("read scheduling events: %w", err)
	}
	for i := range each {
		list = append(list, each[i].Of[:min(each[i].N, batch)*stretchBytes])
	}
	return list, nil
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
	return err
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
