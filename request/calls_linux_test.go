package request

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/timeline"
)

// monotonic is the clock of traces and of the kernel's probes.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

// goid is the number of the calling goroutine.
func goid() (id int64) {
	var b [64]byte
	_, _ = fmt.Fscanf(bytes.NewReader(b[:runtime.Stack(b[:], false)]), "goroutine %d", &id)
	return id
}

// Calls in which nothing was recorded are requests, too, and each is as long as it was.
func TestCallsThatProbesSawAreTheRequests(t *testing.T) {
	const n = 60
	var calls []events.Call
	before := monotonic()
	tl := traced(t, func() {
		for i := range n {
			done := make(chan events.Call)
			go func() {
				id := goid()
				from := monotonic()
				if i%3 == 0 {
					time.Sleep(3 * time.Millisecond)
				} else {
					for monotonic()-from < 20_000 {
					}
				}
				done <- events.Call{Goroutine: id, From: from, To: monotonic()}
			}()
			calls = append(calls, <-done)
		}
	})
	all := append([]events.Call{
		{Goroutine: calls[0].Goroutine, From: before, To: calls[0].To},        // began before the trace
		{Goroutine: 1 << 40, From: calls[0].From, To: calls[0].To},            // of a goroutine that nobody knows
		{Goroutine: calls[1].Goroutine, From: calls[0].From, To: calls[1].To}, // before it existed
	}, calls...)
	f := Find(tl, Options{Calls: all, Functions: []string{"main.handle"}})
	check(t, f)
	if len(f.Requests) != n {
		t.Fatalf("%d requests of %d calls", len(f.Requests), n)
	}
	for _, r := range f.Requests {
		p := r.Parts[0]
		i := -1
		for k, c := range calls {
			if timeline.Time(c.From) == p.Start && timeline.Time(c.To) == p.End {
				i = k
			}
		}
		if i < 0 || len(r.Parts) != 1 || r.InFlight || r.Guessed || f.Endpoints[r.Endpoint] != "main.handle" {
			t.Errorf("%+v is none of the calls", r)
		}
	}
}

// What had not ended when the probes were removed is in flight, and one that panicked ended
// with its goroutine.
func TestCallsThatHadNotEnded(t *testing.T) {
	var left, within, died events.Call
	begin := func(c *events.Call, began chan struct{}, hold func()) {
		c.Goroutine, c.From, c.Open = goid(), monotonic(), true
		close(began)
		hold()
	}
	release := make(chan struct{})
	defer close(release)
	tl := traced(t, func() {
		for _, c := range []*events.Call{&left, &within} {
			began := make(chan struct{})
			go begin(c, began, func() { <-release })
			<-began
		}
		began, ended := make(chan struct{}), make(chan struct{})
		go begin(&died, began, func() { time.Sleep(time.Millisecond); close(ended) })
		<-ended
		time.Sleep(20 * time.Millisecond)
		within.To = monotonic() // when the probes were removed
		time.Sleep(20 * time.Millisecond)
	})
	left.To, died.To = monotonic(), monotonic()
	f := Find(tl, Options{Calls: []events.Call{left, within, died}})
	check(t, f)
	got := map[int64]Request{}
	for _, r := range f.Requests {
		got[int64(r.Parts[0].Start)] = r
	}
	if r := got[left.From]; !r.InFlight || r.End() != tl.End {
		t.Errorf("it had not ended at the trace's end: %+v", r)
	}
	if r := got[within.From]; !r.InFlight || int64(r.End()) != within.To {
		t.Errorf("it had not ended when the probes were removed, at %d: %+v", within.To, r)
	}
	if r := got[died.From]; r.InFlight || r.Duration() < 1e6 || r.Duration() > 20e6 {
		t.Errorf("it ended with its goroutine: %+v", r)
	}
}
