package pace

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whylate/whylate/sdk/internal/delays"
	"github.com/whylate/whylate/sdk/quota"
)

const (
	// glance is how often holders of permits are looked at while others wait: those that wait for something
	// else lend theirs.
	glance = 10 * time.Millisecond
	// overdue is after how long without Pace a function on a thread of usual priority counts as waiting.
	overdue = 100 * time.Millisecond
	// survey is how often the control groups and GOMAXPROCS are looked at, which takes 0.3 ms.
	survey = time.Second
	// between is the time between two probes of the network.
	between = 10 * time.Millisecond
	// naps is how often a permit's holder parks where no P is left for others. Half of it is what data from
	// the network waits on average.
	naps = 500 * time.Microsecond
)

// steering is the controller's goroutine and what it knows. Fields below mu are told by State.
type steering struct {
	p        *Pacer
	trips    trips
	began    chan struct{} // closed when GOMAXPROCS is raised
	quota    quota.Report
	latency  *delays.Window
	stops    [2]*delays.Window
	probe    *probe
	bg       int64 // of Pacer.busy, at the last step
	cpu      int64 // of the process, at the last step
	stepped  int64
	surveyed int64
	fg       float64 // cores that the foreground uses, smoothed

	mu      sync.Mutex
	layout  layout
	control control
	seen    signals
	slowed  int64
}

func (s *steering) init(p *Pacer) {
	s.p = p
	s.began = make(chan struct{})
	s.fg = math.NaN()
}

// park lets others look at the network.
func (s *steering) park() { s.trips.wait() }

// run raises GOMAXPROCS, steers while functions are at work, and gives everything back.
func (s *steering) run() {
	p := s.p
	defer close(p.done)
	s.arrange(true)
	if p.options.Target > 0 {
		s.latency = delays.New("/sched/latencies:seconds")
		s.stops = [2]*delays.Window{delays.New("/sched/pauses/total/gc:seconds"), delays.New("/sched/pauses/total/other:seconds")}
	}
	close(s.began)
	timer := time.NewTimer(glance)
	defer timer.Stop()
	for {
		if s.p.atWork() == 0 {
			s.rest()
		}
		if p.permits.waiting.Load() > 0 {
			timer.Reset(glance)
		} else {
			timer.Reset(period)
		}
		select {
		case <-p.end:
			s.stopProbe()
			s.trips.close()
			processors.leave(p)
			s.mu.Lock()
			s.layout.raised = 0
			s.mu.Unlock()
			return
		case <-timer.C:
		}
		s.lend()
		if t := now(); t-s.stepped >= int64(period) {
			s.step(t)
		}
	}
}

// rest waits until there is somebody at work.
func (s *steering) rest() {
	s.stopProbe()
	select {
	case <-s.p.wake:
	case <-s.p.end:
		return
	}
	s.stepped = 0 // what was before says nothing
}

func (s *steering) stopProbe() {
	if s.probe != nil {
		s.probe.stop()
		s.probe = nil
	}
}

// arrange makes GOMAXPROCS and the permits fit what is allowed now.
func (s *steering) arrange(first bool) {
	p := s.p
	r, l := processors.arrange(p)
	s.quota = r
	s.mu.Lock()
	defer s.mu.Unlock()
	if first {
		s.control = newControl(p.options, l.permits)
		p.slice.Store(min(int64(s.control.slice), int64(contended)))
	}
	s.layout = l
	s.control.bound(l.permits)
	s.apply()
}

// apply tells the workers what was decided.
func (s *steering) apply() {
	p := s.p
	permits, rest := s.control.grant()
	p.longest.Store(int64(s.control.slice))
	p.slice.Store(min(p.slice.Load(), int64(s.control.slice)))
	p.rest.Store(rest)
	p.lowLate.Store(int64(s.control.target))
	nap := int64(0)
	if s.layout.parks {
		nap = int64(naps)
	}
	p.nap.Store(nap)
	p.permits.set(permits)
}

