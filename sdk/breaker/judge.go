package breaker

import (
	"math"
	"time"
)

// The judge decides from windows of counted calls whether the callee has become slow. It knows
// no clock and no goroutines; Breaker gives it a window about every interval.
//
// Four tests run side by side, each a cumulative sum (CUSUM, Page 1954) over yes-or-no questions.
// A call for which the answer is yes adds log(p1/p0), another one log((1-p1)/(1-p0)), and
// the sum does not fall below 0. With p0 the part of yes in healthy times and p1 that of the smallest
// fault to be found, no test of the same rate of false alarms finds it sooner (Moustakides
// 1986); in calls it is at least e^h between two false alarms of the height h (Lorden 1971).
// It is O(1), and nothing has to be sorted.
//
//   - tail: was it slower than factor times the learnt p99? p0 is learnt, p1 is four times that.
//   - shoulder: the same of the p95. Where one call in a hundred is of another kind, and twenty times
//     as slow, luck decides whether the p99 is of the one kind or of the other, and with that
//     of the other, slow calls of the one are no news. Not both are at such a cliff.
//   - median: was it slower than factor times the learnt median? A callee of whose calls 1 % have
//     always been twenty times as slow may become slow altogether without any of its calls
//     passing the limit of the tail.
//   - limit: was it slower than the absolute limit? It needs nothing learnt, so it also
//     finds a callee that was slow when the program started.
//
// What is learnt is frozen while any of the sums is above 0: the windows since then join
// the baseline when all of them are 0 again, or are forgotten when the breaker opens. So
// a fault does not become the norm while it is being found.
type judge struct {
	factor float64
	learn  float64 // calls before the baseline judges

	base    history
	pending history
	waiting time.Duration // what pending spans
	rate    float64       // calls per second, of the baseline
	fresh   int           // merges since the thresholds were derived

	tail, shoulder, median, limit test
	age                           int64 // ns: a call in flight that is older counts as slow; 0: not known
}

// test is one cumulative sum.
type test struct {
	from     int     // the first bucket of a yes; 0: this test does not run
	p0, p1   float64 // the part of yes when healthy, and in the smallest fault
	up, down float64
	sum      float64
}

const (
	// interval is the time of a window. Nothing is found sooner.
	interval = 100 * time.Millisecond
	// longest is the most time that a window makes the baseline older by. Where calls are further apart
	// than that, it is their number that makes it old: a night without calls is no reason to forget.
	longest = 10 * interval
	// halfLife is how long it takes until calls weigh half in the baseline.
	halfLife = 10 * time.Minute
	// falseEvery is the mean time between two false alarms that the height of the sums is chosen
	// for, by the bound above: two hours for the four tests together, whatever the rate of calls is.
	falseEvery = 2 * time.Hour
	tests      = 4
	// leastHeight is what a sum needs in any case: about seven slow calls in a row.
	leastHeight = 12
	// leastTail is the least part of slow calls that is taken for healthy, and
	// leastFault the least that is to be found.
	leastTail, leastFault = 0.002, 0.02
	// The part of calls beyond the limit of the median when healthy is at most a quarter; the sum
	// grows when it is more than 0.45.
	mostMedian, medianHealthy, medianFault = 0.25, 0.35, 0.56
	// Of the absolute limit.
	limitHealthy, limitFault = 0.02, 0.2
	// A call in flight counts as slow when it is older than ages times the p99 of the baseline, and
	// twice its p99.9: hardly any healthy call is.
	ages = 5
)

func newJudge(factor float64, learn int, limit time.Duration) *judge {
	j := &judge{factor: factor, learn: float64(learn)}
	if limit > 0 {
		j.limit.set(bucket(int64(limit)), limitHealthy, limitFault)
	}
	return j
}

func (t *test) set(from int, p0, p1 float64) {
	t.from, t.p0, t.p1 = from, p0, p1
	t.up, t.down = math.Log(p1/p0), math.Log((1-p1)/(1-p0))
}

// next returns the sum after n calls of which slow were a yes.
func (t *test) next(n, slow int) float64 {
	if t.from == 0 || n == 0 {
		return t.sum
	}
	slow = min(slow, n)
	return max(0, t.sum+float64(slow)*t.up+float64(n-slow)*t.down)
}

// learnt reports whether the baseline judges.
func (j *judge) learnt() bool { return j.tail.from > 0 }

