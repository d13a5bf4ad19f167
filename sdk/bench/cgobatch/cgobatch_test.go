//go:build cgo

package cgobatch

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/whylate/whylate/sdk/cgobatch"
)

var (
	ctx  = context.Background()
	kept atomic.Uint64
)

func newPool[T any](o cgobatch.Options) *cgobatch.Pool[T] {
	p, err := cgobatch.NewPool[T](o)
	if err != nil {
		panic(err)
	}
	return p
}

func get[T any](p *cgobatch.Pool[T]) cgobatch.Arena[T] {
	a, err := p.Get(ctx)
	if err != nil {
		panic(err)
	}
	return a
}

// inputs are what items are made of.
var inputs = func() (v [256]uint64) {
	for i := range v {
		v[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	return v
}()

// Each has C work on all the numbers, round after round, and returns the sum of the results of the last
// one; made for n items each.
var numberWays = []struct {
	name string
	loop func(in []uint64, rounds int) uint64
}{
	{"the work alone, a loop in C", func(in []uint64, rounds int) (total uint64) {
		v := make([]number, len(in))
		for i := range v {
			v[i] = newNumber(in[i])
		}
		mixAgain(unsafe.Pointer(&v[0]), len(v), rounds)
		for i := range v {
			total += mixedOf(&v[i])
		}
		return total
	}},
	{"arena: Get, Add, call, Release", func(in []uint64, rounds int) (total uint64) {
		p := newPool[number](cgobatch.Options{Items: len(in)})
		for ; rounds > 0; rounds-- {
			a := get(p)
			v := a.Add(len(in))
			for i := range v {
				v[i] = newNumber(in[i])
			}
			mixAll(a.Pointer(), a.Len())
			total = 0
			for i := range v {
				total += mixedOf(&v[i])
			}
			a.Release()
		}
		return total
	}},
	{"arena: Get, Append, call, Release", func(in []uint64, rounds int) (total uint64) {
		p := newPool[number](cgobatch.Options{Items: len(in)})
		for ; rounds > 0; rounds-- {
			a := get(p)
			for _, x := range in {
				a.Append(newNumber(x))
			}
			mixAll(a.Pointer(), a.Len())
			total = 0
			v := a.Items()
			for i := range v {
				total += mixedOf(&v[i])
			}
			a.Release()
		}
		return total
	}},
	{"arena that is kept: Add, call, Reset", func(in []uint64, rounds int) (total uint64) {
		a := get(newPool[number](cgobatch.Options{Items: len(in)}))
		for ; rounds > 0; rounds-- {
			v := a.Add(len(in))
			for i := range v {
				v[i] = newNumber(in[i])
			}
			mixAll(a.Pointer(), a.Len())
			total = 0
			for i := range v {
				total += mixedOf(&v[i])
			}
			a.Reset()
		}
		return total
	}},
	{"by hand: a slice that is kept, one call", func(in []uint64, rounds int) (total uint64) {
		v := make([]number, len(in))
		for ; rounds > 0; rounds-- {
			for i := range v {
				v[i] = newNumber(in[i])
			}
			mixAll(unsafe.Pointer(&v[0]), len(v))
			total = 0
			for i := range v {
				total += mixedOf(&v[i])
			}
		}
		return total
	}},
	{"a call for each item", func(in []uint64, rounds int) (total uint64) {
		for ; rounds > 0; rounds-- {
			total = 0
			for _, x := range in {
				total += mix(x)
			}
		}
		return total
	}},
	{"a call for each item, noescape and nocallback", func(in []uint64, rounds int) (total uint64) {
		for ; rounds > 0; rounds-- {
			total = 0
			for _, x := range in {
				total += mixAnnotated(x)
			}
		}
		return total
	}},
}

// BenchmarkNumbers: ns are those of an item.
func BenchmarkNumbers(b *testing.B) {
	for _, n := range []int{1, 8, 32, 256} {
		for _, w := range numberWays {
			b.Run(fmt.Sprintf("%d in a batch/%s", n, w.name), func(b *testing.B) {
				b.ReportAllocs()
				kept.Store(w.loop(inputs[:n], (b.N+n-1)/n))
			})
		}
	}
}

// BenchmarkNumbersParallel: two goroutines and more share the pool.
func BenchmarkNumbersParallel(b *testing.B) {
	const n = 32
	b.Run("arena: Get, Add, call, Release", func(b *testing.B) {
		p := newPool[number](cgobatch.Options{Items: n})
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				a := get(p)
				v := a.Add(n)
				for i := range v {
					v[i] = newNumber(inputs[i])
				}
				mixAll(a.Pointer(), a.Len())
				a.Release()
			}
		})
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/n, "ns/item")
	})
	b.Run("by hand: a slice that is kept, one call", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			v := make([]number, n)
			for pb.Next() {
				for i := range v {
					v[i] = newNumber(inputs[i])
				}
				mixAll(unsafe.Pointer(&v[0]), n)
			}
		})
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/n, "ns/item")
	})
}

// texts are n buffers of a size, each an object of its own.
func texts(n, size int) [][]byte {
	v := make([][]byte, n)
	for i := range v {
		v[i] = make([]byte, size)
		for k := range v[i] {
			v[i][k] = byte(i + k)
		}
	}
	return v
}

