//go:build amd64 || arm64

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/kernel/events"
)

const (
	// watchFor is for how long functions are watched at most, where a set is not cheap
	// enough to stay.
	watchFor = 5 * time.Second
	// share is the part of the process's CPU time, over watchFor, that going to the kernel
	// for it may take: reached, the probes are removed at the next look.
	share = 0.01
	// free is what that may take in any case, in ns of CPU time, so that of a process that
	// does next to nothing something is seen.
	free = 5e6
	// inService is how much more a hit takes in a service than in a loop where nothing else
	// evicts caches, with the program: incidents/cmd/overhead, by hits and CPU time per
	// request, says 2.3 for events.Gosched and 1.9 for events.Func.
	inService = 2
)

// The names of what the programs of all sets have.
const (
	mapCounts = cgoMapWhylateCounts
	mapStacks = cgoMapWhylateStacks
	varGoid   = cgoVarGoid
)

// goSet is what is particular to a set of probes in functions of Go's runtime.
type goSet struct {
	load func() (*ebpf.CollectionSpec, error)
	// sites are where each program belongs.
	sites func(*watcher) (map[string][]site, error)
	// ends are the programs that end what others begin: they are attached before these, and
	// removed after them, so that what is seen to begin is seen to end.
	ends []string
	// prepare sets what else the programs have to know; it may be nil.
	prepare func(*ebpf.CollectionSpec) error
	result  func(*watcher, *events.After) error
	// stays says that it is cheap enough for the whole recording.
	stays bool
	// dear is the part of its hits where the kernel lets the instruction run for itself.
	dear float64
}

// site is where a probe belongs, and what its program is told of it.
type site struct{ addr, cookie uint64 }

var goSets = map[string]goSet{
	events.Cgo:       {load: loadCgo, sites: cgoSites, ends: []string{cgoProgWhylateDone}, result: (*watcher).cgo},
	events.CgoReturn: {load: loadCgo, sites: cgoReturnSites, ends: []string{cgoProgWhylateDone, cgoProgWhylateBack}, prepare: waitForReturn, result: (*watcher).cgo, dear: 1. / 3},
	events.Alloc:     {load: loadAlloc, sites: allocSites, result: (*watcher).allocs, stays: true},
	events.Func:      {load: loadFunction, sites: functionSites, result: (*watcher).calls, stays: true, dear: 1. / 2},
	events.GC:        {load: loadGc, sites: gcSites, ends: []string{gcProgWhylateEnd}, result: (*watcher).cycles, stays: true},
	events.Gosched:   {load: loadGosched, sites: statusSites, result: (*watcher).waits},
}

// watcher is a set of probes in functions of a Go process.
type watcher struct {
	goSet
	set string
	links
	pid   int
	names *names
	coll  *ebpf.Collection
	sites map[string][]site
	hitNS float64 // what one takes
	share float64
	// window is what share is of.
	window time.Duration

	since spent // when it began, or, if it stays, watchFor ago at most
	short atomic.Bool

	// What follows is for events.Func.
	re    *regexp.Regexp
	named []string
	// skipped is how many functions have no place for probes.
	skipped int
	ring    *ringbuf.Reader
	take    func(*events.Call) (room bool, err error)
	// n calls were told, and untold were not, for want of room: the first of them ended at
	// untilNS.
	n, untold, untilNS int64
	isFull             atomic.Bool
	// last says that all were told, with those that have not ended, but for unended.
	last    bool
	unended int64
}

// spent is what was taken until an instant: hits, and CPU time of the process.
type spent struct{ at, hits, cpu int64 }

