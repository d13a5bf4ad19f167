//go:build amd64 || arm64

package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/capture/symbols"
)

// function finds a function of Go's runtime.
func function(b *symbols.Binary, name string) (symbols.Func, error) {
	f, ok := b.Func(name)
	if !ok {
		return f, fmt.Errorf("the program does not have %s", name)
	}
	return f, nil
}

// inside is where a function is watched, when it has begun.
func inside(b *symbols.Binary, name string) ([]site, error) {
	f, err := function(b, name)
	if err != nil {
		return nil, err
	}
	addr, err := b.Enter(f)
	return []site{{addr: addr}}, err
}

// at are sites.
func at(addrs []uint64) (list []site) {
	for _, a := range addrs {
		list = append(list, site{addr: a})
	}
	return list
}

// Functions in which stacks are taken.
const (
	cgoCall = "runtime.cgocall"
	sampled = "runtime.profilealloc"
)

// cgoSites are in runtime.cgocall: at its first instruction, where the stack is still the
// caller's, and where it says that C has ended.
func cgoSites(w *watcher) (map[string][]site, error) {
	b := w.names.bin
	f, err := function(b, cgoCall)
	if err != nil {
		return nil, err
	}
	begin, err := b.Enter(f)
	if err != nil {
		return nil, err
	}
	end := b.CallsTo(f, "runtime.exitsyscall")
	if begin != f.Entry || len(end) == 0 {
		return nil, fmt.Errorf("runtime.cgocall of %s is not as it is known", b.GoVersion())
	}
	return map[string][]site{cgoProgWhylateEnter: {{addr: begin}}, cgoProgWhylateDone: at(end)}, nil
}

func cgoReturnSites(w *watcher) (map[string][]site, error) {
	sites, err := cgoSites(w)
	if err != nil {
		return nil, err
	}
	b := w.names.bin
	f, _ := b.Func(cgoCall)
	if sites[cgoProgWhylateBack] = at(b.Returns(f)); len(sites[cgoProgWhylateBack]) == 0 {
		return nil, fmt.Errorf("runtime.cgocall of %s does not return", b.GoVersion())
	}
	return sites, nil
}

func waitForReturn(s *ebpf.CollectionSpec) error {
	return s.Variables[cgoVarWaitForReturn].Set(true)
}

func allocSites(w *watcher) (map[string][]site, error) {
	b := w.names.bin
	alloc, err := inside(b, sampled)
	if err == nil {
		// Without it the linker turns sampling off.
		_, err = function(b, "runtime.MemProfile")
	}
	return map[string][]site{allocProgWhylateAlloc: alloc}, err
}

func statusSites(w *watcher) (map[string][]site, error) {
	b := w.names.bin
	status, err := inside(b, "runtime.casgstatus")
	return map[string][]site{goschedProgWhylateStatus: status}, err
}

func gcSites(w *watcher) (map[string][]site, error) {
	b := w.names.bin
	begin, err := inside(b, "runtime.(*gcControllerState).startCycle")
	if err != nil {
		return nil, err
	}
	end, err := inside(b, "runtime.gcMarkTermination")
	return map[string][]site{gcProgWhylateBegin: begin, gcProgWhylateEnd: end}, err
}

// wrapper tells whether the compiler made a function that calls another one and does nothing
// else: of a method value, or of a defer or go statement with arguments.
func wrapper(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	return strings.HasSuffix(last, "-fm") || strings.HasPrefix(last, "deferwrap") || strings.HasPrefix(last, "gowrap")
}

// leaves is LEAVE in bpf/func.bpf.c.
const leaves = 1 << 16

// functionSites are in the functions that the user named.
func functionSites(w *watcher) (map[string][]site, error) {
	if w.re == nil {
		return nil, errors.New("no function is named")
	}
	b := w.names.bin
	var begin, leave []site
	var last error
	for f := range b.Funcs() {
		if !w.re.MatchString(f.Name) || wrapper(f.Name) {
			continue
		}
		enter, err := b.Enter(f)
		returns := b.Returns(f)
		if err == nil && len(returns) == 0 {
			err = fmt.Errorf("%s does not return", f.Name)
		}
		if err != nil {
			last = err
			w.skipped++
			continue
		}
		if len(w.named) == events.MaxFunctions {
			return nil, fmt.Errorf("more than %d functions match %q", events.MaxFunctions, w.re)
		}
		for _, addr := range returns {
			leave = append(leave, site{addr, leaves | uint64(len(w.named))})
		}
		begin = append(begin, site{enter, uint64(len(w.named))})
		w.named = append(w.named, events.Text(f.Name))
	}
	if len(w.named) == 0 {
		return nil, errors.Join(fmt.Errorf("no function matches %q; one that is inlined everywhere is none", w.re), last)
	}
	return map[string][]site{functionProgWhylateCall: append(leave, begin...)}, nil // who leaves first: see bpf/func.bpf.c
}

