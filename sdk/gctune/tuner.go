package gctune

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"
)

/*
The loop. Nothing here is done more often than garbage is collected, but for a tick.

	    budget (control groups, each second)
	      |
	      v            GOGC 800, limit 0.94 x budget
	  +--------+  -------------------------------------->  +---------+  runs a cycle when the heap is at
	  |  law   |                                           | runtime |  min(live + (live+stacks+globals) x GOGC/100,
	  +--------+  -------------------------------------->  +---------+      0.97 x (limit - what is no heap))
	      ^            GOGC 25 to 800, limit dropped or raised  |
	      |                                                     | at the end of a cycle (a finalizer), and each 200 ms
	      +----------------- runtime/metrics -------------------+

Feed-forward. While all fits, the runtime itself does the best that can be done with a budget: with the limit in
the lead each cycle ends when the memory is used up, whatever the live heap, stacks and tables are just now. It does so within
a cycle, sooner than any controller that looks once per cycle. So the law only places the limit, and leaves it alone.

Guard. The limit's weakness is positive feedback. When live heap + stacks come near it, cycles follow each other with no
room between; marking takes CPU time from the program, so a cycle takes longer, and all that is allocated meanwhile counts as live in the next
one: /gc/heap/live is fooled too. The state is stable, and remains when the load becomes what was fine before. So the
law watches what the budget has room for (as a GOGC, see reading.room), what the collector takes, and the runtime's own limiter,
and lets go of the limit.

Feedback. Then GOGC leads, and pid.go chooses the least one whose cycles cost no more than the aim. What is had at
the moment of letting go, and what it costs, gives the first one by the same algebra.

	             room < 25 and cost > aim, or room < 50 and share > 0.4 with
	             the collector always on, in 3 cycles (both: in 2); or the
	             runtime's limiter was on
	    Within  ------------------------------------------>  Over
	            <------------------------------------------
	             room >= 50, or it would be cheap all the same;
	             in 2 cycles, and in more each time that was wrong

Whoever else sets GOGC or the limit means it. That is seen as the metrics, or the old value that a setter returns, is not what was
set last; the law then sets nothing until that is put back (Yielded).
*/

// tick is how long the budget, the limiter and others' settings are unwatched at most if no cycle ends; the budget is read at each fifth.
const tick, ticksPerBudget = 200 * time.Millisecond, 5

// settings are GOGC in percent, -1 is off, and the memory limit in bytes.
type settings struct {
	gogc  int
	limit int64
}

// sentinel is an object whose finalizer runs once after each cycle. It has a pointer: without one the runtime packs it with others.
type sentinel struct {
	ended chan<- struct{}
	stop  <-chan struct{}
}

// finalized is called by the runtime's goroutine for finalizers, which must not wait.
func finalized(s *sentinel) {
	select {
	case <-s.stop:
		return
	case s.ended <- struct{}{}:
	default:
	}
	runtime.SetFinalizer(s, finalized)
}

func (t *Tuner) run() {
	defer close(t.done)
	runtime.SetFinalizer(&sentinel{t.ended, t.stop}, finalized)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for n := 1; ; {
		select {
		case <-t.stop:
			return
		case <-t.ended:
		case <-ticker.C:
			if n++; n%ticksPerBudget == 0 {
				t.budget.again()
				t.law.budget = t.budget.bytes
			}
		}
		t.look()
	}
}

// look reads, decides and sets. It is called by one goroutine at a time.
func (t *Tuner) look() {
	r := t.gauge.read()
	d, changed := t.law.step(r)
	if !changed {
		if d.Mode < Yielded {
			t.mu.Lock()
			t.state.Decision = d
			t.mu.Unlock()
		}
		return
	}
	if d.Mode < Yielded {
		if t.State().Mode == Yielded {
			t.put = settings{r.gogc, r.limit}
		}
		if now := t.apply(settings{d.GOGC, d.Limit}); now != t.put {
			// Somebody came between the reading and the setting: the law shall see what was set.
			r.gogc, r.limit = now.gogc, now.limit
			d, _ = t.law.step(r)
		}
	}
	if d.Mode == Yielded {
		now := t.restore()
		d.GOGC, d.Limit = now.gogc, now.limit
		t.law.now = d
	}
	t.publish(d)
}

// apply sets what is not set yet and returns what is in force then: something else than t.put if it was somebody else's,
// which is left as it was.
func (t *Tuner) apply(s settings) (now settings) {
	now = t.put
	if s.gogc != t.put.gogc {
		if old := debug.SetGCPercent(s.gogc); old != t.put.gogc && old != s.gogc {
			debug.SetGCPercent(old)
			now.gogc = old
			return now
		}
		t.put.gogc, now.gogc = s.gogc, s.gogc
	}
	if s.limit != t.put.limit {
		if old := debug.SetMemoryLimit(s.limit); old != t.put.limit && old != s.limit {
			debug.SetMemoryLimit(old)
			now.limit = old
			return now
		}
		t.put.limit, now.limit = s.limit, s.limit
	}
	return now
}

// restore gives back each setting that is the tuner's still, and returns what is in force then.
func (t *Tuner) restore() settings {
	r := t.gauge.read()
	now := settings{r.gogc, r.limit}
	if now.gogc == t.put.gogc {
		if now.gogc = debug.SetGCPercent(t.asked.gogc); now.gogc != t.put.gogc {
			debug.SetGCPercent(now.gogc)
		} else {
			now.gogc = t.asked.gogc
		}
	}
	if now.limit == t.put.limit {
		if now.limit = debug.SetMemoryLimit(t.asked.limit); now.limit != t.put.limit {
			debug.SetMemoryLimit(now.limit)
		} else {
			now.limit = t.asked.limit
		}
	}
	return now
}

// Stop ends the goroutine, waits for it and restores GOGC and the memory limit as they were before New. What somebody else has
// set meanwhile is left. It may be called more than once.
func (t *Tuner) Stop() {
	t.once.Do(func() {
		close(t.stop)
		<-t.done
		t.end()
		running.Store(false)
	})
	<-t.done
}

func (t *Tuner) end() {
	d := t.State().Decision
	now := t.restore()
	d.GOGC, d.Limit = now.gogc, now.limit
	d.Why = "stops: what was set before is in force again"
	if d.GOGC != t.asked.gogc || d.Limit != t.asked.limit {
		d.Why = "stops: what somebody else has set meanwhile is left"
	}
	d.Mode = Stopped
	t.publish(d)
}

func (t *Tuner) publish(d Decision) {
	t.mu.Lock()
	before := t.state.Mode
	t.state.Decision, t.state.Source = d, t.budget.source
	t.state.Decisions++
	if d.Mode == Over && before == Within {
		t.state.LetGo++
	}
	t.mu.Unlock()
	t.log(d, before)
}

func (t *Tuner) log(d Decision, before Mode) {
	if t.logger == nil {
		return
	}
	level := slog.LevelInfo
	switch {
	case d.Mode == Over && before == Over:
		level = slog.LevelDebug
	case d.Mode == Over || d.Mode == Yielded:
		level = slog.LevelWarn
	}
	t.logger.LogAttrs(context.Background(), level, "gctune "+d.Why,
		slog.String("mode", d.Mode.String()), slog.Int("gogc", d.GOGC), slog.String("limit", size(d.Limit)),
		slog.String("budget", size(d.Budget)), slog.String("live", size(d.Live)), slog.Int("room", d.Room),
		slog.Float64("gc_share", d.GCShare), slog.Float64("assist_share", d.AssistShare), slog.Uint64("cycle", d.Cycle))
}
