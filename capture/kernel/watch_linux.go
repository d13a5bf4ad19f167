//go:build amd64 || arm64

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/capture/symbols"
)

const (
	// watchFor is for how long functions are watched at most, where a set is not cheap
	// enough to stay.
	watchFor = 5 * time.Second
	// share is the part of the process's CPU time, over watchFor, that going to the kernel
	// for it may take: reached, the probes are removed at the next look.
	share = 0.01
	// freeHits is how often that may be in any case, so that of a process that does next
	// to nothing something is seen: a millisecond or so.
	freeHits = 2000
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
	sites func(*symbols.Binary) (map[string][]uint64, error)
	// prepare sets what else the programs have to know; it may be nil.
	prepare func(*ebpf.CollectionSpec) error
	result  func(*watcher, *events.After) error
	// stays says that it is cheap enough for the whole recording.
	stays bool
}

var goSets = map[string]goSet{
	events.Cgo:       {load: loadCgo, sites: cgoSites, result: (*watcher).cgo},
	events.CgoReturn: {load: loadCgo, sites: cgoReturnSites, prepare: waitForReturn, result: (*watcher).cgo},
	events.Alloc:     {load: loadAlloc, sites: allocSites, result: (*watcher).allocs, stays: true},
	events.GC:        {load: loadGc, sites: gcSites, result: (*watcher).cycles, stays: true},
	events.Gosched:   {load: loadGosched, sites: statusSites, result: (*watcher).waits},
}

// watcher is a set of probes in functions of a Go process.
type watcher struct {
	goSet
	set   string
	clock int32 // CPU time of the process
	names *names
	coll  *ebpf.Collection
	links []link.Link
	hitNS float64
	share float64

	from, cpu int64 // when it began
	short     bool
}

// watch begins to watch functions of a process.
func watch(set string, pid int, types *btf.Cache, share float64, stay bool) (_ *watcher, err error) {
	s, ok := goSets[set]
	if !ok {
		return nil, fmt.Errorf("there is no set of probes %q", set)
	}
	s.stays = s.stays || stay
	w := &watcher{goSet: s, set: set, clock: cpuClock(pid), share: share}
	if w.hitNS, err = trapCost(); err != nil {
		return nil, fmt.Errorf("measure what a probe in a function takes: %w", err)
	}
	if w.names, err = namesOf(pid); err != nil {
		return nil, err
	}
	sites, err := s.sites(w.names.bin)
	if err != nil {
		return nil, err
	}
	spec, err := s.load()
	if err != nil {
		return nil, err
	}
	for name := range spec.Programs {
		if sites[name] == nil {
			delete(spec.Programs, name)
		}
	}
	if v := spec.Variables[varGoid]; v != nil {
		at, ok := w.names.bin.GoidOffset()
		if !ok {
			return nil, fmt.Errorf("%w: it is not known how %s stores the ids of goroutines", ErrUnsupported, w.names.bin.GoVersion())
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
	if err := w.attach(pid, sites); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// attach lets the programs run where they belong.
func (w *watcher) attach(pid int, sites map[string][]uint64) (err error) {
	exe, err := link.OpenExecutable(executable(pid))
	if err != nil {
		return err
	}
	if w.cpu, err = cpuTime(w.clock); err != nil {
		return fmt.Errorf("read the CPU time of the process: %w", err)
	}
	w.from = monotonic()
	// The program that removes something from a table comes first: what is seen to begin
	// is seen to end.
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		offsets := make([]uint64, len(sites[name]))
		for i, addr := range sites[name] {
			var ok bool
			if offsets[i], ok = w.names.bin.Offset(addr); !ok {
				return fmt.Errorf("%#x is not in the executable", addr)
			}
		}
		l, err := exe.UprobeMulti(nil, w.coll.Programs[name], &link.UprobeMultiOptions{Addresses: offsets, PID: uint32(pid)})
		if err != nil {
			return err
		}
		w.links = append(w.links, l)
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

// look compares what was taken with what may be: a part of what the process would use
// itself if it went on like this.
func (w *watcher) look() (end bool, err error) {
	hits, _, err := w.counts()
	if err != nil {
		return true, err
	}
	cpu, err := cpuTime(w.clock)
	if err != nil { // it has ended
		return true, nil
	}
	passed := time.Duration(max(monotonic()-w.from, 1))
	if passed >= watchFor && !w.stays {
		return true, nil
	}
	used := float64(cpu-w.cpu) * float64(max(watchFor, passed)) / float64(passed)
	w.short = hits > freeHits && float64(hits)*w.hitNS > w.share*used
	return w.short, nil
}

// burst is what is the same in each result.
func (w *watcher) burst() (b events.Burst, err error) {
	b = events.Burst{FromNS: w.from, ToNS: monotonic(), HitNS: int64(w.hitNS), Short: w.short}
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

func (w *watcher) close() (err error) {
	for _, l := range w.links {
		err = errors.Join(err, l.Close())
	}
	w.links = nil
	if w.coll != nil {
		w.coll.Close()
	}
	return err
}

// stack names what a program has stored.
func (w *watcher) stack(number uint64) events.Stack {
	return w.names.stackOf(w.coll.Maps[mapStacks], number)
}

// frames is FRAMES in bpf/golang.h and bpf/clock.bpf.c, slots is SLOTS.
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

// cpuClock is the clock of the CPU time of a process (clock_getcpuclockid(3): CPUCLOCK_SCHED).
func cpuClock(pid int) int32 { return int32(^pid<<3 | 2) }

func cpuTime(clock int32) (ns int64, err error) {
	var t unix.Timespec
	err = unix.ClockGettime(clock, &t)
	return t.Nano(), err
}

func executable(pid int) string { return fmt.Sprintf("/proc/%d/exe", pid) }
