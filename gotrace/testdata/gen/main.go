//go:build ignore

// This program writes a small execution trace of several generations that has
// every kind of event that gotrace reads. The fixtures beside it were made so,
// outside of any module:
//
//	GOTOOLCHAIN=go1.22.12 go run main.go go1.22.trace && gzip -9n go1.22.trace
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/trace"
	"sync"
	"time"
)

func main() {
	if os.Getenv("GODEBUG") == "" {
		// Generations of 12 ms instead of one second.
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Env = append(os.Environ(), "GODEBUG=traceadvanceperiod=12000000", "GOMAXPROCS=2")
		if out, err := cmd.CombinedOutput(); err != nil {
			fail(fmt.Errorf("%v: %s", err, out))
		}
		return
	}
	f, err := os.Create(os.Args[1])
	if err != nil {
		fail(err)
	}
	waiting := make(chan int) // a wait that began before the trace
	go func() { <-waiting }()
	runtime.Gosched()
	if err := trace.Start(f); err != nil {
		fail(err)
	}
	for range [2]int{} {
		work()
		time.Sleep(15 * time.Millisecond)
	}
	close(waiting)
	trace.Stop()
	if err := f.Close(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func work() {
	ctx, task := trace.NewTask(context.Background(), "work")
	defer task.End()
	trace.WithRegion(ctx, "lock", lock)
	trace.WithRegion(ctx, "echo", echo)
	trace.Log(ctx, "phase", "channels")
	channels()
	runtime.GC()
	if _, err := os.ReadFile("/proc/self/stat"); err != nil {
		fail(err)
	}
}

func lock() {
	var mu sync.Mutex
	var wg sync.WaitGroup
	mu.Lock()
	for range [2]int{} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
		}()
	}
	time.Sleep(100 * time.Microsecond)
	mu.Unlock()
	wg.Wait()
}

func echo() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 1)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			time.Sleep(50 * time.Microsecond)
			c.Write(b)
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		fail(err)
	}
	defer c.Close()
	b := make([]byte, 1)
	for range [3]int{} {
		c.Write(b)
		c.Read(b)
	}
}

func channels() {
	in, out, done := make(chan int), make(chan int, 1), make(chan int)
	go func() {
		defer close(done)
		for {
			select {
			case i := <-in:
				out <- i
			case <-time.After(time.Second):
				return
			}
			if len(out) == cap(out) {
				return
			}
		}
	}()
	in <- 1
	<-done
	<-out
}
