package cause_test

import (
	"math"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
)

// What a peer takes may vary by itself: that the slowest hundredth takes longer is no incident then, and is one where some
// calls are of another kind, come together, or vary by more than anybody does not mind.
func TestWhatVariesByItselfIsNoCause(t *testing.T) {
	vary := func(i int, by int64) int64 { // exponentially
		u := (float64(i*37%100) + 0.5) / 100
		return 3*ms - int64(float64(by)*math.Log(1-u))
	}
	for _, c := range []struct {
		name    string
		takes   func(i int) int64 // below 0: so long, of which two thirds are not known
		slo     int64
		healthy bool
	}{
		{"it varies", func(i int) int64 { return vary(i, 18*ms/10) }, 0, true},
		{"it varies, and hardly takes any time by itself", func(i int) int64 { return vary(i, 18*ms/10) - 29*ms/10 }, 0, true},
		{"it varies by much", func(i int) int64 { return vary(i, 40*ms/10) }, 0, false},
		{"it is long and varies", func(i int) int64 { return 3*ms + vary(i, 48*ms/10) }, 0, true},
		{"every request is slow, and it varies", func(i int) int64 { return 6*ms + vary(i, 48*ms/10) }, 0, false},
		{"it is very long and varies", func(i int) int64 { return 15*ms + vary(i, 25*ms) }, 0, false},
		{"it varies, and there is an objective", func(i int) int64 { return vary(i, 18*ms/10) }, 8 * ms, false},
		{"one of twenty is of another kind", func(i int) int64 {
			if i%20 == 9 {
				return 12 * ms
			}
			return vary(i, ms/2)
		}, 0, false},
		{"one of seven is of another kind", func(i int) int64 {
			if i%7 == 3 {
				return 10*ms + vary(i, ms/5)
			}
			return vary(i, ms/5)
		}, 0, false},
		{"one of seven is of another kind, which varies", func(i int) int64 {
			if i%7 == 3 {
				return 3*ms + vary(i*3/7, 2*ms)
			}
			return vary(i, ms/5)
		}, 0, false},
		{"one of three is of another kind", func(i int) int64 {
			if i%3 == 1 {
				return 6*ms + vary(i, ms)
			}
			return vary(i, ms/2)
		}, 0, false},
		{"it varies more for a time", func(i int) int64 {
			if i < 200 {
				return vary(i, 2*ms)
			}
			return vary(i, 8*ms/10)
		}, 0, false},
		{"it varies, and most of it is not known", func(i int) int64 { return -vary(i, 18*ms/10) }, 0, false},
	} {
		v := cause.Judge(attributed(t, scene{procs: 2, requests: 400, in: func(p *play, i int) {
			d := c.takes(i)
			if d < 0 {
				p.waits(serving, "")
				p.pass(-2 * d / 3)
				p.wakes(0, serving)
				p.runs(serving, 0)
				d /= -3
			}
			peerWaits(p, d, reply...)
		}}), cause.Settings{SLO: c.slo})
		if (v.Verdict == "healthy") != c.healthy || !c.healthy && v.Verdict != "inconclusive" && v.Findings[0].Cause != "slow-dependency" || c.healthy && !strings.Contains(v.Sentence, "how much they vary: there is no step") {
			t.Errorf("%s: %s: %s", c.name, v.Verdict, v.Sentence)
		}
	}
}

