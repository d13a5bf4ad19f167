package main

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/whylate/whylate/sdk/pace"
)

// BenchmarkPace is what a turn of a loop pays to be paced, beside ways to do it by hand.
func BenchmarkPace(b *testing.B) {
	b.Run("an_empty_call", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			nothing()
		}
	})
	b.Run("pace,_nobody_waits", func(b *testing.B) { paced(b) })
	b.Run("a_loop_that_works", func(b *testing.B) {
		x := seed.Load()
		for i := 0; i < b.N; i++ {
			x = work(x)
		}
		seed.Store(x)
	})
	b.Run("the_same,_paced", func(b *testing.B) {
		inside(b, func(p *pace.Pacer, ctx context.Context) {
			x := seed.Load()
			for i := 0; i < b.N; i++ {
				x = work(x)
				if p.Pace(ctx) != nil {
					return
				}
			}
			seed.Store(x)
		})
	})
	b.Run("pace_of_a_derived_context", func(b *testing.B) {
		inside(b, func(p *pace.Pacer, ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			for i := 0; i < b.N; i++ {
				if p.Pace(ctx) != nil {
					return
				}
			}
		})
	})
	b.Run("a_look_at_the_clock", func(b *testing.B) {
		start := time.Now()
		for i := 0; i < b.N; i++ {
			if time.Since(start) < 0 {
				return
			}
		}
	})
	b.Run("runtime.Gosched", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			runtime.Gosched()
		}
	})
	b.Run("a_semaphore", func(b *testing.B) {
		sem := make(chan struct{}, 1)
		for i := 0; i < b.N; i++ {
			sem <- struct{}{}
			<-sem
		}
	})
}

//go:noinline
func nothing() {}

// work takes some 15 ns.
func work(x uint64) uint64 {
	for j := 0; j < 12; j++ {
		x = x*6364136223846793005 + 1
	}
	return x
}

// inside runs a benchmark in a function of the background.
func inside(b *testing.B, fn func(*pace.Pacer, context.Context)) {
	p, err := pace.New(pace.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Stop(context.Background())
	done := make(chan bool)
	if err := p.Go(context.Background(), func(ctx context.Context) {
		defer close(done)
		b.ResetTimer()
		fn(p, ctx)
		b.StopTimer()
	}); err != nil {
		b.Fatal(err)
	}
	<-done
}

func paced(b *testing.B) {
	inside(b, func(p *pace.Pacer, ctx context.Context) {
		for i := 0; i < b.N; i++ {
			if p.Pace(ctx) != nil {
				return
			}
		}
	})
}
