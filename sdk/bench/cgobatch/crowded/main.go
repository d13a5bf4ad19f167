//go:build cgo

// Command crowded tells how long C calls take while Go code wants the CPUs, beside the same work in Go: the
// runtime's monitor takes the P of a call that it finds in C twice, and the goroutine waits for another one when it returns;
// but Go code that has run for 10 ms has to wait like that as well.
package main

/*
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void work(int64_t ns) {
	for (int64_t end = now() + ns; now() < end;)
		;
}

static void rest(int us) { usleep(us); }
static void nop(void)    { __asm__ volatile(""); }
*/
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var rows = []struct {
	name string
	call func()
}{
	{"a call of nothing", func() { C.nop() }},
	{"64 µs of work in Go", func() { work(64 * time.Microsecond) }},
	{"64 µs of work in C, one call", func() { C.work(64000) }},
	{"64 µs of work in C, 32 calls", func() {
		for range 32 {
			C.work(2000)
		}
	}},
	{"1 ms of work in Go", func() { work(time.Millisecond) }},
	{"1 ms of work in C", func() { C.work(1000000) }},
	{"20 ms of work in Go", func() { work(20 * time.Millisecond) }},
	{"20 ms of work in C", func() { C.work(20000000) }},
	{"a sleep of 1 ms in Go", func() { time.Sleep(time.Millisecond) }},
	{"a sleep of 1 ms in C", func() { C.rest(1000) }},
}

func work(d time.Duration) {
	for t := time.Now(); time.Since(t) < d; {
	}
}

const (
	busy = 16 // goroutines
	most = 3 * time.Second
)

func main() {
	fmt.Printf("%s, GOMAXPROCS %d; µs, p50 / p99 / max / mean\n\n", runtime.Version(), runtime.GOMAXPROCS(0))
	fmt.Printf("| C call | idle | beside %d busy goroutines |\n|---|---|---|\n", busy)
	for _, r := range rows {
		idle := took(r.call)
		var stop atomic.Bool
		var wg sync.WaitGroup
		for range busy {
			wg.Go(func() {
				for !stop.Load() {
				}
			})
		}
		crowded := took(r.call)
		stop.Store(true)
		wg.Wait()
		fmt.Printf("| %s | %s | %s |\n", r.name, idle, crowded)
	}
}

// took returns how long calls took.
func took(call func()) string {
	var all []float64
	sum := 0.0
	for begun := time.Now(); time.Since(begun) < most && len(all) < 20000; {
		t := time.Now()
		call()
		us := float64(time.Since(t)) / 1e3
		all, sum = append(all, us), sum+us
	}
	slices.Sort(all)
	n := len(all)
	return fmt.Sprintf("%.3g / %.3g / %.3g / %.3g", all[n/2], all[n*99/100], all[n-1], sum/float64(n))
}