// callBytes is the size of a struct call in bpf/func.bpf.c, callHeader what the kernel puts
// before each.
const callBytes, callHeader = 32, 8

// read takes the calls that the programs have told until now: they may tell more than can be
// written.
func (w *watcher) read() error {
	if w.ring == nil || w.last {
		return nil
	}
	w.ring.SetDeadline(time.Now())
	var rec ringbuf.Record
	for left := w.ring.AvailableBytes(); left > 0; left -= callHeader + callBytes {
		err := w.ring.ReadInto(&rec)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read calls of functions: %w", err)
		}
		if len(rec.RawSample) < callBytes {
			return fmt.Errorf("read calls of functions: one of %d bytes, they have %d", len(rec.RawSample), callBytes)
		}
		word := func(i int) int64 { return int64(binary.NativeEndian.Uint64(rec.RawSample[8*i:])) }
		if err := w.tell(&events.Call{Goroutine: word(0), From: word(1), To: word(2), Func: int(word(3))}); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) tell(c *events.Call) error {
	room, err := w.take(c)
	switch {
	case err != nil:
		return err
	case room:
		w.n++
		return nil
	}
	w.untold++
	w.isFull.Store(true) // the probes go
	if !c.Open && (w.untilNS == 0 || c.To < w.untilNS) {
		w.untilNS = c.To
	}
	return nil
}

// stillOpen takes the calls that had not ended when the programs were removed.
func (w *watcher) stillOpen() error {
	var g uint64
	var in struct{ Goid, Since, Depth, Fn uint64 }
	each := w.coll.Maps[functionMapWhylateInside].Iterate()
	for each.Next(&g, &in) {
		switch {
		case int64(in.Since) >= w.until(): // the kernel removes one probe after the other
		case w.hasEnded(g, in.Goid):
			w.unended++
		default:
			if err := w.tell(&events.Call{Goroutine: int64(in.Goid), From: int64(in.Since), Func: int(in.Fn), Open: true}); err != nil {
				return err
			}
		}
	}
	if err := each.Err(); err != nil {
		return fmt.Errorf("read calls of functions that have not ended: %w", err)
	}
	var found uint64
	if err := w.coll.Variables[functionVarUnended].Get(&found); err != nil {
		return fmt.Errorf("count calls of functions that did not return: %w", err)
	}
	w.unended += int64(found)
	return nil
}

// hasEnded tells whether a goroutine has, as far as the memory of the process may be read,
// which takes more than to watch it.
func (w *watcher) hasEnded(g, goid uint64) bool {
	const dead, scan = 6, 0x1000 // _Gdead and _Gscan in runtime2.go, from Go 1.22 to 1.26
	var now struct {             // part of a runtime.g there
		Status, _ uint32
		Goid      uint64
	}
	at, ok := w.names.bin.GoidOffset()
	b := make([]byte, binary.Size(now))
	if !ok || !readMemory(w.pid, g+at-8, b) {
		return false
	}
	if _, err := binary.Decode(b, binary.NativeEndian, &now); err != nil {
		return false
	}
	return now.Goid != goid || now.Status&^scan == dead
}

// calls are about those of functions that the user named.
func (w *watcher) calls(a *events.After) error {
	if w.gone() && !w.last {
		w.last = true
		if err := w.stillOpen(); err != nil {
			return err
		}
	}
	b, err := w.burst()
	b.Lost += w.untold
	b.ToNS = min(b.ToNS, cmp.Or(w.untilNS, b.ToNS))
	a.Func = &events.Calls{Burst: b, Functions: w.named, Calls: w.n, Skipped: w.skipped, Unended: w.unended}
	return err
}

