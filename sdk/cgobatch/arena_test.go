package cgobatch

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

type thing struct {
	data uintptr
	len  uint32
	sum  uint16
	kind [3]uint8
}

// ended is a context for Gets that do not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// model is what a test knows of an arena it holds.
type model struct {
	arena  Arena[thing]
	items  []thing
	pieces []piece // of the arena's bytes
	used   int
	pinned int
}

type piece struct {
	at    uintptr
	bytes []byte // as they were put in
	now   []byte // the same in the arena
}

// program runs random steps on a pool and compares all it sees with the model.
type program struct {
	*testing.T
	pool  *Pool[thing]
	steps []byte
	held  []*model
	stale []Arena[thing]
	tried int // uses of stale handles
	pins  int
}

// next returns the next step's number below n.
func (p *program) next(n int) int {
	if len(p.steps) == 0 {
		return 0
	}
	b := p.steps[0]
	p.steps = p.steps[1:]
	return int(b) % n
}

// stuff returns n bytes that differ from others.
func (p *program) stuff(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + n + len(p.steps))
	}
	return b
}

func (p *program) get() {
	a, err := p.pool.Get(ended)
	if len(p.held) == p.pool.options.MaxArenas {
		if !errors.Is(err, context.Canceled) {
			p.Fatalf("all arenas are held, and Get returns %v", err)
		}
		return
	}
	if err != nil || a.Len() != 0 || len(a.Items()) != 0 {
		p.Fatalf("Get: %v, %d items", err, a.Len())
	}
	for _, h := range p.held {
		if h.arena.Pointer() == a.Pointer() {
			p.Fatal("an arena is held twice")
		}
	}
	p.held = append(p.held, &model{arena: a})
}

// inside returns the n bytes at an address that has to lie in the bytes of an arena.
func (p *program) inside(m *model, at uintptr, n int) []byte {
	all := m.arena.slab.bytes
	if n == 0 {
		return nil
	}
	if at%align != 0 {
		p.Fatalf("address %#x is not aligned", at)
	}
	from := int(at - address(all))
	if at < address(all) || from > len(all)-n {
		p.Fatalf("%d bytes at %d are outside of the arena's %d", n, from, len(all))
	}
	for _, o := range m.pieces {
		if at < o.at+uintptr(len(o.bytes)) && o.at < at+uintptr(n) {
			p.Fatal("two pieces overlap")
		}
	}
	return all[from:][:n]
}

// copied notes that n bytes were to be copied into an arena, with such a result.
func (p *program) copied(m *model, b []byte, at uintptr, err error) {
	o := p.pool.options
	switch {
	case len(b) > o.Bytes:
		if err != ErrTooLarge {
			p.Fatalf("%d bytes of %d: %v", len(b), o.Bytes, err)
		}
	case len(b) > o.Bytes-m.used:
		if err != ErrFull {
			p.Fatalf("%d bytes when %d are used: %v", len(b), m.used, err)
		}
	case err != nil:
		p.Fatalf("%d bytes when %d are used: %v", len(b), m.used, err)
	default:
		m.pieces = append(m.pieces, piece{at, slices.Clone(b), p.inside(m, at, len(b))})
		m.used = min(o.Bytes, (m.used+len(b)+align-1)/align*align)
	}
}

func (p *program) pin(m *model, b []byte, at uintptr, err error) {
	if m.pinned == p.pool.options.MaxPins {
		if err != ErrFull {
			p.Fatalf("pinned more than allowed: %v", err)
		}
		return
	}
	if err != nil || at != address(b) {
		p.Fatalf("Pin: %v, address %#x is not that of the buffer", err, at)
	}
	m.pinned++
	p.pins++
}

