package timeline_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// A P that changes threads with somebody in its queue tells that somebody is locked
// to a thread; a P that does so for any other reason does not.
func TestWhoWaitsForAnotherThread(t *testing.T) {
	const waker, woken = gotrace.GoID(1), gotrace.GoID(2)
	for _, c := range []struct {
		name     string
		handOver func(b *timelinetest.Builder) []error
		switched bool
		polled   bool // nobody wakes it before
		calls    bool // the waker leaves by a system call
	}{
		{"another thread takes the P for who is in its queue", func(b *timelinetest.Builder) []error {
			err := b.Idle(0, gotrace.NoProc)
			b.On(0, 7)
			return []error{err, b.Runs(woken, 0, 0)}
		}, true, false, false},
		{"the thread of the P runs it", func(b *timelinetest.Builder) []error {
			return []error{b.Runs(woken, 0, 0)}
		}, false, false, false},
		{"the same thread takes the P again", func(b *timelinetest.Builder) []error {
			return []error{b.Idle(0, gotrace.NoProc), b.Runs(woken, 0, 0)}
		}, false, false, false},
		{"the world stops in between", func(b *timelinetest.Builder) []error {
			errs := []error{
				b.Runs(3, 1, 0),
				b.Range(gotrace.KindRangeBegin, 3, "stop-the-world (read mem stats)", 0),
				b.Idle(0, gotrace.NoProc),
				b.Range(gotrace.KindRangeEnd, 3, "stop-the-world (read mem stats)", 0),
			}
			b.On(0, 7)
			return append(errs, b.Runs(woken, 0, 0))
		}, false, false, false},
		{"another P has stolen it", func(b *timelinetest.Builder) []error {
			return []error{b.Idle(0, gotrace.NoProc), b.Runs(woken, 1, 0)}
		}, false, false, false},
		{"another thread took the P before, for somebody else", func(b *timelinetest.Builder) []error {
			errs := []error{b.Idle(0, gotrace.NoProc)}
			b.On(0, 7)
			return append(errs, b.Runs(3, 0, 0), b.Waits(3, "select", 0), b.Runs(woken, 0, 0))
		}, false, false, false},
		{"the thread that took the P makes it ready", func(b *timelinetest.Builder) []error {
			errs := []error{b.Idle(0, gotrace.NoProc)}
			b.On(0, 7)
			return append(errs, b.Busy(0), b.At(2500), b.Wakes(gotrace.NoGoroutine, 0, woken, 0), b.At(2800), b.Runs(woken, 0, 0))
		}, false, true, false},
		{"the thread lets the P go in a system call", func(b *timelinetest.Builder) []error {
			err := b.Idle(0, 0)
			b.On(0, 7)
			return []error{err, b.Runs(woken, 0, 0)}
		}, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := timelinetest.NewBuilder()
			errs := []error{b.Busy(0), b.Busy(1), b.Waits(woken, "", b.Stack("main.loop")), b.Runs(waker, 0, 0)}
			if !c.polled {
				errs = append(errs, b.At(1000), b.Wakes(waker, gotrace.NoProc, woken, 0))
			}
			if c.calls {
				errs = append(errs, b.Calls(waker, b.Stack("main.ask")), b.At(2000))
			} else {
				errs = append(errs, b.Waits(waker, "chan receive", b.Stack("main.ask")), b.At(2000))
			}
			errs = append(errs, c.handOver(b)...)
			errs = append(errs, b.At(3000))
			for _, err := range errs {
				if err != nil {
					t.Fatal(err)
				}
			}
			b.Sample(gotrace.NoGoroutine, 0)
			tl, err := timeline.Read(b.Source(), timeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			g, _ := tl.G(woken)
			me := &tl.Gs[g]
			if me.Len() != 3 || me.Seg(1).Kind != timeline.Runnable || (me.Seg(1).Reason == timeline.ReasonSwitch) != c.switched {
				t.Errorf("%d segments, %+v", me.Len(), me.Seg(1))
			}
		})
	}
}

// A P is a thread's from the first that it runs there, or takes the P for, until another's.
func TestWhichThreadHasAP(t *testing.T) {
	_, tl := timelinetest.Read(t, `
procs 2
0ms g1 runs on p0
0ms p1 idle
1ms g1 starts g2
2ms p1 busy
3ms g2 runs on p1
4ms end`, timeline.Options{})
	for _, c := range []struct {
		p    int16
		at   timeline.Time
		want gotrace.ThreadID
	}{{0, tl.Start + 1e6, 0}, {1, tl.Start + 1e6, gotrace.NoThread}, {1, tl.Start + 2e6, 1}, {1, tl.End, 1}, {2, tl.End, gotrace.NoThread}, {-1, tl.End, gotrace.NoThread}} {
		if got := tl.ThreadOn(c.p, c.at); got != c.want {
			t.Errorf("P %d at %v: thread %d, want %d", c.p, c.at-tl.Start, got, c.want)
		}
	}
}