// height is the sum at which a test is decided.
func (j *judge) height() float64 {
	return max(leastHeight, math.Log(tests*max(j.rate, 1)*falseEvery.Seconds()))
}

// observe is given what was seen within some time. ours is the part of calls that this program itself
// may have made late. It returns the reason to open, or None, and whether judgement was held because of ours.
func (j *judge) observe(w *window, took time.Duration, ours func(longer int64) float64) (why Reason, held bool) {
	suspect := false
	for _, x := range [tests]struct {
		*test
		reason Reason
	}{{&j.tail, Tail}, {&j.shoulder, Tail}, {&j.median, Median}, {&j.limit, Limit}} {
		t := x.test
		if t.from == 0 {
			continue
		}
		old := w.aged
		switch t {
		case &j.median:
			old = 0 // those that are too old for the tail are some calls of it only
		case &j.limit:
			old = w.overdue
		}
		n, slow := w.n+w.errors+old, w.from(t.from)+old
		next := t.next(n, slow)
		if next > t.sum && ours != nil {
			if part := ours(edge(t.from) - j.base.quantile(0.5)); part > (float64(slow)/float64(n)-t.p0)/2 {
				held, suspect = true, true
				continue
			}
		}
		t.sum = next
		suspect = suspect || t.sum > 0
		if t.sum >= j.height() && why == None {
			why = x.reason
		}
	}
	if why == Tail && j.median.sum > j.height()/4 {
		why = Median // it is not only some calls: of all slow calls the slowest are seen first
	}
	if why != None || held {
		return why, held // a time in which Go did not run us is no example
	}
	j.pending.add(w)
	j.waiting += min(took, longest)
	if !suspect {
		j.accept()
	}
	return None, false
}

// accept makes the pending calls a part of the baseline.
func (j *judge) accept() {
	if j.pending.n == 0 {
		j.drop() // an idle time is no rate, and makes nothing old
		return
	}
	seconds := j.waiting.Seconds()
	keep := math.Exp2(-seconds / halfLife.Seconds())
	now := j.pending.n / max(seconds, 1e-3)
	if j.rate == 0 {
		j.rate = now
	}
	j.rate += (now - j.rate) * (1 - math.Exp2(-seconds/60))
	j.base.merge(&j.pending, keep)
	j.drop()
	if j.fresh++; j.base.n >= j.learn && (j.fresh >= 10 || !j.learnt()) {
		j.derive()
	}
}

// drop forgets the pending calls.
func (j *judge) drop() { j.pending, j.waiting = history{}, 0 }

// derive sets the thresholds of the baseline.
func (j *judge) derive() {
	j.fresh = 0
	p99 := float64(j.base.quantile(0.99))
	j.setTail(&j.tail, p99)
	j.setTail(&j.shoulder, float64(j.base.quantile(0.95)))
	half := bucket(int64(j.factor*float64(j.base.quantile(0.5)))) + 1
	for half < failed && j.base.above(half) > mostMedian {
		half++
	}
	j.median.set(min(half, failed), medianHealthy, medianFault)
	j.age = max(int64(ages*p99), 2*j.base.quantile(0.999), int64(interval)/10)
}

// setTail makes what is slower than a quantile of the baseline the question of a test.
func (j *judge) setTail(t *test, quantile float64) {
	slow := min(bucket(int64(j.factor*quantile))+1, failed)
	p0 := j.sure(j.base.above(slow), leastTail)
	t.set(slow, p0, min(max(4*p0, leastFault), (1+p0)/2))
}

// sure returns what a part of the baseline surely does not exceed (three standard deviations of
// its count; 5 where none was seen, for of a mean of 5 none is seen in one of 150 cases): early
// on it stands on a few calls, and one that is taken for half of what it is makes luck a fault.
func (j *judge) sure(part, least float64) float64 {
	k := part * j.base.n
	return min(max((k+3*math.Sqrt(k+1)+2)/j.base.n, least), 0.5)
}

// reset forgets the sums, and all calls since they were 0.
func (j *judge) reset() {
	j.tail.sum, j.shoulder.sum, j.median.sum, j.limit.sum = 0, 0, 0, 0
	j.drop()
}

// forget begins to learn anew.
func (j *judge) forget() {
	*j = judge{factor: j.factor, learn: j.learn, limit: j.limit}
	j.reset()
}

// suspicion is the highest sum as a part of what is needed to open.
func (j *judge) suspicion() float64 {
	return max(j.tail.sum, j.shoulder.sum, j.median.sum, j.limit.sum) / j.height()
}