func (p *program) step() {
	if len(p.held) == 0 {
		p.get()
		return
	}
	i := p.next(len(p.held))
	m := p.held[i]
	a, o := m.arena, p.pool.options
	switch p.next(10) {
	case 0:
		p.get()
	case 1, 2:
		it := thing{data: uintptr(p.next(256)), len: uint32(p.next(256)), kind: [3]uint8{1, 2, uint8(p.next(256))}}
		if ok := a.Append(it); ok != (len(m.items) < o.Items) {
			p.Fatalf("Append to %d of %d items: %v", len(m.items), o.Items, ok)
		} else if ok {
			m.items = append(m.items, it)
		}
	case 3:
		n := p.next(12) - 2
		added := a.Add(n)
		if len(added) != max(0, min(n, o.Items-len(m.items))) || cap(added) != len(added) {
			p.Fatalf("Add(%d) to %d of %d items: %d", n, len(m.items), o.Items, len(added))
		}
		for k := range added {
			if added[k] != (thing{}) {
				p.Fatalf("an added item is %v, not zero", added[k])
			}
			added[k].sum = uint16(p.next(256))
			m.items = append(m.items, added[k])
		}
	case 4:
		b := p.stuff(p.next(256))
		at, err := a.Copy(b)
		p.copied(m, b, at, err)
	case 5:
		n := p.next(256)
		room, at, err := a.Room(n)
		if err == nil && (len(room) != n || cap(room) != n) {
			p.Fatalf("Room(%d) has %d and %d", n, len(room), cap(room))
		}
		copy(room, p.stuff(n))
		p.copied(m, p.stuff(n), at, err)
	case 6:
		b := p.stuff(p.next(256))
		at, err := a.Put(b)
		if len(b) < o.PinFrom && len(b) <= o.Bytes-m.used {
			p.copied(m, b, at, err)
		} else {
			p.pin(m, b, at, err)
		}
	case 7:
		b := p.stuff(p.next(256))
		at, err := a.Pin(b)
		p.pin(m, b, at, err)
	case 8:
		if p.next(2) == 0 {
			a.Reset()
			*m = model{arena: a}
			return
		}
		a.Release()
		p.held = slices.Delete(p.held, i, i+1)
		p.stale = append(p.stale, a)
	case 9:
		if len(p.stale) > 0 {
			p.useStale(p.stale[p.next(len(p.stale))])
		}
	}
}

// useStale uses a handle after Release, which must not do anything.
func (p *program) useStale(a Arena[thing]) {
	uses := []func() bool{
		func() bool { return !a.Append(thing{sum: 666}) },
		func() bool { return a.Add(1) == nil },
		func() bool { _, err := a.Copy([]byte{66}); return err == ErrReleased },
		func() bool { _, err := a.Put([]byte{66}); return err == ErrReleased },
		func() bool { _, err := a.Pin([]byte{66}); return err == ErrReleased },
		func() bool { _, _, err := a.Room(1); return err == ErrReleased },
		func() bool { return a.Len() == 0 },
		func() bool { return a.Pointer() == nil },
		func() bool { return a.Items() == nil },
		func() bool { a.Reset(); return true },
		func() bool { a.Release(); return true },
	}
	i := p.next(len(uses))
	ok, message := tried(uses[i])
	if !ok || (message != "") != debugging {
		p.Fatalf("use %d of a stale handle: inert %v, panic %q", i, ok, message)
	}
	p.tried++
}

// tried returns what f returns, or true and what it panics with.
func tried(f func() bool) (ok bool, message string) {
	defer func() {
		if v := recover(); v != nil {
			ok, message = true, v.(string)
		}
	}()
	return f(), ""
}

// check compares what is held with the model.
func (p *program) check() {
	for _, m := range p.held {
		if got := m.arena.Items(); !slices.Equal(got, m.items) || m.arena.Len() != len(m.items) {
			p.Fatalf("the arena has %v, want %v", got, m.items)
		}
		if uintptr(m.arena.Pointer())%line != 0 {
			p.Fatal("the items are not aligned to a cache line")
		}
		end := uintptr(unsafe.Pointer(unsafe.SliceData(m.arena.slab.bytes)))
		if uintptr(m.arena.Pointer())+uintptr(p.pool.options.Items)*unsafe.Sizeof(thing{}) > end {
			p.Fatal("items and bytes overlap")
		}
		for _, b := range m.pieces {
			if !bytes.Equal(b.bytes, b.now) {
				p.Fatalf("a piece has changed: %x, want %x", b.now, b.bytes)
			}
		}
	}
}

