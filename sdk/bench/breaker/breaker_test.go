// Package breaker compares what breakers cost a call that they let through, in one run:
//
//	go test -bench . -count 5 ./breaker | go run ./table
package breaker

import (
	"context"
	"testing"
	"time"

	eapache "github.com/eapache/go-resiliency/breaker"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/go-kratos/aegis/circuitbreaker/sre"
	"github.com/sony/gobreaker/v2"
	gozero "github.com/zeromicro/go-zero/core/breaker"

	"github.com/whylate/whylate/sdk/breaker"
)

func whylate() *breaker.Breaker {
	b, err := breaker.New(breaker.Options{})
	if err != nil {
		panic(err)
	}
	return b
}

// times are those of callers that know when their calls began.
var times = func() (t [1024]time.Time) {
	for i := range t {
		t[i] = time.Now().Add(time.Duration(i) * 1777)
	}
	return t
}()

// Each makes a guarded call of nothing. They are made for one run of one benchmark.
var guards = []struct {
	name string
	make func() func(i int)
}{
	{"two reads of the clock, no breaker", func() func(int) {
		return func(int) { _ = time.Since(time.Now()) }
	}},
	{"nothing: what the loop takes", func() func(int) {
		return func(int) {}
	}},
	{"whylate AllowAt, DoneIn (times are the caller's)", func() func(int) {
		b := whylate()
		return func(i int) {
			p, _ := b.AllowAt(times[i&1023])
			p.DoneIn(time.Millisecond, nil)
		}
	}},
	{"whylate Allow, Done", func() func(int) {
		b := whylate()
		return func(int) {
			p, _ := b.Allow()
			p.Done(nil)
		}
	}},
	{"whylate Do", func() func(int) {
		b, ctx := whylate(), context.Background()
		fn := func(context.Context) (int, error) { return 1, nil }
		return func(int) { breaker.Do(ctx, b, fn) }
	}},
	{"sony gobreaker Execute", func() func(int) {
		b := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{})
		return func(int) { b.Execute(func() (int, error) { return 1, nil }) }
	}},
	{"sony gobreaker two-step", func() func(int) {
		b := gobreaker.NewTwoStepCircuitBreaker[int](gobreaker.Settings{})
		return func(int) {
			if done, err := b.Allow(); err == nil {
				done(nil)
			}
		}
	}},
	{"failsafe-go breaker, TryAcquire and Record", func() func(int) {
		b := circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(0.2, 5, time.Second).Build()
		return func(int) {
			if b.TryAcquirePermit() {
				b.RecordSuccess()
			}
		}
	}},
	{"failsafe-go breaker, executor", func() func(int) {
		b := circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(0.2, 5, time.Second).Build()
		e := failsafe.With[any](b)
		return func(int) { e.Run(func() error { return nil }) }
	}},
	{"failsafe-go adaptive limiter", func() func(int) {
		l := adaptivelimiter.NewBuilder[any]().Build()
		return func(int) {
			if p, ok := l.TryAcquirePermit(); ok {
				p.Record()
			}
		}
	}},
	{"eapache (no latency, no window)", func() func(int) {
		b := eapache.New(3, 1, time.Second)
		return func(int) { b.Run(func() error { return nil }) }
	}},
	{"kratos sre", func() func(int) {
		b := sre.NewBreaker()
		return func(int) {
			if b.Allow() == nil {
				b.MarkSuccess()
			}
		}
	}},
	{"go-zero DoWithFallback", func() func(int) {
		b := gozero.NewBreaker()
		return func(int) { b.DoWithFallback(func() error { return nil }, func(error) error { return nil }) }
	}},
}

func BenchmarkGuard(b *testing.B) {
	for _, g := range guards {
		b.Run(g.name, func(b *testing.B) {
			call := g.make()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				call(i)
			}
		})
	}
}

func BenchmarkGuardParallel(b *testing.B) {
	for _, g := range guards {
		b.Run(g.name, func(b *testing.B) {
			call := g.make()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					call(i)
				}
			})
		})
	}
}
