// Package cgobatch hands many items to C in one call. A call costs 20 to 35 ns, which is nothing once
// and a third of the time when the work of an item takes 50 ns; joined, 32 items pay it together.
//
//	pool, err := cgobatch.NewPool[C.item](cgobatch.Options{Items: 64})
//	a, err := pool.Get(ctx)
//	defer a.Release()
//	items := a.Add(len(docs)) // 64 at most
//	for i := range items {
//		data, err := a.Put(docs[i])
//		items[i].data, items[i].len = C.uintptr_t(data), C.uint32_t(len(docs[i]))
//	}
//	C.work((*C.item)(a.Pointer()), C.int(a.Len()))
//	for i := range items { … items[i].result … }
//
// Items lie beside each other in memory that has no Go pointers and is pinned: C may have the address of any of it until
// Release, and cgo finds nothing to scan. What items refer to is copied into the same memory or, if it is large,
// pinned where it is. See the README for what a call costs, and when not to use this.
package cgobatch

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

var (
	// ErrFull is what is got from an arena that has no room now. Reset makes room.
	ErrFull = errors.New("cgobatch: the arena is full")
	// ErrTooLarge is what is got for bytes that no arena of the pool has room for.
	ErrTooLarge = errors.New("cgobatch: larger than Options.Bytes")
	// ErrReleased is what is got from an arena after Release, see Arena.
	ErrReleased = errors.New("cgobatch: the arena was released")
)

const (
	// maxArena is how many bytes an arena may have: what C counts with an int.
	maxArena = 1<<31 - 1
	// maxArenas is how many arenas a pool may have; as many goroutines are in C, each on a thread of its own.
	maxArenas = 4096
	// align is the alignment of bytes in an arena, that of malloc: max_align_t of amd64 and arm64.
	align = 16
	// line is the alignment of items: a cache line.
	line = 64
	// pinFrom is from which size on pinning costs less than copying: see the README.
	pinFrom = 2 << 10
)

// Options are those of a pool. Their zero value is useful.
type Options struct {
	// Items is how many items an arena has room for; 0 is 64. With 32 the call is a nanosecond per item.
	Items int
	// Bytes is how many bytes an arena has room for beside the items, each piece rounded up to 16; 0 is 64 KiB.
	Bytes int
	// MaxArenas is how many arenas there may be, at most 4096; 0 is GOMAXPROCS. As arenas are held during calls, it
	// also bounds the threads that are in C. Their memory is allocated when it is needed first.
	MaxArenas int
	// PinFrom is from which size on, in bytes, Put pins rather than copies; 0 is 2 KiB.
	PinFrom int
	// MaxPins is how many buffers an arena may have pinned; 0 is twice Items.
	MaxPins int
}

func (o Options) filled() (Options, error) {
	fill := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	fill(&o.Items, 64)
	fill(&o.Bytes, 64<<10)
	fill(&o.MaxArenas, min(runtime.GOMAXPROCS(0), maxArenas))
	fill(&o.PinFrom, pinFrom)
	switch {
	case o.Items < 0 || o.Items > maxArena/2 || o.Bytes < 0 || o.PinFrom < 0 || o.MaxPins < 0:
		return o, errors.New("cgobatch: Items, Bytes, PinFrom or MaxPins is negative or too large")
	case o.MaxArenas < 0 || o.MaxArenas > maxArenas:
		return o, fmt.Errorf("cgobatch: MaxArenas is %d: it has to be 1 to %d", o.MaxArenas, maxArenas)
	}
	fill(&o.MaxPins, 2*o.Items)
	return o, nil
}

// Pool is a bounded set of arenas for items of type T. All its methods may be called by any number of
// goroutines. It needs not be closed: the garbage collector takes it.
type Pool[T any] struct {
	pool
	_ [0]*T // pools of other items are other types
}

// pool is what does not depend on the type of items.
type pool struct {
	free    []atomic.Uint64 // a bit for each arena that nobody has; the lowest goes first, as it is warm
	waiting atomic.Int32    // len(queue), for those who do not hold mu
	_       [line]byte

	slabs   []slab
	options Options
	size    int // of an arena's memory in bytes

	mu    sync.Mutex
	queue []chan *slab // who waits, first come first

	waits, pins, stale, bytes atomic.Int64
}

// NewPool returns a pool. An error tells that T has pointers or no size, or that options are out of range.
//
// T is usually a C struct. What it refers to are addresses as integers, uintptr_t in C: the
// garbage collector does not look into arenas, so a Go pointer there would be forgotten.
func NewPool[T any](o Options) (*Pool[T], error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	t := reflect.TypeOf((*T)(nil)).Elem()
	if at := pointerIn(t); at != "" {
		return nil, fmt.Errorf("cgobatch: items of type %v have a pointer: %s; use uintptr_t in C and what Put returns", t, at)
	}
	if t.Size() == 0 {
		return nil, fmt.Errorf("cgobatch: items of type %v have no size", t)
	}
	// None of the sums overflows 64 bits: each factor is below 1<<31 or looked at first.
	size := uint64(t.Size())
	if size > maxArena || uint64(o.Bytes) > maxArena || uint64(o.Items)*size+uint64(o.Bytes)+line+align > maxArena {
		return nil, fmt.Errorf("cgobatch: %d items of %d bytes and %d bytes are more than the %d that C counts", o.Items, size, o.Bytes, maxArena)
	}
	p := new(Pool[T])
	p.fill(o, roundUp(o.Items*int(size), align)+o.Bytes)
	return p, nil
}

