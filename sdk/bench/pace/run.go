package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whylate/whylate/sdk/pace"
)

// result is what one run measured: milliseconds, and units of work per second.
type result struct {
	UDP50, UDP99, UDPMax, Timer99, Stop99 float64
	Background, Foreground                float64
}

// order is the ways' order in tables.
var order = []string{"no background", "none", "gosched", "P-1 permits", "P permits and sleeps", "pace parks", "pace nice", "pace lowered", "pace steered"}

// loop makes one background goroutine work until the context ends, through unit.
type loop func(ctx context.Context, unit func())

// ways returns how a background goroutine is started under a way to pace.
func start(way string, slice time.Duration) (begin func(context.Context, func()), stop func(), err error) {
	nothing := func() {}
	plain := func(l loop) func(context.Context, func()) {
		return func(ctx context.Context, unit func()) { go l(ctx, unit) }
	}
	switch way {
	case "none":
		return plain(func(ctx context.Context, unit func()) {
			for ctx.Err() == nil {
				unit()
			}
		}), nothing, nil
	case "gosched": // what most programs do first
		return plain(func(ctx context.Context, unit func()) {
			for ctx.Err() == nil {
				for t := time.Now(); time.Since(t) < 100*time.Microsecond; {
					unit()
				}
				runtime.Gosched()
			}
		}), nothing, nil
	case "P-1 permits": // the semaphore that is usual next
		return plain(semaphore(max(1, runtime.GOMAXPROCS(0)-1), time.Millisecond, 0)), nothing, nil
	case "P permits and sleeps":
		return plain(semaphore(runtime.GOMAXPROCS(0), 500*time.Microsecond, 10*time.Microsecond)), nothing, nil
	}
	o := pace.Options{Slice: slice}
	switch way {
	case "pace parks":
		o.Way = pace.Parks
	case "pace nice":
		o.Way = pace.Nice
	case "pace lowered":
	case "pace steered":
		o.Target = 2 * time.Millisecond
	default:
		return nil, nil, fmt.Errorf("no way %q", way)
	}
	p, err := pace.New(o)
	if err != nil {
		return nil, nil, err
	}
	if s := p.State(); s.Why != "" {
		return nil, nil, fmt.Errorf("%s", s.Why)
	}
	return func(ctx context.Context, unit func()) {
		err := p.Go(ctx, func(ctx context.Context) {
			for p.Pace(ctx) == nil {
				unit()
			}
		})
		if err != nil {
			panic(err)
		}
	}, func() { p.Stop(context.Background()) }, nil
}

// semaphore works in slices under a permit, and sleeps after each if nap is not 0.
func semaphore(permits int, slice, nap time.Duration) loop {
	sem := make(chan struct{}, permits)
	return func(ctx context.Context, unit func()) {
		for ctx.Err() == nil {
			sem <- struct{}{}
			for t := time.Now(); time.Since(t) < slice; {
				unit()
			}
			if nap > 0 {
				time.Sleep(nap)
			}
			<-sem
		}
	}
}

var seed atomic.Uint64

// compute takes about 10 µs.
func compute() {
	x := seed.Load()
	for i := 0; i < 9000; i++ {
		x = x*6364136223846793005 + 1
	}
	if x == 42 {
		panic("never")
	}
}

func run(way string, s scene, length, slice time.Duration) (r result, err error) {
	var background, foreground atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if way != "no background" {
		begin, stop, err := start(way, slice)
		if err != nil {
			return r, err
		}
		defer stop()
		for i := 0; i < s.background; i++ {
			begin(ctx, func() {
				compute()
				background.Add(1)
			})
		}
	}
	if s.busy {
		for i := 0; i < runtime.NumCPU(); i++ {
			go burst(ctx, &foreground)
		}
		go collect(ctx)
	}
	time.Sleep(500 * time.Millisecond) // until it is in its stride

	pauses := newPauses()
	var wg sync.WaitGroup
	wg.Add(1)
	var late []float64
	begun, b0, f0 := time.Now(), background.Load(), foreground.Load()
	go func() {
		defer wg.Done()
		for time.Since(begun) < length {
			t := time.Now()
			time.Sleep(2 * time.Millisecond)
			late = append(late, ms(time.Since(t)-2*time.Millisecond))
		}
	}()
	trips, err := echo(begun, length)
	if err != nil {
		return r, err
	}
	seconds := time.Since(begun).Seconds()
	r.Background = float64(background.Load()-b0) / seconds
	r.Foreground = float64(foreground.Load()-f0) / seconds
	wg.Wait()
	r.UDP50, r.UDP99, r.UDPMax = at(trips, 0.5), at(trips, 0.99), at(trips, 1)
	r.Timer99 = at(late, 0.99)
	r.Stop99 = pauses.quantile(0.99)
	return r, nil
}

func burst(ctx context.Context, done *atomic.Int64) {
	for ctx.Err() == nil {
		for t := time.Now(); time.Since(t) < 2*time.Millisecond; {
			compute()
		}
		done.Add(1)
		time.Sleep(100 * time.Microsecond)
	}
}

func collect(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		runtime.GC()
	}
}

// echo sends a packet to a goroutine that sends it back, every 1.5 ms, and tells how long each took.
func echo(begun time.Time, length time.Duration) (took []float64, err error) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer server.Close()
	go func() {
		b := make([]byte, 64)
		for {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			server.WriteTo(b[:n], from)
		}
	}()
	client, err := net.Dial("udp", server.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	b := make([]byte, 64)
	for time.Since(begun) < length {
		t := time.Now()
		if _, err := client.Write([]byte("ping")); err != nil {
			return nil, err
		}
		if _, err := client.Read(b); err != nil {
			return nil, err
		}
		took = append(took, ms(time.Since(t)))
		time.Sleep(1500 * time.Microsecond)
	}
	return took, nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func at(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[int(q*float64(len(v)-1))]
}

// pauses are the stops of the world for collections since it was made.
type pauses struct {
	sample []metrics.Sample
	before []uint64
}

func newPauses() *pauses {
	p := &pauses{sample: []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}}
	p.before = slices.Clone(p.read().Counts)
	return p
}

func (p *pauses) read() *metrics.Float64Histogram {
	metrics.Read(p.sample)
	return p.sample[0].Value.Float64Histogram()
}

// quantile returns the upper edge of the bucket in which the quantile lies, in ms.
func (p *pauses) quantile(q float64) float64 {
	h := p.read()
	var all, below uint64
	for i := range h.Counts {
		all += h.Counts[i] - p.before[i]
	}
	if all == 0 {
		return 0
	}
	for i := range h.Counts {
		below += h.Counts[i] - p.before[i]
		if edge := h.Buckets[i+1]; float64(below) >= q*float64(all) && !math.IsInf(edge, 1) {
			return edge * 1000
		}
	}
	return math.Inf(1)
}