func (p *program) run() {
	for len(p.steps) > 0 {
		p.step()
		p.check()
	}
	for _, m := range p.held {
		m.arena.Release()
	}
	got := metrics(p.pool)
	for name, want := range map[string]int{"arenas_in_use": 0, "stale_total": p.tried, "pins_total": p.pins} {
		if got["cgobatch_"+name] != float64(want) {
			p.Errorf("%s is %v, want %d", name, got["cgobatch_"+name], want)
		}
	}
}

func metrics(p interface{ Metrics(func(string, float64)) }) map[string]float64 {
	m := map[string]float64{}
	p.Metrics(func(name string, v float64) { m[name] = v })
	return m
}

func FuzzArena(f *testing.F) {
	f.Add([]byte{}, uint8(0), uint16(0))
	f.Add([]byte{0, 0, 1, 1, 1, 1, 1, 2, 3, 1, 4, 200, 0, 6, 255, 0, 8, 1, 0, 0, 0, 9, 0, 2}, uint8(3), uint16(333))
	r := rand.New(rand.NewPCG(3, 4))
	for i := 0; i < 20; i++ {
		steps := make([]byte, 2000)
		for k := range steps {
			steps[k] = byte(r.Uint32())
		}
		f.Add(steps, uint8(r.Uint32()), uint16(r.Uint32()))
	}
	f.Fuzz(func(t *testing.T, steps []byte, items uint8, size uint16) {
		pool, err := NewPool[thing](Options{Items: 1 + int(items), Bytes: 1 + int(size%4096), MaxArenas: 1 + int(items)%4, PinFrom: 1 + int(size)%300, MaxPins: 9})
		if err != nil {
			t.Fatal(err)
		}
		(&program{T: t, pool: pool, steps: steps[:min(len(steps), 4000)]}).run()
	})
}

func TestItemsWithPointersAreRefused(t *testing.T) {
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want one that says %q", err, what)
		}
	}
	_, err := NewPool[struct {
		A int
		B [2]struct{ C *int }
	}](Options{})
	refused("B C *int", err)
	_, err = NewPool[string](Options{})
	refused("string", err)
	_, err = NewPool[struct{ s []byte }](Options{})
	refused("s []uint8", err)
	_, err = NewPool[any](Options{})
	refused("interface", err)
	_, err = NewPool[unsafe.Pointer](Options{})
	refused("unsafe.Pointer", err)
	_, err = NewPool[struct{}](Options{})
	refused("no size", err)
	if _, err = NewPool[[0]*int](Options{}); err == nil {
		t.Error("items without size are taken")
	}
	if _, err = NewPool[struct {
		a [0]*int
		b complex128
		c uintptr
	}](Options{}); err != nil {
		t.Error(err)
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for _, o := range []Options{
		{Items: -1}, {Bytes: -1}, {MaxArenas: -1}, {PinFrom: -1}, {MaxPins: -1},
		{Items: 1<<31 - 1}, {Items: 1 << 30}, {Bytes: 1<<31 - 1}, {MaxArenas: maxArenas + 1},
		{Items: 1 << 26, Bytes: 1<<31 - 1 - 1<<26*16}, // one alone would do
	} {
		if _, err := NewPool[thing](o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if _, err := NewPool[[1 << 12]byte](Options{Items: 1 << 20}); err == nil {
		t.Error("more bytes than an arena may have are taken")
	}
}

func TestAHandleThatNoGetReturnedDoesNothing(t *testing.T) {
	(&program{T: t, steps: []byte{0}}).useStale(Arena[thing]{})
	for i := byte(0); i < 11; i++ {
		(&program{T: t, steps: []byte{i}}).useStale(Arena[thing]{})
	}
}
