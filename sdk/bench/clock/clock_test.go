// Package clock compares the clocks of sdk/clock with those of others, in one run:
//
//	go test -bench . -count 5 ./clock | go run ./table
package clock

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/VictoriaMetrics/lib/fasttime"
	"github.com/valyala/fasthttp"

	"github.com/whylate/whylate/sdk/clock"
)

// Each loop stands alone, so that what can be inlined is.
var clocks = []struct {
	name string
	loop func(n int)
}{
	{"time.Now", func(n int) {
		var t time.Time
		for i := 0; i < n; i++ {
			t = time.Now()
		}
		keep(t)
	}},
	{"time.Since", func(n int) {
		base := time.Now()
		var d time.Duration
		for i := 0; i < n; i++ {
			d = time.Since(base)
		}
		keep(base.Add(d))
	}},
	{"whylate Coarse", func(n int) {
		var t time.Time
		for i := 0; i < n; i++ {
			t = clock.Coarse()
		}
		keep(t)
	}},
	{"whylate Cached", func(n int) {
		c := cached
		var t time.Time
		for i := 0; i < n; i++ {
			t = c.Now()
		}
		keep(t)
	}},
	{"VictoriaMetrics fasttime (whole seconds)", func(n int) {
		var s uint64
		for i := 0; i < n; i++ {
			s = fasttime.UnixTimestamp()
		}
		keep(time.Unix(int64(s), 0))
	}},
	{"fasthttp CoarseTimeNow", func(n int) {
		var t time.Time
		for i := 0; i < n; i++ {
			t = fasthttp.CoarseTimeNow() //lint:ignore SA1019 it is compared because people still use it
		}
		keep(t)
	}},
}

var cached = must(clock.NewCached(clock.CachedOptions{}))

func must(c *clock.Cached, err error) *clock.Cached {
	if err != nil {
		panic(err)
	}
	return c
}

var kept atomic.Pointer[time.Time]

func keep(t time.Time) { kept.Store(&t) }

func BenchmarkRead(b *testing.B) {
	for _, c := range clocks {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			c.loop(b.N)
		})
	}
}

func BenchmarkReadParallel(b *testing.B) {
	for _, c := range clocks {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.loop(1024)
				}
			})
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/1024, "ns/read")
		})
	}
}
