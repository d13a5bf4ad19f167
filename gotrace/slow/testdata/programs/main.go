// Command programs does what one kind of events of traces comes from, and writes its trace.
//
//	programs FILE NAME
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"time"
)

// programs are by name; those that need more than Go 1.22 are added by other files.
var programs = map[string]func(){
	"collector": collector, "annotations": annotations, "calls": calls, "samples": samples,
	"births": births, "network": network, "locks": locks, "stops": stops, "pipes": pipes,
}

// record writes the trace of what do does.
var record = func(f io.Writer, do func()) error {
	if err := trace.Start(f); err != nil {
		return err
	}
	do()
	trace.Stop()
	return nil
}

func main() {
	if len(os.Args) == 1 {
		for name := range programs {
			fmt.Println(name)
		}
		return
	}
	do := programs[os.Args[2]]
	if do == nil {
		fail(fmt.Errorf("no program %q", os.Args[2]))
	}
	f, err := os.Create(os.Args[1])
	if err != nil {
		fail(err)
	}
	before := make(chan int)
	go func() { <-before }() // a wait that began before the trace
	runtime.Gosched()
	if err := record(f, func() {
		for range [3]int{} {
			do()
		}
	}); err != nil {
		fail(err)
	}
	close(before)
	if err := f.Close(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

var sink [64][]byte

// collector allocates until goroutines have to help, and sweeps.
func collector() {
	var wg sync.WaitGroup
	for i := range [4]int{} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range [300]int{} {
				sink[(i*7+n)%len(sink)] = make([]byte, 64<<10)
			}
		}()
	}
	wg.Wait()
	runtime.GC()
}

// annotations has tasks, regions and logs, within each other and across generations.
func annotations() {
	ctx, outer := trace.NewTask(context.Background(), "outer")
	for i := range [20]int{} {
		inner, task := trace.NewTask(ctx, fmt.Sprint("inner ", i))
		trace.WithRegion(inner, "region", func() {
			trace.WithRegion(inner, "nested", func() { trace.Log(inner, "category", "text") })
			time.Sleep(500 * time.Microsecond)
		})
		task.End()
	}
	r := trace.StartRegion(ctx, "long")
	time.Sleep(15 * time.Millisecond)
	r.End()
	outer.End()
}

// calls are system calls, short ones and long ones that lose their P.
func calls() {
	var wg sync.WaitGroup
	for range [4]int{} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range [30]int{} {
				if _, err := os.ReadFile("/proc/self/stat"); err != nil {
					fail(err)
				}
			}
			if err := exec.Command("/bin/true").Run(); err != nil {
				fail(err)
			}
		}()
	}
	wg.Wait()
}

// samples runs under the CPU profile.
func samples() {
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		fail(err)
	}
	x := 0
	for begun := time.Now(); time.Since(begun) < 60*time.Millisecond; {
		for i := range [1000]int{} {
			x += i
		}
	}
	pprof.StopCPUProfile()
	_ = x
}

// births has many short lives, some of timers.
func births() {
	var wg sync.WaitGroup
	for range [500]int{} {
		wg.Add(2)
		go wg.Done()
		time.AfterFunc(time.Microsecond, wg.Done)
	}
	wg.Wait()
}

// network echoes over TCP.
func network() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	var wg sync.WaitGroup
	for range [8]int{} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				fail(err)
			}
			defer c.Close()
			b := make([]byte, 1)
			for range [50]int{} {
				c.Write(b)
				c.Read(b)
			}
		}()
	}
	wg.Wait()
}

// locks has goroutines wait for each other, preempted and yielding.
func locks() {
	var mu sync.RWMutex
	cond := sync.NewCond(&sync.Mutex{})
	ready := false
	var wg sync.WaitGroup
	for i := range [6]int{} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			cond.L.Lock()
			for !ready {
				cond.Wait()
			}
			cond.L.Unlock()
			for range [200]int{} {
				if i%2 == 0 {
					mu.Lock()
					runtime.Gosched()
					mu.Unlock()
				} else {
					mu.RLock()
					runtime.Gosched()
					mu.RUnlock()
				}
			}
			for begun := time.Now(); time.Since(begun) < 12*time.Millisecond; {
			}
		}()
	}
	cond.L.Lock()
	ready = true
	cond.L.Unlock()
	cond.Broadcast()
	wg.Wait()
}

// stops stops the world, and changes the number of Ps.
func stops() {
	var m runtime.MemStats
	for range [5]int{} {
		runtime.ReadMemStats(&m)
		n := runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(n + 1)
		runtime.GOMAXPROCS(n)
		runtime.Stack(make([]byte, 1<<16), true)
	}
}

// pipes waits in system calls that nobody polls, and in ones that are polled.
func pipes() {
	r, w, err := os.Pipe()
	if err != nil {
		fail(err)
	}
	go func() {
		for range [20]int{} {
			time.Sleep(300 * time.Microsecond)
			w.Write([]byte("x"))
		}
		w.Close()
	}()
	var b bytes.Buffer
	io.Copy(&b, r)
	r.Close()
	f, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		fail(err)
	}
	for range [100]int{} {
		f.Write([]byte("x"))
	}
	f.Close()
}