// fill makes p a pool of arenas of some bytes.
func (p *pool) fill(o Options, size int) {
	p.options, p.size = o, size
	p.free = make([]atomic.Uint64, (o.MaxArenas+63)/64)
	p.slabs = make([]slab, o.MaxArenas)
	for i := range p.slabs {
		p.slabs[i].pool, p.slabs[i].index = p, i
		p.give(i)
	}
}

// pointerIn returns where in a type there is a pointer, "" if there is none.
func pointerIn(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		for i := 0; i < t.NumField(); i++ {
			if at := pointerIn(t.Field(i).Type); at != "" {
				return t.Field(i).Name + " " + at
			}
		}
	case reflect.Array:
		if t.Len() > 0 {
			return pointerIn(t.Elem())
		}
	case reflect.Pointer, reflect.UnsafePointer, reflect.Map, reflect.Chan, reflect.Func, reflect.Interface, reflect.Slice, reflect.String:
		return t.String()
	}
	return ""
}

// Get returns an empty arena. If all are in use it waits for one, first come first served; its error
// is that of ctx. An arena is held by one goroutine at a time, who releases it.
func (p *Pool[T]) Get(ctx context.Context) (Arena[T], error) {
	s, err := p.get(ctx)
	if err != nil {
		return Arena[T]{}, err
	}
	return Arena[T]{slab: s, generation: s.generation.Load()}, nil
}

func (p *pool) get(ctx context.Context) (*slab, error) {
	var s *slab
	if p.waiting.Load() == 0 {
		s = p.take()
	}
	if s == nil {
		var err error
		if s, err = p.wait(ctx); err != nil {
			return nil, fmt.Errorf("cgobatch: all %d arenas are in use: %w", len(p.slabs), err)
		}
	}
	if s.memory == nil {
		s.allocate()
	}
	s.ledger.lend(s.memory)
	return s, nil
}

// take returns an arena that was free, nil if none is.
func (p *pool) take() *slab {
	for i := range p.free {
		for set := p.free[i].Load(); set != 0; set = p.free[i].Load() {
			if p.free[i].CompareAndSwap(set, set&(set-1)) {
				return &p.slabs[i*64+bits.TrailingZeros64(set)]
			}
		}
	}
	return nil
}

// give makes an arena free.
func (p *pool) give(index int) {
	word, bit := &p.free[index/64], uint64(1)<<(index%64)
	for {
		if set := word.Load(); word.CompareAndSwap(set, set|bit) {
			return
		}
	}
}

// wait waits for an arena.
func (p *pool) wait(ctx context.Context) (*slab, error) {
	mine := make(chan *slab, 1)
	p.mu.Lock()
	p.queue = append(p.queue, mine)
	p.serve()
	p.mu.Unlock()
	select {
	case s := <-mine:
		return s, nil
	default:
	}
	p.waits.Add(1)
	select {
	case s := <-mine:
		return s, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.queue, mine); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.waiting.Store(int32(len(p.queue)))
		return nil, context.Cause(ctx)
	}
	return <-mine, nil // it was handed over meanwhile
}

// serve hands free arenas to those who wait; mu is held.
//
// No arena stays free while somebody waits: whoever waits makes that known before it looks for a free arena,
// whoever releases one makes it free before it looks whether somebody waits. One of the two sees the other.
func (p *pool) serve() {
	p.waiting.Store(int32(len(p.queue)))
	for len(p.queue) > 0 {
		s := p.take()
		if s == nil {
			break
		}
		p.queue[0] <- s
		p.queue = slices.Delete(p.queue, 0, 1)
	}
	p.waiting.Store(int32(len(p.queue)))
}

// Metrics tells what the pool has and did:
//
//	cgobatch_arenas                arenas that there may be
//	cgobatch_arenas_in_use         of them, not released
//	cgobatch_bytes                 memory of all arenas
//	cgobatch_waiting               goroutines that wait for an arena
//	cgobatch_waits_total           Gets that had to wait
//	cgobatch_pins_total            buffers pinned rather than copied
//	cgobatch_stale_total           uses after Release: 0 in a program that is right
func (p *pool) Metrics(emit func(name string, value float64)) {
	free := 0
	for i := range p.free {
		free += bits.OnesCount64(p.free[i].Load())
	}
	emit("cgobatch_arenas", float64(len(p.slabs)))
	emit("cgobatch_arenas_in_use", float64(len(p.slabs)-free))
	emit("cgobatch_bytes", float64(p.bytes.Load()))
	emit("cgobatch_waiting", float64(p.waiting.Load()))
	emit("cgobatch_waits_total", float64(p.waits.Load()))
	emit("cgobatch_pins_total", float64(p.pins.Load()))
	emit("cgobatch_stale_total", float64(p.stale.Load()))
}

func roundUp(n, to int) int { return (n + to - 1) &^ (to - 1) }

// address returns where b lies.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
