package main

import (
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// phaseResult is what was seen in a phase. The CPU times are of whole cycles, from the end of the first in the phase to that
// of the last, as the runtime's counters advance at these moments only.
type phaseResult struct {
	Phase    string
	GC       float64 // CPU microseconds of the collector per request
	Assist   float64 // part of it
	Share    float64 // of the CPU time that was used
	Rate     float64 // requests per second, of the whole phase
	Peak     float64 // MB, from the operating system and not given back
	Cycles   int
	Settle   int // cycles in which GOGC and limit changed after the step of the live heap
	LastGOGC int
}

type sample struct {
	at                                           time.Time
	requests                                     int64
	cycles                                       uint64
	gc, assist, idle, total, mapped, gogc, limit float64
}

// observer reads the runtime's metrics each 2 ms, or as soon as it is run.
type observer struct {
	w    *workers
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	samples []sample // the first after each cycle
	peak    float64  // since mark
	in      []metrics.Sample
}

var names = []string{
	"/gc/cycles/total:gc-cycles",
	"/cpu/classes/gc/total:cpu-seconds", "/cpu/classes/gc/mark/assist:cpu-seconds", "/cpu/classes/idle:cpu-seconds", "/cpu/classes/total:cpu-seconds",
	"/memory/classes/total:bytes", "/memory/classes/heap/released:bytes",
	"/gc/gogc:percent", "/gc/gomemlimit:bytes",
}

func observe(w *workers) *observer {
	o := &observer{w: w, stop: make(chan struct{}), done: make(chan struct{}), samples: make([]sample, 0, 1<<14), in: make([]metrics.Sample, len(names))}
	for i, n := range names {
		o.in[i].Name = n
	}
	go func() {
		defer close(o.done)
		for t := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-o.stop:
				t.Stop()
				return
			case <-t.C:
				o.mu.Lock()
				o.look()
				o.mu.Unlock()
			}
		}
	}()
	return o
}

func (o *observer) look() sample {
	metrics.Read(o.in)
	v := func(i int) float64 {
		if o.in[i].Value.Kind() == metrics.KindFloat64 {
			return o.in[i].Value.Float64()
		}
		return float64(o.in[i].Value.Uint64())
	}
	s := sample{time.Now(), o.w.requests.Load(), o.in[0].Value.Uint64(), v(1), v(2), v(3), v(4), v(5) - v(6), v(7), v(8)}
	o.peak = max(o.peak, s.mapped)
	if n := len(o.samples); n == 0 || o.samples[n-1].cycles != s.cycles {
		o.samples = append(o.samples, s)
	}
	return s
}

func (o *observer) mark() sample {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peak = 0
	return o.look()
}

func (o *observer) end() {
	close(o.stop)
	<-o.done
}

func (o *observer) result(name string, from, step sample) phaseResult {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.look()
	r := phaseResult{Phase: name, Peak: o.peak / mb, Rate: float64(now.requests-from.requests) / now.at.Sub(from.at).Seconds()}
	i := slices.IndexFunc(o.samples, func(s sample) bool { return s.cycles > from.cycles })
	first, last := from, now
	if i >= 0 {
		first, last = o.samples[i], o.samples[len(o.samples)-1]
	}
	if first.cycles == last.cycles { // one cycle or none: what there was, over all of the phase
		first, last = from, now
	}
	r.Cycles = int(last.cycles - first.cycles)
	r.LastGOGC = int(now.gogc)
	if n := float64(last.requests - first.requests); n > 0 {
		r.GC = (last.gc - first.gc) / n * 1e6
		r.Assist = (last.assist - first.assist) / n * 1e6
	}
	if used := last.total - first.total - (last.idle - first.idle); used > 0 {
		r.Share = (last.gc - first.gc) / used
	}
	r.Settle = settle(o.samples, step)
	return r
}

// settle returns for how many cycles, since a step of the live heap began, the settings changed: from the first that had
// others than at the step to the last that had others than the median of the second half; 20 % are no change.
func settle(all []sample, step sample) int {
	i := slices.IndexFunc(all, func(s sample) bool { return s.cycles > step.cycles })
	if i < 0 {
		return 0
	}
	all = all[i:]
	median := func(f func(sample) float64) float64 {
		var v []float64
		for _, s := range all[len(all)/2:] {
			v = append(v, f(s))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	end := sample{gogc: median(func(s sample) float64 { return s.gogc }), limit: median(func(s sample) float64 { return s.limit })}
	differ := func(a, b sample) bool {
		off := func(a, b float64) bool { return a > 1.2*b || a < b/1.2 }
		return off(a.gogc, b.gogc) || off(a.limit, b.limit)
	}
	first := slices.IndexFunc(all, func(s sample) bool { return differ(s, step) })
	if first < 0 {
		return 0
	}
	for i := len(all) - 1; i > first; i-- {
		if differ(all[i], end) {
			return int(all[i].cycles - all[first].cycles + 1)
		}
	}
	return 1
}
