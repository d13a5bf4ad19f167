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
// and as long in batches, and says whether batching pays. To cross from goroutine to goroutine costs
// 0.1 to 0.6 µs per item, so it loses where a call costs less than that. fn has to be one
// that may be called by several goroutines at once; its errors are not looked at.
func Measure[In, Out any](fn Func[In, Out], sample []In, callers int, o Options) (Verdict, error) {
	b, err := New(fn, o)
	if err != nil {
		return Verdict{}, err
	}
	if len(sample) == 0 || callers < 1 {
		return Verdict{}, fmt.Errorf("batch: %d items by %d callers measure nothing", len(sample), callers)
	}
	defer b.Close()
	v := Verdict{Callers: callers}
	v.Alone = perItem(callers, func() func(i int) {
		in, out, errs := make([]In, 1), make([]Out, 1), make([]error, 1)
		return func(i int) {
			var none Out
			in[0], out[0], errs[0] = sample[i%len(sample)], none, nil
			fn(in, out, errs)
		}
	})
	ctx := context.Background()
	v.Batched = perItem(callers, func() func(i int) {
		return func(i int) { b.Do(ctx, sample[i%len(sample)]) }
	})
	s := b.Stats()
	v.Size = float64(s.Items) / float64(max(s.Batches, 1))
	v.Pays = v.Batched < v.Alone
	return v, nil
}

// perItem returns the wall time per call of so many callers, each with a function of its own.
func perItem(callers int, make func() func(i int)) time.Duration {
	const for_ = 100 * time.Millisecond
	var calls atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for c := 0; c < callers; c++ {
		all.Add(1)
		go func() {
			defer all.Done()
			call := make()
			for i := 0; ; {
				for k := 0; k < 16; k, i = k+1, i+1 {
					call(c + i)
				}
				if time.Since(start) >= for_ {
					calls.Add(int64(i))
					return
				}
			}
		}()
	}
	all.Wait()
	return time.Since(start) / time.Duration(calls.Load())
}
