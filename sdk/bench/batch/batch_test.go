// Package batch compares ways to join the calls of many goroutines, in one run:
//
//	go test -bench . -count 3 ./batch | go run ./table
package batch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/graph-gophers/dataloader/v7"
	"google.golang.org/api/support/bundler"

	"github.com/whylate/whylate/sdk/batch"
)

const size = 64

// steps is how long work is: 80 of them are about 100 ns.
var steps = 80

// work is what a call costs, whatever it is called with.
func work() {
	x := seed.Load()
	for i := 0; i < steps; i++ {
		x = x*6364136223846793005 + 1
	}
	if x == 42 {
		panic("it never is")
	}
}

var seed atomic.Uint64

// Each returns what makes one call, and what ends it.
var ways = []struct {
	name string
	make func() (call func(i int) int, stop func())
}{
	{"no batching, a lock around the call", func() (func(int) int, func()) {
		var mu sync.Mutex
		return func(i int) int {
			mu.Lock()
			work()
			mu.Unlock()
			return i + 1
		}, func() {}
	}},
	{"whylate batch", func() (func(int) int, func()) {
		b, err := batch.New(func(in, out []int, _ []error) error {
			work()
			for i, x := range in {
				out[i] = x + 1
			}
			return nil
		}, batch.Options{MaxSize: size})
		if err != nil {
			panic(err)
		}
		ctx := context.Background()
		return func(i int) int {
			out, _ := b.Do(ctx, i)
			return out
		}, b.Close
	}},
	{"channel, greedy", func() (func(int) int, func()) { return channel(0) }},
	{"channel and timer, 100 µs", func() (func(int) int, func()) { return channel(100 * time.Microsecond) }},
	{"graph-gophers dataloader, 100 µs", func() (func(int) int, func()) {
		l := dataloader.NewBatchedLoader(func(_ context.Context, in []int) []*dataloader.Result[int] {
			work()
			out := make([]*dataloader.Result[int], len(in))
			for i, x := range in {
				out[i] = &dataloader.Result[int]{Data: x + 1}
			}
			return out
		}, dataloader.WithBatchCapacity[int, int](size), dataloader.WithWait[int, int](100*time.Microsecond), dataloader.WithCache[int, int](&dataloader.NoCache[int, int]{}))
		ctx := context.Background()
		return func(i int) int {
			out, _ := l.Load(ctx, i)()
			return out
		}, func() {}
	}},
	{"google api bundler (gives no results)", func() (func(int) int, func()) {
		b := bundler.NewBundler(0, func(any) { work() })
		b.BundleCountThreshold, b.DelayThreshold, b.BufferedByteLimit = size, time.Millisecond, 1<<30
		return func(i int) int {
			b.Add(i, 8)
			return i + 1
		}, b.Flush
	}},
}

// channel is the batcher of textbooks: a goroutine collects what comes.
func channel(wait time.Duration) (func(int) int, func()) {
	type item struct {
		in  int
		out chan int
	}
	items := make(chan item, 4*size)
	pool := sync.Pool{New: func() any { return make(chan int, 1) }}
	go func() {
		var got []item
		var timer *time.Timer
		for first := range items {
			got = append(got[:0], first)
			var over <-chan time.Time
			if wait > 0 {
				timer = time.NewTimer(wait)
				over = timer.C
			}
		collect:
			for len(got) < size {
				if wait == 0 {
					select {
					case x, ok := <-items:
						if !ok {
							break collect
						}
						got = append(got, x)
					default:
						break collect
					}
					continue
				}
				select {
				case x, ok := <-items:
					if !ok {
						break collect
					}
					got = append(got, x)
				case <-over:
					break collect
				}
			}
			work()
			for _, x := range got {
				x.out <- x.in + 1
			}
		}
	}()
	return func(i int) int {
		c := pool.Get().(chan int)
		items <- item{i, c}
		out := <-c
		pool.Put(c)
		return out
	}, func() { close(items) }
}

func BenchmarkItem(b *testing.B) {
	items(b, 80)
}

// A call that costs 5 µs: that of a small system call or a round trip on the same machine.
func BenchmarkItemOfASlowCall(b *testing.B) {
	items(b, 5000)
}

func items(b *testing.B, n int) {
	steps = n
	for _, callers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("%d_callers", callers), func(b *testing.B) {
			for _, w := range ways {
				b.Run(w.name, func(b *testing.B) {
					call, stop := w.make()
					b.ReportAllocs()
					b.ResetTimer()
					var next atomic.Int64
					var all sync.WaitGroup
					for range callers {
						all.Add(1)
						go func() {
							defer all.Done()
							for i := int(next.Add(16)) - 16; i < b.N; i = int(next.Add(16)) - 16 {
								for k := i; k < min(i+16, b.N); k++ {
									if call(k) != k+1 {
										b.Error("a wrong result")
									}
								}
							}
						}()
					}
					all.Wait()
					b.StopTimer()
					stop()
				})
			}
		})
	}
}

// 64 callers of a call of 5 µs beside 16 goroutines that compute: how late are they? Each makes 16 calls, and
// then does nothing for a millisecond. In ns: the median, the 99th percentile and the 99.9th.
func BenchmarkCallsBesideBusyGoroutines(b *testing.B) {
	steps = 5000
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			call, stop := w.make()
			var over atomic.Bool
			var busy, all sync.WaitGroup
			for range 16 {
				busy.Add(1)
				go func() {
					defer busy.Done()
					for x := uint64(1); !over.Load(); x = x*6364136223846793005 + 1 {
					}
				}()
			}
			took := make([]time.Duration, b.N)
			b.ResetTimer()
			var next atomic.Int64
			for range 64 {
				all.Add(1)
				go func() {
					defer all.Done()
					for i := int(next.Add(16)) - 16; i < b.N; i = int(next.Add(16)) - 16 {
						for k := i; k < min(i+16, b.N); k++ {
							start := time.Now()
							if call(k) != k+1 {
								b.Error("a wrong result")
							}
							took[k] = time.Since(start)
						}
						time.Sleep(time.Millisecond)
					}
				}()
			}
			all.Wait()
			b.StopTimer()
			over.Store(true)
			busy.Wait()
			stop()
			slices.Sort(took)
			for _, q := range []struct {
				name string
				of   float64
			}{{"p50-ns", 0.5}, {"p99-ns", 0.99}, {"p99.9-ns", 0.999}} {
				b.ReportMetric(float64(took[int(q.of*float64(b.N-1))]), q.name)
			}
		})
	}
}
