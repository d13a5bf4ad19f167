package main

import (
	"cmp"
	"context"
	"math"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/whylate/whylate/blame"
)

// cpuTimes are ticks of all CPUs since the machine was started.
type cpuTimes struct{ all, stolen float64 }

// cpus reads them from /proc/stat; where there is none, nothing was stolen.
func cpus() cpuTimes {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTimes{}
	}
	return parseCPUs(string(b))
}

// parseCPUs reads the line of all CPUs: user, nice, system, idle, iowait, irq, softirq
// and steal, the first eight numbers (proc(5)); what guests use is in user.
func parseCPUs(stat string) (c cpuTimes) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return cpuTimes{}
	}
	for i, s := range f[1:9] {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return cpuTimes{}
		}
		c.all += n
		if i == 7 {
			c.stolen = n
		}
	}
	return c
}

// stolenSince is the part of the CPUs' time that a hypervisor took since before.
func (c cpuTimes) stolenSince(before cpuTimes) float64 {
	if c.all <= before.all {
		return 0
	}
	return (c.stolen - before.stolen) / (c.all - before.all)
}

const (
	// patience is how long a repeat waits for a calm machine at most, trialTime how long
	// each look at it takes, and pause how long it leaves it alone between two.
	patience, trialTime, pause = time.Minute, 500 * time.Millisecond, 3 * time.Second
	// leastCalm is how much of trialTime the hypervisor and others may take: one tick.
	leastCalm = tick
)

// awaitCalm waits until nobody else computes and the hypervisor takes hardly anything from
// a thread that does: from CPUs that nobody wants it takes nothing.
func awaitCalm(ctx context.Context) {
	for begun := time.Now(); time.Since(begun) < patience; {
		before, were := cpus(), strangers()
		for look := time.Now(); time.Since(look) < trialTime; {
			continue
		}
		if time.Duration((cpus().stolen-before.stolen)*float64(tick))+since(strangers(), were) <= leastCalm {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// mostDisturbed is the part of what makes the tail late that may be something that
// was not planted, for the tail to be what was.
const mostDisturbed = 0.1

// A witness sees what the slowest requests owe to something that was not planted: to
// clients that sent them late, and to a hypervisor that took CPUs meanwhile.
type witness struct {
	answers  []answer
	looks    []look
	end      chan struct{}
	finished sync.WaitGroup
}

// An answer is a request that is over; a look is how much was stolen until then, all
// CPUs together.
type (
	answer struct {
		intended     time.Time
		lag, latency time.Duration
	}
	look struct {
		at     time.Time
		stolen time.Duration
	}
)

const (
	// tick is the unit of /proc/stat: USER_HZ is 100 on every architecture that Go
	// supports (proc(5)).
	tick = 10 * time.Millisecond
	// A theft is noticed by the next tick of the CPU that is back.
	notice = tick
)

// newWitness begins to look.
func newWitness() *witness {
	w := &witness{end: make(chan struct{})}
	w.look()
	w.finished.Go(func() {
		every := time.NewTicker(tick)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				w.look()
			case <-w.end:
				return
			}
		}
	})
	return w
}

func (w *witness) look() {
	w.looks = append(w.looks, look{time.Now(), time.Duration(cpus().stolen * float64(tick))})
}

// done notes a request; it is a load.Config's Done, which is called once at a time.
func (w *witness) done(intended time.Time, lag, latency time.Duration) {
	w.answers = append(w.answers, answer{intended, lag, latency})
}

// stop ends the looking; it is called once.
func (w *witness) stop() {
	close(w.end)
	w.finished.Wait()
}

// latencies are what the clients of one run saw, in ns.
type latencies struct {
	p99, tail, typical float64
	// late and stolen are the parts of what the slowest requests are later than a
	// typical one that are no more than their clients' lateness, and time that a
	// hypervisor took: what all CPUs together lost during them beyond what they lose
	// at any time.
	late, stolen float64
}

// tailPart is the slowest part of the requests that make a tail, as in a diagnosis
// of many requests.
const tailPart = 0.015

// since returns what the clients saw of the requests that were intended at an instant
// or later. It is called after stop.
func (w *witness) since(begin time.Time) (l latencies) {
	answers := slices.DeleteFunc(slices.Clone(w.answers), func(a answer) bool { return a.intended.Before(begin) })
	slices.SortFunc(answers, func(a, b answer) int { return cmp.Compare(a.latency, b.latency) })
	n := float64(len(answers))
	if n == 0 {
		return l
	}
	mean := func(answers []answer) float64 {
		sum := 0.0
		for _, a := range answers {
			sum += float64(a.latency)
		}
		return sum / float64(max(1, len(answers)))
	}
	tail := answers[int((1-tailPart)*n):]
	l.p99 = float64(answers[int(math.Ceil(0.99*n))-1].latency)
	l.tail, l.typical = mean(tail), mean(answers[int(blame.TypicalLow*n):int(blame.TypicalHigh*n)])
	var within, all, lag, excess float64
	for _, a := range tail {
		// Who comes while others who were held up are served is late for that, too.
		begin, end := a.intended.Add(-a.latency), a.intended.Add(a.latency+notice)
		all += float64(end.Sub(begin))
		within += float64(w.stolenUntil(end) - w.stolenUntil(begin))
		lag += float64(a.lag)
		excess += float64(a.latency) - l.typical
	}
	if excess <= 0 {
		return l
	}
	first, last := w.looks[0], w.looks[len(w.looks)-1]
	elsewhere := float64(last.stolen-first.stolen) / max(1, float64(last.at.Sub(first.at)))
	l.late, l.stolen = lag/excess, max(0, within-elsewhere*all)/excess
	return l
}

// stolenUntil is what had been stolen at an instant, as if evenly between two looks.
func (w *witness) stolenUntil(at time.Time) time.Duration {
	i := sort.Search(len(w.looks), func(i int) bool { return w.looks[i].at.After(at) })
	switch {
	case i == 0:
		return w.looks[0].stolen
	case i == len(w.looks):
		return w.looks[i-1].stolen
	}
	a, b := w.looks[i-1], w.looks[i]
	return a.stolen + time.Duration(float64(b.stolen-a.stolen)*float64(at.Sub(a.at))/float64(b.at.Sub(a.at)))
}
