//go:build unix

// Command bench measures what reading and diagnosing a trace cost beside the bare event loop of
// golang.org/x/exp/trace and go tool trace -pprof=sched, in one run: wall time, user CPU and peak
// memory of each, and their ratios.
//
//	go build -o bin/timelines ./timeline/bench
//	go run ./gotrace/bench -whylate bin/whylate -mb 10,70,500
//
// It makes the traces itself: a JSON service under a closed loop of clients in the
// same process, whose cache is locked for 20 ms twice a second.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	rt "runtime/trace"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/exp/trace"

	"github.com/whylate/whylate/gotrace"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) == 3 {
		if read := readers[os.Args[1]]; read != nil {
			if err := with(os.Args[2], read); err != nil {
				log.Fatal(err)
			}
			return
		}
	}
	keep := flag.String("keep", "", "directory in which to keep the traces")
	whylate := flag.String("whylate", "bin/whylate", "the whylate binary")
	timelines := flag.String("timelines", "bin/timelines", "the binary of timeline/bench")
	sizes := flag.String("mb", "10,70", "sizes of the traces in MB")
	gotool := flag.Bool("gotool", true, "run go tool trace too; it needs about 90 bytes of memory per byte of trace")
	flag.Parse()
	dir, err := os.MkdirTemp("", "perf-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if *keep != "" {
		dir = *keep
	}
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%-10s %-28s %9s %9s %9s %12s %12s\n", "trace", "what", "wall s", "user s", "RSS MB", "user / bare", "RSS / file")
	for _, s := range strings.Split(*sizes, ",") {
		mb, err := strconv.Atoi(s)
		if err != nil {
			log.Fatal(err)
		}
		file := filepath.Join(dir, s+".trace")
		size, err := generate(file, int64(mb)<<20)
		if err != nil {
			log.Fatal(err)
		}
		runtime.GC()
		jobs := strconv.Itoa(runtime.NumCPU())
		rows := []struct {
			name string
			args []string
		}{
			{"x/exp/trace, bare loop", []string{self, "bare", file}},
			{"gotrace, every event", []string{self, "events", file}},
			{"gotrace, states and wake-ups", []string{self, "states", file}},
			{"gotrace and timeline", []string{*timelines, file}},
			{"whylate diagnose", []string{*whylate, "diagnose", file}},
			{"the same with --jobs " + jobs, []string{*whylate, "diagnose", "--jobs", jobs, file}},
			{"go tool trace -pprof=sched", []string{"go", "tool", "trace", "-pprof=sched", file}},
		}
		var base float64
		for i, r := range rows {
			if i == len(rows)-1 && !*gotool {
				continue
			}
			c, err := measure(r.args)
			if err != nil {
				log.Printf("%s: %v", r.name, err)
				continue
			}
			if i == 0 {
				base = c.user
			}
			fmt.Printf("%-10s %-28s %9.2f %9.2f %9.0f %12.1f %12.1f\n", fmt.Sprintf("%.1f MB", float64(size)/1e6), r.name, c.wall, c.user, c.rss/1e6, c.user/base, c.rss/float64(size))
		}
	}
}

// readers are what a trace is read with, in a process of its own.
var readers = map[string]func(io.Reader) error{"bare": bare, "events": events, "states": states}

func with(file string, read func(io.Reader) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(f)
}

// bare has the Go team's reader read every event.
func bare(in io.Reader) error {
	r, err := trace.NewReader(bufio.NewReaderSize(in, 1<<20))
	if err != nil {
		return err
	}
	for {
		if _, err := r.ReadEvent(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// events has our own read every event.
func events(in io.Reader) error { return each(in, func(*gotrace.Event) {}) }

func each(in io.Reader, do func(*gotrace.Event)) error {
	r, err := gotrace.NewReader(in)
	if err != nil {
		return err
	}
	var ev gotrace.Event
	for {
		if err := r.Next(&ev); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		do(&ev)
	}
}

// states sums up how long goroutines were in each state, and counts who woke whom.
func states(in io.Reader) error {
	type life struct {
		of    gotrace.GoID
		state gotrace.State
		since gotrace.Time
		stack gotrace.StackID
	}
	var total [gotrace.Idle + 1]gotrace.Time
	var alive []life // by slot
	edges := map[[2]gotrace.StackID]int{}
	err := each(in, func(ev *gotrace.Event) {
		if ev.Kind != gotrace.KindGo {
			return
		}
		for int(ev.Slot) >= len(alive) {
			alive = append(alive, life{of: gotrace.NoGoroutine})
		}
		if l := &alive[ev.Slot]; l.of == ev.Go {
			total[l.state] += ev.Time - l.since
			if l.state == gotrace.Waiting && ev.To == gotrace.Runnable {
				edges[[2]gotrace.StackID{ev.Stack, l.stack}]++
			}
		}
		alive[ev.Slot] = life{ev.Go, ev.To, ev.Time, ev.GoStack}
	})
	if err == nil && (total[gotrace.Running] == 0 || len(edges) == 0) {
		err = errors.New("nothing ran, or nobody woke anybody")
	}
	return err
}

// cost is what a process took.
type cost struct{ wall, user, rss float64 }

// measure runs a command to its end. Exit codes 3 and 4 are verdicts of whylate.
func measure(args []string) (cost, error) {
	cmd := exec.Command(args[0], args[1:]...)
	begun := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() >= 3) {
		return cost{}, err
	}
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return cost{time.Since(begun).Seconds(), cmd.ProcessState.UserTime().Seconds(), float64(u.Maxrss) * 1024}, nil
}

// generate writes a trace of at least size bytes.
func generate(file string, size int64) (int64, error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	c := &catalogue{prices: map[string]int{"x": 1}}
	srv := httptest.NewServer(c)
	defer srv.Close()
	out := &counter{w: f}
	if err := rt.Start(out); err != nil {
		return 0, err
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				select {
				case <-done:
					return
				default:
				}
				if r, err := http.Get(srv.URL); err == nil {
					io.Copy(io.Discard, r.Body)
					r.Body.Close()
				}
			}
		}()
	}
	for out.size() < size {
		time.Sleep(480 * time.Millisecond)
		c.reload()
	}
	close(done)
	wg.Wait()
	rt.Stop()
	return out.size(), nil
}

// catalogue is a service with a cache that is sometimes locked for long.
type catalogue struct {
	mu     sync.Mutex
	prices map[string]int
}

func (c *catalogue) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	p := c.prices["x"]
	c.mu.Unlock()
	answers := make(chan int, 4)
	for i := range 4 {
		go func() { answers <- p + i }()
	}
	sum := 0
	for range 4 {
		sum += <-answers
	}
	json.NewEncoder(w).Encode(sum)
}

func (c *catalogue) reload() {
	c.mu.Lock()
	time.Sleep(20 * time.Millisecond)
	c.mu.Unlock()
}

// counter counts what the tracer writes; the tracer writes from one goroutine.
type counter struct {
	w  io.Writer
	mu sync.Mutex
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.mu.Lock()
	c.n += int64(n)
	c.mu.Unlock()
	return n, err
}

func (c *counter) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