// watch is about functions of a process; take is given the calls of those that the user
// named.
func watch(set string, pid int, types *btf.Cache, of *names, o Options, take func(*events.Call) (bool, error)) (_ *watcher, err error) {
	s, ok := goSets[set]
	if !ok {
		return nil, fmt.Errorf("there is no set of probes %q", set)
	}
	s.stays = s.stays || o.Stay
	w := &watcher{goSet: s, set: set, names: of, pid: pid, share: cmp.Or(o.share, share), window: cmp.Or(o.window, watchFor), re: o.Func, take: take}
	traps, err := trapCosts()
	if err != nil {
		return nil, fmt.Errorf("measure what a probe in a function takes: %w", err)
	}
	w.hitNS = inService * (s.dear*traps.dear + (1-s.dear)*traps.cheap)
	if w.sites, err = s.sites(w); err != nil {
		return nil, err
	}
	spec, err := s.load()
	if err != nil {
		return nil, err
	}
	for name := range spec.Programs {
		if w.sites[name] == nil {
			delete(spec.Programs, name)
		}
	}
	if v := spec.Variables[varGoid]; v != nil {
		at, ok := w.names.bin.GoidOffset()
		if !ok {
			return nil, fmt.Errorf("it is not known how %s stores the ids of goroutines", w.names.bin.GoVersion())
		}
		if err := v.Set(at); err != nil {
			return nil, err
		}
	}
	if s.prepare != nil {
		if err := s.prepare(spec); err != nil {
			return nil, err
		}
	}
	if w.coll, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types}); err != nil {
		return nil, err
	}
	if ring := w.coll.Maps[functionMapWhylateCalls]; set == events.Func {
		if w.ring, err = ringbuf.NewReader(ring); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

// attach lets the programs run where they belong.
func (w *watcher) attach() error {
	exe, err := link.OpenExecutable(w.names.path())
	if err != nil {
		return err
	}
	w.begin()
	if w.since, err = w.spent(); err != nil {
		return err
	}
	order := slices.SortedFunc(maps.Keys(w.sites), func(a, b string) int {
		ends := func(name string) int { return slices.Index(w.ends, name) }
		return cmp.Or(cmp.Compare(ends(b), ends(a)), cmp.Compare(a, b))
	})
	for _, name := range order {
		o := &link.UprobeMultiOptions{PID: uint32(w.pid)}
		for _, s := range w.sites[name] {
			offset, ok := w.names.bin.Offset(s.addr)
			if !ok {
				return fmt.Errorf("%#x is not in the executable", s.addr)
			}
			o.Addresses, o.Cookies = append(o.Addresses, offset), append(o.Cookies, s.cookie)
		}
		l, err := exe.UprobeMulti(nil, w.coll.Programs[name], o)
		if err != nil {
			return err
		}
		w.add(l)
	}
	return nil
}

func (w *watcher) name() string { return w.set }

// counts are those of all programs of the set.
func (w *watcher) counts() (hits, lost int64, err error) {
	var each []struct{ Hits, Lost uint64 }
	if err := w.coll.Maps[mapCounts].Lookup(uint32(0), &each); err != nil {
		return 0, 0, fmt.Errorf("count the hits of probes: %w", err)
	}
	for _, x := range each {
		hits += int64(x.Hits)
		lost += int64(x.Lost)
	}
	return hits, lost, nil
}

// spent is what was taken until now.
func (w *watcher) spent() (s spent, err error) {
	s.at = monotonic()
	if s.hits, _, err = w.counts(); err != nil {
		return s, err
	}
	if s.cpu, err = CPUTime(w.pid); err != nil {
		return s, fmt.Errorf("read the CPU time of the process: %w", err)
	}
	return s, nil
}

// due compares what was taken with what may be: a part of what the process would use itself
// in watchFor if it went on like this.
func (w *watcher) due() bool {
	return w.ask(func() bool {
		now, err := w.spent()
		if err != nil { // it has ended
			return true
		}
		passed := max(now.at-w.since.at, 1)
		used := float64(now.cpu-w.since.cpu) * max(1, float64(w.window)/float64(passed))
		if float64(now.hits-w.since.hits)*w.hitNS > max(free, w.share*used) {
			w.short.Store(true)
			return true
		}
		if w.isFull.Load() {
			return true
		}
		if passed < int64(w.window) {
			return false
		}
		w.since = now
		return !w.stays
	})
}

// burst is what is the same in each result.
func (w *watcher) burst() (b events.Burst, err error) {
	b = events.Burst{HitNS: int64(w.hitNS), Short: w.short.Load()}
	b.FromNS, b.ToNS = w.span()
	b.Hits, b.Lost, err = w.counts()
	return b, err
}

func (w *watcher) result(a *events.After) error { return w.goSet.result(w, a) }

func (w *watcher) programs() (list []program) {
	for name, p := range w.coll.Programs {
		list = append(list, program{name, p})
	}
	slices.SortFunc(list, func(a, b program) int { return cmp.Compare(a.name, b.name) })
	return list
}

// detach removes the probes; what the programs see from here on counts as hits only.
func (w *watcher) detach() error {
	var err error
	if v := w.coll.Variables[functionVarClosing]; v != nil {
		w.ask(func() bool {
			err = v.Set(uint64(1))
			return false
		})
	}
	return errors.Join(err, w.links.detach())
}

func (w *watcher) close() (err error) {
	_ = w.links.detach() // who called it has the error
	if w.ring != nil {
		err = errors.Join(err, w.ring.Close())
	}
	if w.coll != nil {
		w.coll.Close()
	}
	return err
}

// stack names what a program has stored where a function has its probe.
func (w *watcher) stack(number uint64, probed string) events.Stack {
	return w.names.stackOf(w.coll.Maps[mapStacks], number, probed)
}

// frames is FRAMES in bpf/stacks.h, slots is SLOTS in bpf/golang.h.
const (
	frames = 64
	slots  = 40
)

// histogram is without the empty slots at the end.
func histogram(h *[slots]uint64) events.Histogram {
	n := slots
	for n > 0 && h[n-1] == 0 {
		n--
	}
	list := make(events.Histogram, n)
	for i := range list {
		list[i] = int64(h[i])
	}
	return list
}

// CPUTime is what the threads of a process have used, in ns, with those that have ended.
func CPUTime(pid int) (ns int64, err error) {
	var t unix.Timespec
	err = unix.ClockGettime(int32(^pid<<3|2), &t) // clock_getcpuclockid(3): CPUCLOCK_SCHED
	return t.Nano(), err
}
