package batch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Verdict says what batching does to a function.
type Verdict struct {
	// Callers is how many goroutines called at a time, Size how many items a batch had on average.
	Callers int
	Size    float64
	// Alone is the time per item when each caller calls the function with its own item, Batched that through
	// a batcher: of all callers together, wall time by items.
	Alone, Batched time.Duration
	// Pays is whether Batched is less than Alone.
	Pays bool
}

// String tells the verdict in a sentence.
func (v Verdict) String() string {
	what := "loses"
	if v.Pays {
		what = "pays"
	}
	return fmt.Sprintf("with %d callers batching %s: %v per item in batches of %.1f, %v without", v.Callers, what, v.Batched, v.Size, v.Alone)
}

// Measure calls fn with the items of sample, by so many callers at a time, for about a tenth of a second alone
// and as long in batches, but once by each caller at least, and says whether batching pays. To cross from goroutine
// to goroutine costs 0.1 to 0.6 µs per item, so it loses where a call costs less than that. fn has to be one that may
// be called by several goroutines at once; its errors are not looked at, but if it panics or ends its
// goroutine Measure returns that as a *PanicError. Options.MaxQueue is not heeded: a call that is refused measures nothing.
func Measure[In, Out any](fn Func[In, Out], sample []In, callers int, o Options) (Verdict, error) {
	if o.MaxQueue > 0 {
		o.MaxQueue = 0
	}
	b, err := New(fn, o)
	if err != nil {
		return Verdict{}, err
	}
	if len(sample) == 0 || callers < 1 {
		return Verdict{}, fmt.Errorf("batch: %d items by %d callers measure nothing", len(sample), callers)
	}
	defer b.Close()
	v := Verdict{Callers: callers}
	v.Alone, err = perItem(callers, func() func(i int) error {
		in, out, errs := make([]In, 1), make([]Out, 1), make([]error, 1)
		return func(i int) error {
			var none Out
			in[0], out[0], errs[0] = sample[i%len(sample)], none, nil
			fn(in, out, errs)
			return nil
		}
	})
	if err != nil {
		return Verdict{}, err
	}
	ctx := context.Background()
	v.Batched, err = perItem(callers, func() func(i int) error {
		return func(i int) error {
			_, err := b.Do(ctx, sample[i%len(sample)])
			return err // which stops it if it is a *PanicError
		}
	})
	if err != nil {
		return Verdict{}, err
	}
	s := b.Stats()
	v.Size = float64(s.Items) / float64(max(s.Batches, 1))
	v.Pays = v.Batched < v.Alone
	return v, nil
}

// perItem returns the wall time per call of so many callers, each with a function of its own, and what the
// first of them panicked with, be it through a batcher or not.
func perItem(callers int, make func() func(i int) error) (time.Duration, error) {
	const length = 100 * time.Millisecond
	var calls atomic.Int64
	var failed atomic.Pointer[PanicError]
	var all sync.WaitGroup
	start := time.Now()
	caller := func(c int) {
		i, returned := 0, false
		defer func() {
			if p := ended(recover(), returned); p != nil {
				failed.CompareAndSwap(nil, p)
			}
			calls.Add(int64(i))
			all.Done()
		}()
		call := make()
		// The clock is read after each call, or after 16 where they take less than a microsecond.
		step, last := 1, time.Duration(0)
		for failed.Load() == nil {
			for k := 0; k < step; k, i = k+1, i+1 {
				if p, ok := call(c + i).(*PanicError); ok {
					failed.CompareAndSwap(nil, p)
					returned = true
					return
				}
			}
			now := time.Since(start)
			if now >= length {
				break
			}
			if step = 1; now-last < 16*time.Microsecond {
				step = 16
			}
			last = now
		}
		returned = true
	}
	for c := 0; c < callers; c++ {
		all.Add(1)
		go caller(c)
	}
	all.Wait()
	took := time.Since(start)
	if p := failed.Load(); p != nil {
		return 0, p
	}
	return took / time.Duration(max(calls.Load(), 1)), nil
}
