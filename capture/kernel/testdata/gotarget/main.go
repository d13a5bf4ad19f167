// Command gotarget allocates, waits for a P and reads the clock as it is told, and says
// what it counted itself. It goes on with each line on standard input.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

var sink []byte

//go:noinline
func allocate(size int) { sink = make([]byte, size) }

//go:noinline
func allocateMore(size int) { allocate(2 * size) }

// yield lets others run, n times, and returns how long that took in all and at most, and how often 2^20 to 2^21 ns.
func yield(n int) (sum, most time.Duration, within int) {
	for range n {
		from := time.Now()
		runtime.Gosched()
		took := time.Since(from)
		sum += took
		most = max(most, took)
		if 1<<20 <= took && took < 1<<21 {
			within++
		}
	}
	return sum, most, within
}

//go:noinline
func readClock(n int) {
	for range n {
		time.Now()
	}
}

// handle sleeps for so many ns, calls itself so often, and lets the stack grow meanwhile. It
// returns how long it took.
//
//go:noinline
func handle(ns, again, depth int) int64 {
	from := time.Now()
	if again > 0 {
		handle(ns/4, again-1, depth*10)
	}
	if grow(depth) > 0 {
		time.Sleep(time.Duration(ns))
	}
	return int64(time.Since(from))
}

//go:noinline
func grow(depth int) int {
	var room [128]byte
	room[depth%len(room)] = 1
	if depth == 0 {
		return 1
	}
	return grow(depth-1) + int(room[(depth+1)%len(room)])
}

// fail calls handle, then does not return: it lets the caller go on, or ends the
// goroutine.
//
//go:noinline
func fail(ns int, exit bool) int64 {
	if handle(ns, 1, 10) == 0 {
		return 0
	}
	if exit {
		runtime.Goexit()
	}
	panic("to be caught")
}

func caught(ns int) {
	defer func() { _ = recover() }()
	fail(ns, false)
}

func main() {
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var what string
		var n, x int
		fmt.Sscan(line, &what, &n, &x)
		switch what {
		case "alloc": // half of the bytes in each of two stacks
			runtime.GC() // what was sampled until a collection is in the profile after the next one
			runtime.GC()
			before := sampled()
			for range n {
				allocate(x)
				allocate(x)
				allocateMore(x)
			}
			runtime.GC()
			runtime.GC()
			fmt.Println(sampled() - before)
		case "yield": // to one that computes for x ns each time
			stop := make(chan struct{})
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				for {
					select {
					case <-stop:
						return
					default:
					}
					for from := time.Now(); time.Since(from) < time.Duration(x); {
					}
					runtime.Gosched()
				}
			}()
			runtime.Gosched()
			sum, most, within := yield(n)
			close(stop)
			<-gone
			fmt.Println(int64(sum), int64(most), within)
		case "handle": // x ns in the function, in a goroutine for each
			sum := int64(0)
			for range n {
				done := make(chan int64)
				go func() { done <- handle(x, 2, 100) }()
				sum += <-done
			}
			fmt.Println(n, sum)
		case "panic": // n times in one goroutine, and as often goroutines end
			done := make(chan bool)
			go func() {
				for range n {
					caught(x)
				}
				done <- true
			}()
			<-done
			for range n {
				go func() {
					defer func() { done <- true }()
					fail(x, true)
				}()
				<-done
			}
			fmt.Println(n)
		case "serve": // for ever, n goroutines that do so again and again
			for range n {
				go func() {
					for {
						handle(x, 0, 10)
					}
				}()
			}
			fmt.Println(n)
		case "clock":
			readClock(n)
			fmt.Println(n)
		case "profile": // so that the linker keeps the sampler
			_ = pprof.Lookup("heap")
		}
	}
}

// sampled is how many allocations the runtime has sampled.
func sampled() (n int64) {
	records := make([]runtime.MemProfileRecord, 10_000)
	got, ok := runtime.MemProfile(records, true)
	if !ok {
		panic("too many records")
	}
	for _, r := range records[:got] {
		n += r.AllocObjects
	}
	return n
}