// cgo is what is known of the functions of C.
func (w *watcher) cgo(a *events.After) error {
	b, err := w.burst()
	if err != nil {
		return err
	}
	c := &events.CgoCalls{Burst: b}
	type function struct {
		Caller                 uint64
		Calls, NS, Max         uint64
		Backs, BackNS, BackMax uint64
		Goid, Stack            uint64
		Slots                  [slots]uint64
	}
	var all []function
	var fn uint64
	var f function
	each := w.coll.Maps[cgoMapWhylateFunctions].Iterate()
	for each.Next(&fn, &f) {
		if f.Calls > 0 {
			all = append(all, f)
		}
	}
	if err := each.Err(); err != nil {
		return fmt.Errorf("read calls into C: %w", err)
	}
	slices.SortFunc(all, func(a, b function) int { return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Caller, b.Caller)) })
	n := min(len(all), events.MaxFunctions)
	c.More = len(all) - n
	c.Functions = make([]events.CFunction, n)
	for i := range all[:n] {
		x, f := &all[i], &c.Functions[i]
		*f = events.CFunction{
			Name: cName(w.names.name(x.Caller - 1)), Go: w.names.name(x.Caller - 1), Calls: int64(x.Calls), NS: int64(x.NS), MaxNS: int64(x.Max),
			Histogram: histogram(&x.Slots), Goroutine: int64(x.Goid), Stack: w.stack(x.Stack, cgoCall),
		}
		if x.Backs > 0 {
			f.Back = &events.Back{Calls: int64(x.Backs), NS: int64(x.BackNS), MaxNS: int64(x.BackMax)}
		}
	}
	a.Cgo = c
	return nil
}

// cName is the function of C that a function made by cgo calls: png_read of
// main._Cfunc_png_read.
func cName(goName string) string {
	for _, mark := range []string{"._Cfunc_", "._C2func_"} {
		if _, name, ok := strings.Cut(goName, mark); ok {
			return name
		}
	}
	return goName
}

// allocs are the sampled allocations.
func (w *watcher) allocs(a *events.After) error {
	b, err := w.burst()
	if err != nil {
		return err
	}
	m := &events.Allocs{Burst: b}
	sites := map[string]*events.AllocSite{} // by the names of their functions: lines are not told apart
	var stack uint64
	var s struct{ N, Bytes, Max uint64 }
	each := w.coll.Maps[allocMapWhylateSamples].Iterate()
	for each.Next(&stack, &s) {
		m.Samples += int64(s.N)
		m.Bytes += int64(s.Bytes)
		m.MaxSize = max(m.MaxSize, int64(s.Max))
		names := w.stack(stack, sampled)
		key := strings.Join(names, "\n")
		if sites[key] == nil {
			sites[key] = &events.AllocSite{Stack: names}
		}
		sites[key].Samples += int64(s.N)
		sites[key].Bytes += int64(s.Bytes)
	}
	if err := each.Err(); err != nil {
		return fmt.Errorf("read sampled allocations: %w", err)
	}
	all := slices.SortedFunc(maps.Values(sites), func(a, b *events.AllocSite) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), slices.Compare(a.Stack, b.Stack))
	})
	for _, x := range all[:min(len(all), events.MaxSites)] {
		m.Sites = append(m.Sites, *x)
	}
	a.Allocs = m
	return nil
}

// waits are those of runnable goroutines.
func (w *watcher) waits(a *events.After) error {
	b, err := w.burst()
	if err != nil {
		return err
	}
	var each []struct {
		N, NS, Max, Goid uint64
		Slots            [slots]uint64
	}
	if err := w.coll.Maps[goschedMapWhylateWaits].Lookup(uint32(0), &each); err != nil {
		return fmt.Errorf("read waits of goroutines: %w", err)
	}
	g := &events.Goroutines{Burst: b}
	var sum [slots]uint64
	for _, x := range each {
		g.N += int64(x.N)
		g.NS += int64(x.NS)
		if int64(x.Max) > g.MaxNS {
			g.MaxNS, g.Goroutine = int64(x.Max), int64(x.Goid)
		}
		for i, n := range x.Slots {
			sum[i] += n
		}
	}
	g.Histogram = histogram(&sum)
	a.Waits = g
	return nil
}

// cycles are those of the garbage collector.
func (w *watcher) cycles(a *events.After) error {
	b, err := w.burst()
	if err != nil {
		return err
	}
	var c struct{ Since, N, NS, Max uint64 }
	if err := w.coll.Maps[gcMapWhylateCycles].Lookup(uint32(0), &c); err != nil {
		return fmt.Errorf("read cycles of the garbage collector: %w", err)
	}
	a.GC = &events.Cycles{Burst: b, N: int64(c.N), NS: int64(c.NS), MaxNS: int64(c.Max)}
	return nil
}
