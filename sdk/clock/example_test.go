package clock_test

import (
	"fmt"
	"os"
	"time"

	"github.com/whylate/whylate/sdk/clock"
)

// A cache whose entries live for seconds does not need to know the time to the nanosecond.
func ExampleCoarse() {
	type entry struct {
		value   string
		expires time.Time
	}
	cache := map[string]entry{"a": {"apple", clock.Coarse().Add(10 * time.Second)}}
	e, ok := cache["a"]
	if ok && clock.Coarse().Before(e.expires) {
		fmt.Println(e.value)
	}
	// Output: apple
}

// At its start, a service says what the clock costs where it runs.
func ExampleCheck() {
	if c := clock.Check(); c.Path.Slow() {
		fmt.Fprintln(os.Stderr, "slow clock:", c)
	}
}

// A service that runs for months tells when that changes.
func ExampleWatch() {
	w := clock.Watch(time.Minute, func(before, after clock.Cost) {
		fmt.Fprintf(os.Stderr, "the clock was read by %v, now by %v\n", before.Path, after.Path)
	})
	defer w.Stop()
	w.Metrics(func(name string, value float64) { /* to where the others go */ })
}

// go test -cpuprofile, runtime/pprof and /debug/pprof/profile write what this reads.
func ExamplePays() {
	f, err := os.Open("cpu.pprof")
	if err != nil {
		return
	}
	defer f.Close()
	if w, err := clock.Pays(f); err == nil {
		fmt.Println(w)
		for _, c := range w.Callers {
			fmt.Printf("%5.1f %%  %s\n", 100*c.Share, c.Function)
		}
	}
}