// step decides for the next period.
func (s *steering) step(t int64) {
	elapsed := t - s.stepped
	fresh := s.stepped == 0
	s.stepped = t
	var seen signals
	if t-s.surveyed >= int64(survey) {
		s.surveyed = t
		before := s.quota
		s.arrange(false)
		// One period may have been used up by what ended meanwhile.
		seen.throttled = s.quota.Since(before).Throttled >= 2
	}
	s.measure(&seen, elapsed, fresh)
	if fresh {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.control.step(seen) {
		s.slowed++
	}
	s.seen = seen
	s.apply()
}

// measure fills in the signals. The first time there is nothing to compare with.
func (s *steering) measure(seen *signals, elapsed int64, fresh bool) {
	p := s.p
	seen.room = s.room(elapsed, fresh)
	if p.options.Target == 0 {
		return
	}
	if s.probe == nil {
		s.probe = startProbe()
	}
	seen.wakeup = s.probe.second()
	s.latency.Read()
	for _, w := range s.stops {
		w.Read()
		seen.stop = max(seen.stop, w.Longest())
	}
	late, _ := s.latency.Longer(p.options.Target)
	seen.late = foreground(late, p.late.Swap(0))
}

// foreground is how many of the late goroutines are not those of the background, which wait at low priority and so are late often.
// The runtime looks at one in eight of all, and so at a number of ours that scatters as a Poisson
// distribution does: what exceeds it by three standard deviations is of others.
func foreground(late uint64, ours int64) int {
	mine := float64(ours) / 8
	return max(0, int(math.Floor(float64(late)-mine-3*math.Sqrt(mine))))
}

// room returns what the foreground leaves of the quota, +Inf without one.
func (s *steering) room(elapsed int64, fresh bool) float64 {
	// Without a quota, too: one may come.
	bg, cpu := s.p.busy.Load(), processCPU()
	used := float64((cpu-s.cpu)-(bg-s.bg)) / float64(max(elapsed, 1))
	s.bg, s.cpu = bg, cpu
	cores, group := s.quota.Cores()
	if group == "" || fresh {
		return math.Inf(1)
	}
	used = max(0, used)
	if math.IsNaN(s.fg) {
		s.fg = used
	}
	s.fg += 0.3 * (used - s.fg)
	return headroom*cores - max(s.fg, used)
}

// lend takes the permits of those that wait for something else, if others wait for a permit.
func (s *steering) lend() {
	p := s.p
	if p.permits.waiting.Load() == 0 {
		return
	}
	t, after := now(), max(int64(glance), 2*p.slice.Load())
	for _, w := range p.all() {
		age := t - w.seen.Load()
		if age < after || !p.permits.holds(w) {
			continue
		}
		if sleeps, known := w.thread.sleeps(); sleeps || !known && age >= int64(overdue) {
			if p.permits.lend(w) {
				p.lent.Add(1)
			}
		}
	}
}

// tell fills in what State tells of the steering.
func (s *steering) tell(to *State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.control.allowance > 0 {
		to.Permits, _ = s.control.grant()
	}
	to.Allowance = s.control.allowance
	to.Raised = s.layout.raised
	to.Wakeup, to.Stop = s.seen.wakeup, s.seen.stop
	to.Slowed = s.slowed
}

// probe measures again and again how long a wake-up by the network takes.
type probe struct {
	began atomic.Int64 // the one that goes on, 0: none does
	mu    sync.Mutex
	took  []int64
	end   chan struct{}
	done  chan struct{}
}

// startProbe starts the probe; without pipes it sees nothing.
func startProbe() *probe {
	pr := &probe{end: make(chan struct{}), done: make(chan struct{})}
	go pr.run()
	return pr
}

func (pr *probe) run() {
	defer close(pr.done)
	t, err := newTrip()
	if err != nil {
		return
	}
	defer t.close()
	tick := time.NewTicker(between)
	defer tick.Stop()
	for {
		select {
		case <-pr.end:
			return
		case <-tick.C:
		}
		start := now()
		pr.began.Store(start)
		if t.wait() != nil {
			return
		}
		pr.began.Store(0)
		pr.mu.Lock()
		if len(pr.took) < 1000 {
			pr.took = append(pr.took, now()-start)
		}
		pr.mu.Unlock()
	}
}

// second returns the second longest since it was last asked: one may be the host's. What still goes on counts twice if it is
// the longest, as its end may be far.
func (pr *probe) second() time.Duration {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	var first, second int64
	for _, n := range pr.took {
		if n > first {
			first, second = n, first
		} else if n > second {
			second = n
		}
	}
	pr.took = pr.took[:0]
	if began := pr.began.Load(); began > 0 {
		if age := now() - began; age > first {
			return time.Duration(age)
		}
	}
	return time.Duration(second)
}

func (pr *probe) stop() {
	close(pr.end)
	<-pr.done
}
