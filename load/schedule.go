package load

import (
	"math"
	"math/rand/v2"
	"time"
)

// arrival is one intended request.
type arrival struct {
	at       time.Duration // since the start of the run
	endpoint int
}

// schedule yields the arrivals of a run in the order of their times. It depends
// on the Config alone, never on how fast the server answers.
type schedule struct {
	rng     *rand.Rand
	gap     float64 // mean ns between steady arrivals, +Inf without a rate
	uniform bool
	bursts  Bursts
	end     time.Duration
	cum     []float64 // cumulative weights

	steady time.Duration // next steady arrival
	burst  time.Duration // next burst
	left   int           // arrivals left in the current burst
}

// never lies beyond the end of every run.
const never = time.Duration(math.MaxInt64)

func newSchedule(c Config, eps []endpoint) *schedule {
	s := &schedule{
		rng:     rand.New(rand.NewPCG(c.Seed, 0x77686c6174650000)),
		gap:     float64(time.Second) / c.Rate,
		uniform: c.Arrivals == Uniform,
		bursts:  c.Bursts,
		end:     c.Duration,
		burst:   never,
	}
	sum := 0.0
	for _, ep := range eps {
		sum += ep.weight
		s.cum = append(s.cum, sum)
	}
	if !s.uniform {
		s.steady = s.after(0, s.gap)
	}
	if c.Rate == 0 {
		s.steady = never
	}
	if c.Bursts.Size > 0 {
		s.nextBurst(0)
	}
	return s
}

// next returns the next arrival; ok is false at the end of the run.
func (s *schedule) next() (a arrival, ok bool) {
	at := s.steady
	if s.burst <= s.steady {
		at = s.burst
		if s.left--; s.left == 0 {
			s.nextBurst(s.burst)
		}
	} else {
		s.nextSteady()
	}
	if at >= s.end {
		return arrival{}, false
	}
	return arrival{at: at, endpoint: s.pick()}, true
}

func (s *schedule) nextSteady() {
	if s.uniform {
		s.steady += time.Duration(s.gap)
		return
	}
	s.steady = s.after(s.steady, s.gap)
}

func (s *schedule) nextBurst(from time.Duration) {
	s.burst = s.after(from, float64(s.bursts.Mean))
	s.left = s.bursts.Size
}

func (s *schedule) after(from time.Duration, mean float64) time.Duration {
	gap := s.rng.ExpFloat64() * mean
	if gap > float64(never-from) {
		return never
	}
	return from + time.Duration(gap)
}

func (s *schedule) pick() int {
	if len(s.cum) == 1 {
		return 0
	}
	x := s.rng.Float64() * s.cum[len(s.cum)-1]
	for i, c := range s.cum {
		if x < c {
			return i
		}
	}
	return len(s.cum) - 1
}