// overArena has C sum texts, each of which put puts into the arena.
func overArena(in [][]byte, rounds int, put func(cgobatch.Arena[text], []byte) (uintptr, error)) (total uint64) {
	p := newPool[text](cgobatch.Options{Items: len(in), Bytes: 16 + len(in)*len(in[0])})
	for ; rounds > 0; rounds-- {
		a := get(p)
		v := a.Add(len(in))
		for i, b := range in {
			at, err := put(a, b)
			if err != nil {
				panic(err)
			}
			v[i] = newText(at, len(b))
		}
		sumAll(a.Pointer(), a.Len())
		total = 0
		for i := range v {
			total += sumOf(&v[i])
		}
		a.Release()
	}
	return total
}

var textWays = []struct {
	name string
	loop func(in [][]byte, rounds int) uint64
}{
	{"the work alone, a loop in C", func(in [][]byte, rounds int) (total uint64) {
		a := get(newPool[text](cgobatch.Options{Items: len(in), Bytes: 16 + len(in)*len(in[0])}))
		for _, b := range in {
			at, err := a.Copy(b)
			if err != nil {
				panic(err)
			}
			a.Append(newText(at, len(b)))
		}
		sumAgain(a.Pointer(), a.Len(), rounds)
		v := a.Items()
		for i := range v {
			total += sumOf(&v[i])
		}
		a.Release()
		return total
	}},
	{"arena: Put", func(in [][]byte, rounds int) uint64 {
		return overArena(in, rounds, cgobatch.Arena[text].Put)
	}},
	{"arena: Copy", func(in [][]byte, rounds int) uint64 {
		return overArena(in, rounds, cgobatch.Arena[text].Copy)
	}},
	{"arena: Pin", func(in [][]byte, rounds int) uint64 {
		return overArena(in, rounds, cgobatch.Arena[text].Pin)
	}},
	{"by hand: a slice and a Pinner that are kept", func(in [][]byte, rounds int) (total uint64) {
		v := make([]text, len(in))
		var p runtime.Pinner
		for ; rounds > 0; rounds-- {
			for i, b := range in {
				p.Pin(&b[0])
				v[i] = newText(uintptr(unsafe.Pointer(&b[0])), len(b))
			}
			sumAll(unsafe.Pointer(&v[0]), len(v))
			total = 0
			for i := range v {
				total += sumOf(&v[i])
			}
			p.Unpin()
		}
		return total
	}},
	{"a call for each item", func(in [][]byte, rounds int) (total uint64) {
		for ; rounds > 0; rounds-- {
			total = 0
			for _, b := range in {
				total += uint64(sum(b))
			}
		}
		return total
	}},
	{"a call for each item, C.CBytes and C.free", func(in [][]byte, rounds int) (total uint64) {
		for ; rounds > 0; rounds-- {
			total = 0
			for _, b := range in {
				total += uint64(sumCopied(b))
			}
		}
		return total
	}},
}

// BenchmarkTexts: 32 buffers in a batch; ns are those of one.
func BenchmarkTexts(b *testing.B) {
	for _, size := range []int{64, 1024} {
		in := texts(32, size)
		for _, w := range textWays {
			b.Run(fmt.Sprintf("%d bytes/%s", size, w.name), func(b *testing.B) {
				b.ReportAllocs()
				kept.Store(w.loop(in, (b.N+len(in)-1)/len(in)))
			})
		}
	}
}

// BenchmarkBreakEven: what putting one of 32 buffers into an arena costs, without a call; 64
// sets of them are used in turn, so that large ones are not in the cache.
func BenchmarkBreakEven(b *testing.B) {
	const n, sets = 32, 64
	for _, size := range []int{256, 1024, 2048, 4096, 8192, 16384, 65536} {
		in := texts(n*sets, size)
		a := get(newPool[text](cgobatch.Options{Items: n, Bytes: n * size, MaxPins: n}))
		put := func(put func([]byte) (uintptr, error)) func(*testing.B) {
			return func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; i < b.N; i++ {
					if _, err := put(in[i%len(in)]); err != nil {
						b.Fatal(err)
					}
					if i%n == n-1 {
						a.Reset()
					}
				}
				a.Reset()
			}
		}
		b.Run(fmt.Sprintf("%d bytes/Copy", size), put(a.Copy))
		b.Run(fmt.Sprintf("%d bytes/Pin", size), put(a.Pin))
		a.Release()
	}
}

func BenchmarkCall(b *testing.B) {
	for _, c := range calls {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			c.loop(b.N)
		})
	}
}

// Each way has the same results.
func TestWaysAgree(t *testing.T) {
	for _, w := range numberWays {
		if got, want := w.loop(inputs[:32], 2), numberWays[0].loop(inputs[:32], 2); got != want {
			t.Errorf("%s: %d, want %d", w.name, got, want)
		}
	}
	in := texts(32, 64)
	for _, w := range textWays {
		if got, want := w.loop(in, 2), textWays[0].loop(in, 2); got != want {
			t.Errorf("%s: %d, want %d", w.name, got, want)
		}
	}
}
