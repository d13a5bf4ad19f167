package breaker

import (
	"math"
	"slices"
	"time"
)

// probe is a call that a half-open breaker lets through.
type probe struct {
	number  int // of the permit; 0: there is none, or it has ended
	expires int64
}

// allowProbe is the part of AllowAt for breakers that are not closed.
func (b *Breaker) allowProbe(start time.Duration) (Permit, error) {
	if b.State() == Open && int64(start) < b.until.Load() {
		b.rejected.Add(1)
		return Permit{}, ErrOpen
	}
	b.mu.Lock()
	defer b.unlock()
	now := int64(b.since())
	if b.State() == Open && now >= b.until.Load() {
		b.good, b.bad, b.given = 0, 0, 0
		clear(b.probes)
		b.to(HalfOpen, None)
	}
	if b.State() == HalfOpen {
		b.expire(now)
	}
	switch phase := b.phase.Load(); {
	case State(phase&3) == Closed: // somebody closed it meanwhile
		return Permit{b, start, call(phase)}, nil
	case State(phase&3) == HalfOpen && b.given < len(b.probes):
		b.given++
		b.number = b.number%math.MaxInt32 + 1
		i := slices.IndexFunc(b.probes, func(p probe) bool { return p.number == 0 })
		b.probes[i] = probe{b.number, now + int64(b.probeFor())}
		return Permit{b, start, newCall(phase, b.number)}, nil
	}
	b.rejected.Add(1)
	return Permit{}, ErrOpen
}

// probeFor is how long a probe may take.
func (b *Breaker) probeFor() time.Duration {
	if b.options.ProbeFor > 0 {
		return b.options.ProbeFor
	}
	return max(10*time.Duration(edge(b.probeSlow())), time.Second)
}

// probeSlow is the bucket from which on a probe counts as slow.
func (b *Breaker) probeSlow() int {
	slow := failed
	if b.judge.limit.from > 0 {
		slow = b.judge.limit.from
	}
	if b.reason == Median && b.judge.median.from > 0 {
		return min(slow, b.judge.median.from)
	}
	if b.judge.tail.from > 0 {
		slow = min(slow, b.judge.tail.from)
	}
	return slow
}

// expire counts probes that did not end in their time as slow: their permit may be lost.
func (b *Breaker) expire(now int64) {
	for i := range b.probes {
		if p := &b.probes[i]; p.number != 0 && now >= p.expires && b.State() == HalfOpen {
			p.number = 0
			b.lost++
			b.verdict(now, true)
		}
	}
}

// doneProbe is the end of a probe. One that its caller gave up, or whose error does not count, says
// nothing unless it was slow: its permit is free again.
func (b *Breaker) doneProbe(p Permit, bucket int, err error) {
	b.mu.Lock()
	defer b.unlock()
	number := p.call.slot()
	i := slices.IndexFunc(b.probes, func(o probe) bool { return o.number == number })
	if number == 0 || i < 0 || b.phase.Load() != p.call.phase() {
		return
	}
	b.probes[i].number = 0
	if slow := bucket >= b.probeSlow(); slow || err == nil {
		b.verdict(int64(b.since()), slow)
	} else {
		b.given--
	}
}

// verdict counts a probe that has ended, and decides when it can.
func (b *Breaker) verdict(now int64, slow bool) {
	if slow {
		b.bad++
	} else {
		b.good++
	}
	most := 0 // of the probes that may be slow
	if b.reason == Median {
		most = len(b.probes) / 2
	}
	switch {
	case b.bad > most:
		if b.options.Forget > 0 && now-b.ill >= int64(b.options.Forget) {
			b.relearn()
			return
		}
		b.open(now, Probe)
	case b.good >= len(b.probes)-most:
		b.close()
	}
}
