// Command stale measures how old clocks are when they are read, in an idle program and in one all of
// whose CPUs are busy, and what they cost when nobody reads them. It prints a Markdown table. Each
// clock has processes of its own, one after the other.
//
//	go run ./clock/stale
//
// Whoever reads notes the time before: if it is interrupted between, the clock seems too
// young, not too old.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/whylate/whylate/sdk/clock"
)

// clocks return what reads each of them.
var clocks = map[string]func() func() time.Time{
	"whylate Coarse": func() func() time.Time { return clock.Coarse },
	"whylate Cached, 10 ms": func() func() time.Time {
		c, err := clock.NewCached(clock.CachedOptions{})
		if err != nil {
			log.Fatal(err)
		}
		return c.Now
	},
	// What most cached clocks are: a ticker, a goroutine, an atomic.
	"ticker, 1 ms":  func() func() time.Time { return ticker(time.Millisecond) },
	"ticker, 10 ms": func() func() time.Time { return ticker(10 * time.Millisecond) },
	"time.Now":      func() func() time.Time { return time.Now },
}

var order = []string{"time.Now", "whylate Coarse", "whylate Cached, 10 ms", "ticker, 1 ms", "ticker, 10 ms"}

func ticker(every time.Duration) func() time.Time {
	var now atomic.Pointer[time.Time]
	store := func() { t := time.Now(); now.Store(&t) }
	store()
	go func() {
		for range time.Tick(every) {
			store()
		}
	}()
	return func() time.Time { return *now.Load() }
}

// age is how old a clock was, in milliseconds.
type age struct{ P50, P99, P999, Max, Min float64 }

// idle is what a clock costs per second when nobody reads it.
type idle struct{ Switches, CPU float64 }

func main() {
	name := flag.String("clock", "", "measure this one, in this process")
	busy := flag.Int("busy", 0, "goroutines that compute meanwhile")
	cost := flag.Bool("cost", false, "measure what it costs when nobody reads it")
	for_ := flag.Duration("for", 3*time.Second, "how long each measurement takes")
	flag.Parse()
	if *name != "" {
		start := clocks[*name]
		if start == nil {
			log.Fatalf("no clock %q", *name)
		}
		read := start()
		if *cost {
			json.NewEncoder(os.Stdout).Encode(costOf(*for_))
		} else {
			json.NewEncoder(os.Stdout).Encode(ageOf(read, *busy, *for_))
		}
		return
	}
	all := 8 * runtime.GOMAXPROCS(0)
	fmt.Printf("%s, %s/%s, %d CPUs, a tick of %v\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), clock.Resolution())
	fmt.Printf("| clock | age ms, idle: p50 / p99 / p99.9 / max | %d busy goroutines: p50 / p99 / p99.9 / max | unread: switches/s, CPU |\n|---|---|---|---|\n", all)
	for _, name := range order {
		var quiet, loaded age
		var unread idle
		child(&quiet, "-clock", name, "-for", for_.String())
		child(&loaded, "-clock", name, "-for", for_.String(), "-busy", fmt.Sprint(all))
		child(&unread, "-clock", name, "-for", for_.String(), "-cost")
		fmt.Printf("| %s | %s | %s | %.0f, %.2f %% |\n", name, quiet, loaded, unread.Switches, 100*unread.CPU)
		if min(quiet.Min, loaded.Min) < 0 {
			log.Fatalf("%s was ahead of time.Now", name)
		}
	}
}

func (a age) String() string {
	return fmt.Sprintf("%.2f / %.2f / %.2f / %.2f", a.P50, a.P99, a.P999, a.Max)
}

func child(result any, args ...string) {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, result)
	}
	if err != nil {
		log.Fatalf("%v: %v", args, err)
	}
}

func ageOf(read func() time.Time, busy int, for_ time.Duration) age {
	for range busy {
		go func() {
			for x := uint64(1); x != 0; {
				x = x*6364136223846793005 + 1
			}
		}()
	}
	ages := make([]float64, 0, 1<<20)
	lowest := 0.0
	for start := time.Now(); time.Since(start) < for_; {
		before := time.Now()
		t := read()
		after := time.Now()
		ages = append(ages, max(0, float64(before.Sub(t))/1e6))
		lowest = min(lowest, float64(after.Sub(t)))
		for time.Since(after) < 5*time.Microsecond {
		}
	}
	slices.Sort(ages)
	q := func(p float64) float64 { return ages[min(len(ages)-1, int(p*float64(len(ages))))] }
	return age{q(0.5), q(0.99), q(0.999), q(1), lowest}
}

func costOf(for_ time.Duration) idle {
	var a, b syscall.Rusage
	time.Sleep(200 * time.Millisecond) // the start of the program
	syscall.Getrusage(syscall.RUSAGE_SELF, &a)
	start := time.Now()
	time.Sleep(for_)
	s := time.Since(start).Seconds()
	syscall.Getrusage(syscall.RUSAGE_SELF, &b)
	cpu := func(r syscall.Rusage) float64 { return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9 }
	return idle{float64(b.Nvcsw-a.Nvcsw) / s, (cpu(b) - cpu(a)) / s}
}