// Some requests make a call and others do not, without an endpoint that says so: they are no tail if they are a good part of all, and
// take no longer than others of them.
func TestWhoAsksForSomethingElseIsNoTail(t *testing.T) {
	for _, c := range []struct {
		name    string
		part    int // of a hundred, that make a call
		takes   func(i int) int64
		slo     int64
		healthy bool
	}{
		{"three of ten make a call", 30, nil, 0, true},
		{"a good half", 52, nil, 0, true},
		{"there is an objective", 52, nil, 5 * ms, false},
		{"one of seven", 14, nil, 0, false},
		{"one of seven, of a few milliseconds", 14, func(i int) int64 {
			if i*37%100 < 14 {
				return 4*ms + int64(i%10)*ms/20
			}
			return 0
		}, 0, true},
		{"one of twenty-five, of a few milliseconds", 4, func(i int) int64 {
			if i*37%100 < 4 {
				return 4*ms + int64(i%10)*ms/20
			}
			return 0
		}, 0, false},
		{"one of sixteen, who are most of the slow ones there are", 6, func(i int) int64 {
			if i*37%100 < 6 {
				return 5*ms - 3*ms/10
			}
			return 0
		}, 0, false},
		{"one of seven, of which some take several times as long", 14, func(i int) int64 {
			switch {
			case i*37%100 < 4:
				return 5*ms - ms/2
			case i*37%100 < 14:
				return ms + ms/10
			}
			return 0
		}, 0, false},
		{"a good half, and some of these take longer", 52, func(i int) int64 {
			if i%20 == 9 {
				return 16 * ms
			}
			return 0
		}, 0, false},
		{"a good half, of which half takes longer", 60, func(i int) int64 {
			if i*37%100 < 30 {
				return 24 * ms
			}
			return 0
		}, 0, false},
		{"a good half, for long", 52, func(i int) int64 { return map[bool]int64{true: 1000 * ms}[i*37%100 < 52] }, 0, false},
		{"a good half, for a time", 52, func(i int) int64 {
			if i*37%100 < 52 && i >= 200 {
				return ms / 10
			}
			return 0
		}, 0, false},
	} {
		requests := 400
		if c.part == 6 {
			requests = 200
		}
		v := cause.Judge(attributed(t, scene{procs: 2, requests: requests, in: func(p *play, i int) {
			d := int64(ms / 10)
			if i*37%100 < c.part {
				d = 8*ms + int64(i%10)*3*ms/10
			}
			if c.takes != nil {
				if x := c.takes(i); x > 0 {
					d = x
				}
			}
			if d >= ms {
				peerWaits(p, d, reply...)
			} else {
				peerWaits(p, d, "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.look", "main.call", "main.serve")
			}
		}}), cause.Settings{SLO: c.slo})
		if (v.Verdict == "healthy") != c.healthy || c.healthy && !strings.Contains(v.Sentence, "those that make a call") {
			t.Errorf("%s: %s: %s", c.name, v.Verdict, v.Sentence)
		}
	}
}

// Smooth tails vary by themselves as far as what is exponentially distributed does, and not if they are longer.
func TestSmoothTailsAreLongerThanExponentialOnesForAReason(t *testing.T) {
	for _, c := range []struct {
		shape   float64 // of Weibull's distribution, whose quantiles are powers of the exponential one's
		healthy bool
	}{{1, true}, {0.8, false}} {
		v := cause.Judge(attributed(t, scene{procs: 2, requests: 400, period: 30 * ms, plain: true, in: func(p *play, i int) {
			p.do(p.b.Task(serving, "request"))
			u := (float64(i*37%100) + 0.5) / 100
			peerWaits(p, ms/10+int64(math.Pow(-math.Log(1-u), 1/c.shape)*float64(ms)), reply...)
			p.do(p.b.Done(serving))
			p.leaves(serving, 0, "network", home...)
		}}), cause.Settings{})
		if (v.Verdict == "healthy") != c.healthy {
			t.Errorf("shape %v: %s: %s", c.shape, v.Verdict, v.Sentence)
		}
	}
}

// Nobody says of every request what only those around the median take on average.
func TestAFastMedianIsNoLevel(t *testing.T) {
	v := cause.Judge(attributed(t, scene{procs: 2, requests: 400, in: func(p *play, i int) {
		if i%25*7%25 > 12 {
			peerWaits(p, 200*ms, reply...)
		}
	}}), cause.Settings{})
	if v.Level != nil || v.Role.Typical().Mean < cause.LevelWait || v.Role.Quantile(0.5) >= cause.LevelWait {
		t.Errorf("%+v: %s", v.Level, v.Sentence)
	}
}

// Most of the tail may be one cause in this recording, by one of its moments: it is not named, and what would decide is said.
func TestWhatIsUncertainAndMostOfItIsNotLeftOut(t *testing.T) {
	held := func(ns int64) func(p *play) {
		return behindHelper("sync", mutex, unlock, naps(ns, "main.refresh", "main.loop"))
	}
	v := cause.Judge(attributed(t, scene{procs: 2, requests: 1000, cast: waitingHelper, in: func(p *play, i int) {
		switch {
		case i >= 500 && i <= 510:
			held(40 * ms)(p)
		case i%150 == 100:
			held(22 * ms)(p)
		case i%60 == 7:
			peerWaits(p, 20*ms, reply...)
		}
	}}), cause.Settings{})
	if v.Verdict != "inconclusive" || len(v.Findings) > 0 || len(v.Consistent) == 0 || v.Consistent[0].Causes[0] != "lock-held-across-wait" || !strings.Contains(v.Sentence, "record longer") {
		t.Errorf("%s: %s: %+v, %+v, %+v", v.Verdict, v.Sentence, v.Findings, v.Consistent, v.RuledOut)
	}
}
