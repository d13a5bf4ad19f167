package breaker

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// scene is a breaker in virtual time.
type scene struct {
	*testing.T
	*Breaker
	at      time.Duration
	changes []Change
	r       *rand.Rand
}

func stage(t *testing.T, o Options) *scene {
	t.Helper()
	s := &scene{T: t, r: rand.New(rand.NewPCG(1, 2))}
	o.OnChange = func(c Change) { s.changes = append(s.changes, c) }
	o.BlameScheduler = true // the machine that tests run on is nobody's callee
	start := time.Now()
	o.Now = func() time.Time { return start.Add(s.at) }
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Breaker = b
	return s
}

// now is the virtual time.
func (s *scene) now() time.Time { return s.epoch.Add(s.at) }

// call makes a call that takes some time, in virtual time, and returns whether it was let through.
func (s *scene) call(took time.Duration, err error) bool {
	p, no := s.AllowAt(s.now())
	if no != nil {
		return false
	}
	s.at += took
	p.DoneIn(took, err)
	return true
}

// calls makes 1,000 calls a second, whose times draw gives in milliseconds, until the state is
// another one or the time is over, and returns how long that took.
func (s *scene) calls(draw func(*rand.Rand) float64, for_ time.Duration) time.Duration {
	from, state := s.at, s.State()
	for s.at-from < for_ && s.State() == state {
		if p, err := s.AllowAt(s.now()); err == nil {
			p.DoneIn(time.Duration(draw(s.r)*1e6), nil)
		}
		s.at += time.Millisecond
	}
	return s.at - from
}

func slower(draw func(*rand.Rand) float64, part, times float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		x := draw(r)
		if r.Float64() < part {
			x *= times
		}
		return x
	}
}

func (s *scene) want(state State) {
	s.Helper()
	if s.State() != state {
		s.Fatalf("at %v it is %v, want %v; %+v", s.at, s.State(), state, s.changes)
	}
}

func TestABreakerOpensWhenTheTailGrowsAndClosesWhenItIsGone(t *testing.T) {
	t.Parallel()
	for _, d := range distributions {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := stage(t, Options{})
			s.calls(d.draw, 10*time.Minute)
			s.want(Closed)
			if took := s.calls(slower(d.draw, 0.05, 20), 10*time.Second); took > 2*time.Second {
				t.Errorf("it opened after %v", took)
			}
			s.want(Open)
			if c := s.changes[0]; c.Reason != Tail || c.Slow <= c.P99 || c.P99 <= c.P50 || c.P50 <= 0 {
				t.Errorf("%+v", c)
			}
			if s.call(time.Millisecond, nil) {
				t.Error("an open breaker let a call through")
			}
			s.at += 2 * time.Second
			for i := 0; i < 5; i++ {
				if !s.call(time.Millisecond, nil) {
					t.Errorf("probe %d was not let through", i)
				}
			}
			s.want(Closed)
			s.calls(d.draw, 10*time.Minute)
			s.want(Closed)
		})
	}
}

func TestAnOpenBreakerThatFindsTheCalleeSlowWaitsLonger(t *testing.T) {
	s := stage(t, Options{})
	s.calls(lognormal, time.Minute)
	s.calls(slower(lognormal, 0.2, 10), time.Minute)
	s.want(Open)
	s.at -= time.Millisecond // it opened by the last call, before the time went on
	for wait := 2 * time.Second; wait < 40*time.Second; wait *= 2 {
		if want := s.at + min(wait, 32*time.Second); want != time.Duration(s.until.Load()) {
			t.Fatalf("it waits until %v, want %v", time.Duration(s.until.Load()), want)
		}
		s.at = time.Duration(s.until.Load()) - time.Millisecond
		if s.call(time.Second, nil) {
			t.Fatalf("it let a call through before %v", wait)
		}
		s.at += time.Millisecond
		if !s.call(time.Second, nil) {
			t.Fatalf("it let no call through after %v", wait)
		}
		s.want(Open)
	}
}

func TestWhoHasAlwaysBeenSlowIsFoundByTheLimit(t *testing.T) {
	slow := slower(lognormal, 1, 100)
	s := stage(t, Options{})
	s.calls(slow, time.Minute)
	s.want(Closed) // it knows no better
	s = stage(t, Options{Limit: 50 * time.Millisecond})
	s.calls(slow, time.Minute)
	s.want(Open)
	if s.changes[0].Reason != Limit {
		t.Errorf("%+v", s.changes)
	}
}

func TestACalleeThatIsSlowerAltogetherIsFoundByTheMedian(t *testing.T) {
	d := distributions[2]
	s := stage(t, Options{})
	s.calls(d.draw, 10*time.Minute)
	if took := s.calls(slower(d.draw, 1, 2), 10*time.Second); took > time.Second {
		t.Errorf("it opened after %v", took)
	}
	s.want(Open)
	if s.changes[0].Reason != Median {
		t.Errorf("%+v", s.changes)
	}
	// Twice as slow is no slow probe by the tail; most of them have to be as usual.
	s.at += 2 * time.Second
	for i := 0; i < 5; i++ {
		s.call(2*time.Millisecond, nil)
	}
	s.want(Open)
}

func TestACalleeThatIsSlowerForGoodIsUsedAgain(t *testing.T) {
	s := stage(t, Options{Forget: 5 * time.Minute})
	s.calls(lognormal, time.Minute)
	slow := slower(lognormal, 1, 10)
	relearnt := func() bool {
		for _, c := range s.changes {
			if c.Relearns {
				return true
			}
		}
		return false
	}
	for s.at < 20*time.Minute && !relearnt() {
		s.calls(slow, time.Second)
	}
	if !relearnt() || s.at < 5*time.Minute {
		t.Fatalf("at %v: %+v", s.at, s.changes)
	}
	s.calls(slow, time.Minute)
	s.want(Closed)
	s.calls(slower(slow, 0.2, 10), time.Minute)
	s.want(Open)
	s = stage(t, Options{Forget: -1})
	s.calls(lognormal, time.Minute)
	for s.at < time.Hour {
		s.calls(slow, time.Second)
	}
	if relearnt() {
		t.Error("it forgot although it must not")
	}
	s.Relearn()
	s.want(Closed)
	if !relearnt() {
		t.Error("Relearn is not told")
	}
}

func TestAFaultDoesNotBecomeTheNormWhileItIsFound(t *testing.T) {
	j := newJudge(1.8, 500, 0)
	r := rand.New(rand.NewPCG(3, 4))
	run(j, r, lognormal, time.Minute)
	before, p99 := j.base.n, j.base.quantile(0.99)
	var w window
	for i := 0; i < 100; i++ {
		w.count[bucket(int64(lognormal(r)*1e6))]++
	}
	w.count[bucket(50e6)] += 3
	w.n = 103
	if why, _ := j.observe(&w, interval, nil); why != None || j.suspicion() == 0 {
		t.Fatalf("opened by %v, suspicion %v", why, j.suspicion())
	}
	if j.base.n != before || j.base.quantile(0.99) != p99 {
		t.Error("what is under suspicion was learnt")
	}
	run(j, r, lognormal, 5*time.Second)
	if j.suspicion() != 0 || j.base.n <= before {
		t.Error("it was no fault, and is not learnt")
	}
}

func TestALostPermitExpires(t *testing.T) {
	for _, c := range []struct {
		name string
		slow float64 // part of the calls
		why  Reason
		lost float64 // until it opens again
	}{
		{"one ends it when some calls were slow", 0.2, Tail, 1},
		{"more than half end it when all were", 1, Median, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Options{Probes: 2, ProbeFor: 3 * time.Second})
			s.calls(lognormal, time.Minute)
			s.calls(slower(lognormal, c.slow, 10), time.Minute)
			s.want(Open)
			if s.changes[0].Reason != c.why {
				t.Fatalf("%+v", s.changes)
			}
			s.at += 2 * time.Second
			for i := 0; i < 2; i++ {
				if _, err := s.AllowAt(s.now()); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.AllowAt(s.now()); err != ErrOpen {
				t.Errorf("a third one: %v", err)
			}
			s.at += 3*time.Second - 1
			if s.call(0, nil) {
				t.Error("it expired too early")
			}
			s.at++
			if s.call(0, nil) {
				t.Error("a lost permit is no proof that the callee is well")
			}
			s.want(Open)
			s.at += 4 * time.Second
			s.call(time.Millisecond, nil)
			s.call(time.Millisecond, nil)
			s.want(Closed)
			if got := metricsOf(s.Breaker)["breaker_probes_lost_total"]; got != c.lost {
				t.Errorf("%v probes were lost", got)
			}
		})
	}
}

func TestACallThatHangsIsSeenBeforeItEnds(t *testing.T) {
	s := stage(t, Options{})
	s.calls(lognormal, 10*time.Minute)
	// From now on nothing comes back. Calls are still being made.
	from := s.at
	for s.State() == Closed && s.at-from < 30*time.Second {
		s.AllowAt(s.now())
		s.at += time.Millisecond
	}
	s.want(Open)
	if took := s.at - from; took > 2*time.Second {
		t.Errorf("after %v", took)
	}
	// They are forgotten, whatever becomes of them.
	s.at += time.Hour
	for i := 0; i < 5; i++ {
		s.call(time.Millisecond, nil)
	}
	s.want(Closed)
	s.calls(lognormal, 10*time.Minute)
	s.want(Closed)
}

// hang makes calls of which none ends until the breaker opens, and returns how long that took.
func (s *scene) hang(every, most time.Duration) time.Duration {
	from := s.at
	for s.State() == Closed && s.at-from < most {
		s.AllowAt(s.now())
		s.at += every
	}
	return s.at - from
}

// Where calls hang their callers make fewer of them.
func TestHangingCallsAreSeenAtEachRate(t *testing.T) {
	for _, rate := range []time.Duration{1000, 20_000, 100_000} {
		s := stage(t, Options{})
		for s.at < 20*time.Second {
			p, _ := s.AllowAt(s.now())
			p.DoneIn(time.Duration(lognormal(s.r)*1e6), nil)
			s.at += time.Second / rate
		}
		if took := s.hang(50*time.Millisecond, time.Minute); took > time.Second {
			t.Errorf("%d calls/s, then 20 that hang: found after %v", rate, took)
		}
	}
}

func TestACalleeThatHangsFromTheStartIsFoundByTheLimit(t *testing.T) {
	for _, limit := range []time.Duration{100 * time.Millisecond, 2 * time.Second} {
		s := stage(t, Options{Limit: limit})
		if took := s.hang(10*time.Millisecond, time.Minute); took < limit || took > limit+500*time.Millisecond {
			t.Errorf("limit %v: found after %v", limit, took)
		}
		s.want(Open)
		if s.changes[0].Reason != Limit {
			t.Errorf("%+v", s.changes)
		}
	}
}

func TestACallInFlightIsPastTheLimitWhenItIsSoOld(t *testing.T) {
	s := stage(t, Options{Limit: time.Minute})
	s.calls(lognormal, time.Minute)
	for i := 0; i < 100; i++ {
		p, _ := s.AllowAt(s.now())
		s.at += 100 * time.Millisecond // past judge.age
		s.endWindow()
		p.DoneIn(time.Millisecond, nil) // the test is of the limit alone
		if sum := s.judge.limit.sum; sum > 0 {
			t.Fatalf("call %d, a hundred milliseconds old, counts as past the limit of a minute: %v", i, sum)
		}
		s.judge.reset()
	}
}

func TestAnOpenBreakerRejectsWithoutALock(t *testing.T) {
	s := stage(t, Options{})
	s.calls(lognormal, time.Minute)
	s.calls(slower(lognormal, 0.2, 10), time.Minute)
	s.want(Open)
	s.mu.Lock() // Allow would wait for ever
	_, err := s.Allow()
	s.mu.Unlock()
	if m := metricsOf(s.Breaker); err != ErrOpen || m["breaker_rejected_total"] != 1 {
		t.Errorf("%v, %v rejected", err, m["breaker_rejected_total"])
	}
}

// As the doc says: what a permit that is given back twice does.
func TestASecondDoneOfAClosedBreakerIsAnotherCall(t *testing.T) {
	s := stage(t, Options{Limit: 100 * time.Millisecond})
	p, _ := s.AllowAt(s.now())
	for i := 0; i < 3; i++ {
		p.DoneIn(time.Millisecond, nil)
	}
	s.at += interval
	s.endWindow()
	if n := s.judge.base.n; n != 3 {
		t.Errorf("three times are %v calls", n)
	}
}

func TestAChangeMayBeToldToSomebodyWhoUsesTheBreaker(t *testing.T) {
	var b *Breaker
	told := Closed
	at := time.Now()
	b, err := New(Options{Now: func() time.Time { return at }, BlameScheduler: true, OnChange: func(c Change) {
		told = b.State()
		metricsOf(b)
		b.Allow()
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, Breaker: b}
	b.mu.Lock()
	b.open(0, Tail)
	b.unlock()
	if s.want(Open); told != Open {
		t.Errorf("told of %v", told)
	}
}

func TestACallThatBeganBeforeAChangeDoesNotCountAfterIt(t *testing.T) {
	s := stage(t, Options{Probes: 1})
	s.calls(lognormal, time.Minute)
	old, err := s.AllowAt(s.now())
	if err != nil {
		t.Fatal(err)
	}
	s.calls(slower(lognormal, 1, 10), time.Minute)
	s.want(Open)
	s.at += 2 * time.Second
	probe, err := s.AllowAt(s.now())
	if err != nil {
		t.Fatal(err)
	}
	s.want(HalfOpen)
	old.DoneIn(time.Minute, nil)
	s.want(HalfOpen)
	probe.DoneIn(time.Millisecond, nil)
	s.want(Closed)
	probe.DoneIn(time.Minute, nil) // a second time
	s.want(Closed)
	Permit{}.Done(nil)
}

func TestACancelledCallSaysWhatItsTimeSays(t *testing.T) {
	s := stage(t, Options{Limit: 100 * time.Millisecond})
	s.calls(lognormal, time.Minute)
	for i := 0; i < 10_000; i++ {
		if !s.call(time.Millisecond, context.Canceled) {
			t.Fatal("calls that were given up early opened it")
		}
	}
	for i := 0; i < 10_000 && s.call(time.Second, context.Canceled); i++ {
	}
	s.want(Open)
	// A probe that is given up frees its permit.
	s.at += time.Hour
	for i := 0; i < 100; i++ {
		if !s.call(time.Millisecond, context.Canceled) {
			t.Fatalf("no permit after %d were given up", i)
		}
	}
	for i := 0; i < 5; i++ {
		s.call(time.Millisecond, nil)
	}
	s.want(Closed)
}

func TestErrorsCountIfTheyAreSaidTo(t *testing.T) {
	failure := errors.New("failure")
	for _, counted := range []bool{true, false} {
		s := stage(t, Options{Failed: func(err error) bool { return counted && err == failure }})
		s.calls(lognormal, time.Minute)
		for i := 0; i < 5000 && s.call(time.Millisecond, failure); i++ {
		}
		if open := s.State() == Open; open != counted {
			t.Errorf("counted: %v, open: %v", counted, open)
		}
	}
}

// outage makes calls that are refused at once, 1,000 a second.
func (s *scene) outage(for_ time.Duration) {
	for end := s.at + for_; s.at < end; s.at += time.Millisecond {
		if p, err := s.AllowAt(s.now()); err == nil {
			p.DoneIn(100*time.Microsecond, errRefused)
		}
	}
}

var errRefused = errors.New("connection refused")

func TestAnErrorThatDoesNotCountIsNoGoodProbe(t *testing.T) {
	s := stage(t, Options{})
	s.calls(lognormal, time.Minute)
	s.calls(slower(lognormal, 0.2, 10), time.Minute)
	s.at += 2 * time.Second
	for i := 0; i < 100; i++ {
		if !s.call(time.Microsecond, errRefused) {
			t.Fatalf("no permit after %d were refused", i)
		}
	}
	s.want(HalfOpen)
	for i := 0; i < 4; i++ {
		s.call(time.Millisecond, nil)
	}
	s.want(HalfOpen)
	s.call(time.Second, errRefused)
	s.want(Open)
}

// Half of the calls are late because this program did not run.
func TestJudgementWaitsWhileGoDoesNotRunUs(t *testing.T) {
	j := newJudge(1.8, 500, 0)
	r := rand.New(rand.NewPCG(5, 6))
	run(j, r, lognormal, time.Minute)
	late := func() *window {
		w := &window{n: 100}
		for i := 0; i < w.n; i++ {
			w.count[bucket(int64(slower(lognormal, 0.5, 30)(r)*1e6))]++
		}
		return w
	}
	asked, before := int64(0), j.base
	for i := 0; i < 100; i++ {
		why, held := j.observe(late(), interval, func(ns int64) float64 { asked = ns; return 0.6 })
		if why != None || !held {
			t.Fatalf("window %d: %v, held %v", i, why, held)
		}
	}
	if asked <= 0 || asked > edge(j.tail.from) {
		t.Errorf("it asked for waits of %v", time.Duration(asked))
	}
	run(j, r, lognormal, 10*time.Second)
	if got, want := j.base.quantile(0.99), before.quantile(0.99); float64(got) > 1.1*float64(want) {
		t.Errorf("it learnt from them: p99 %v, was %v", time.Duration(got), time.Duration(want))
	}
	if why, held := j.observe(late(), interval, func(int64) float64 { return 0.01 }); why == None || held {
		t.Errorf("with a scheduler that did run us: %v, held %v", why, held)
	}
}

func TestAPanicIsAnEndAndGoesOn(t *testing.T) {
	s := stage(t, Options{Probes: 1, Failed: func(err error) bool { return err != nil }})
	s.calls(lognormal, time.Minute)
	s.calls(slower(lognormal, 1, 10), time.Minute)
	s.at += 2 * time.Second
	func() {
		defer func() {
			if recover() != "no" {
				t.Error("the panic is lost")
			}
		}()
		Do(context.Background(), s.Breaker, func(context.Context) (int, error) { panic("no") })
	}()
	s.want(Open) // the permit came back, and the callee is not well
}

func TestAPanicIsAFailureWhateverFailedSays(t *testing.T) {
	for _, is := range []func(error) bool{nil, func(error) bool { return false }} {
		s := stage(t, Options{Failed: is})
		s.calls(lognormal, time.Minute)
		s.calls(slower(lognormal, 0.2, 10), time.Minute)
		s.at += 2 * time.Second
		for i := 0; i < 5; i++ {
			func() {
				defer func() { recover() }()
				Do(context.Background(), s.Breaker, func(context.Context) (int, error) { panic("no") })
			}()
		}
		s.want(Open)
		if last := s.changes[len(s.changes)-1]; last.Reason != Probe {
			t.Errorf("%+v", s.changes)
		}
	}
}

func TestDoGivesWhatTheCallGives(t *testing.T) {
	s := stage(t, Options{Failed: func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }})
	ctx := context.Background()
	other := func(_ context.Context, err error) (int, error) { return -1, err }
	give := func(v int, err error) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return v, err }
	}
	mine := errors.New("mine")
	for _, c := range []struct {
		fn   func(context.Context) (int, error)
		v    int
		err  error
		name string
	}{
		{give(7, nil), 7, nil, "a value"},
		{give(0, mine), 0, mine, "an error of the program"},
		{give(0, context.DeadlineExceeded), -1, context.DeadlineExceeded, "an error that counts"},
	} {
		if v, err := DoOr(ctx, s.Breaker, c.fn, other); v != c.v || err != c.err {
			t.Errorf("%s: %v, %v", c.name, v, err)
		}
	}
	s.calls(lognormal, time.Minute)
	s.calls(slower(lognormal, 1, 10), time.Minute)
	if v, err := DoOr(ctx, s.Breaker, give(7, nil), other); v != -1 || err != ErrOpen {
		t.Errorf("open: %v, %v", v, err)
	}
}

func TestOptionsThatMakeNoSenseAreErrors(t *testing.T) {
	for _, o := range []Options{{Factor: 1}, {Factor: -2}, {Learn: 10}, {Probes: 65}, {Probes: -1}, {Limit: -1}, {OpenFor: -1}, {ProbeFor: -1}} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "breaker: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func metricsOf(b *Breaker) map[string]float64 {
	m := map[string]float64{}
	b.Metrics(func(name string, v float64) { m[name] = v })
	return m
}

func TestMetricsTellWhatWasDone(t *testing.T) {
	s := stage(t, Options{})
	if _, ok := metricsOf(s.Breaker)["breaker_slow_seconds"]; ok {
		t.Error("it tells a baseline that it does not have")
	}
	s.calls(lognormal, time.Minute)
	s.calls(slower(lognormal, 1, 10), time.Minute)
	s.call(0, nil)
	m := metricsOf(s.Breaker)
	if m["breaker_state"] != 1 || m["breaker_rejected_total"] != 1 || m["breaker_open_tail_total"]+m["breaker_open_median_total"] != 1 ||
		m["breaker_baseline_p99_seconds"] < 0.002 || m["breaker_baseline_p99_seconds"] > 0.005 || m["breaker_slow_seconds"] < m["breaker_baseline_p99_seconds"] {
		t.Errorf("%v", m)
	}
}

func TestOneProbeThatIsGivenUpDoesNotTakeAnothersPlace(t *testing.T) {
	s := stage(t, Options{Probes: 2})
	s.calls(lognormal, time.Minute)
	s.calls(slower(lognormal, 0.2, 10), time.Minute)
	s.at += 2 * time.Second
	first, _ := s.AllowAt(s.now())
	second, err := s.AllowAt(s.now())
	if err != nil {
		t.Fatal(err)
	}
	first.DoneIn(time.Millisecond, context.Canceled)
	first.DoneIn(time.Millisecond, nil) // nobody's permit any more
	s.want(HalfOpen)
	third, err := s.AllowAt(s.now())
	if err != nil {
		t.Fatal(err)
	}
	first.DoneIn(time.Millisecond, nil)
	second.DoneIn(time.Millisecond, nil)
	s.want(HalfOpen)
	third.DoneIn(time.Millisecond, nil)
	s.want(Closed)
}

// Whatever calls do, permits are few when it is half-open, none is given when it is open, and it gets out of
// every state once calls are fast and end.
func FuzzABreakerNeverWedges(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07"), uint8(3))
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaazzzzzzzzzzzzzz"), uint8(1))
	f.Fuzz(func(t *testing.T, steps []byte, probes uint8) {
		s := stage(t, Options{Probes: int(probes%64) + 1, Learn: 100, Limit: 50 * time.Millisecond, Failed: func(err error) bool { return err == ErrOpen }})
		var open []Permit
		inState := 0 // permits given in this half-open state
		var phase uint32
		for _, x := range steps {
			if p := s.phase.Load(); p != phase {
				phase, inState = p, 0
			}
			switch x % 8 {
			case 0, 1, 2, 3: // calls as they are
				for i := 0; i < 50; i++ {
					before := s.State()
					ok := s.call([]time.Duration{1e6, 2e6, 100e6, 10e9}[x%4], nil)
					if before == Closed && !ok {
						t.Fatal("a closed breaker refused a call")
					}
				}
			case 4: // one that does not end
				before := s.State()
				p, err := s.AllowAt(s.now())
				if err == nil {
					open = append(open, p)
				}
				if s.State() == HalfOpen {
					if before != HalfOpen {
						inState = 0
					}
					if err == nil {
						inState++
					}
					if inState > len(s.probes) {
						t.Fatalf("%d permits of %d", inState, len(s.probes))
					}
				}
			case 5: // one that ends late, maybe twice
				if len(open) > 0 {
					open[int(x)%len(open)].DoneIn(time.Duration(x)*time.Millisecond, nil)
				}
			case 6:
				s.call(time.Millisecond, []error{nil, ErrOpen, context.Canceled}[x/8%3])
			case 7:
				s.at += time.Duration(x) * 100 * time.Millisecond
			}
		}
		for i := 0; i < 200 && s.State() != Closed; i++ { // some permits were lost
			s.at += time.Minute
			for k := 0; k < 70; k++ {
				s.call(time.Microsecond, nil)
			}
		}
		s.want(Closed)
	})
}

func TestManyGoroutinesMayUseABreaker(t *testing.T) {
	var mu sync.Mutex
	last := Closed
	b, err := New(Options{Learn: 100, Limit: 20 * time.Millisecond, OpenFor: time.Millisecond, Probes: 2, Failed: func(err error) bool { return err != nil },
		OnChange: func(c Change) {
			mu.Lock()
			defer mu.Unlock()
			last = c.To
		}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := 0; g < 8; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < 20_000; i++ {
				p, err := b.Allow()
				if err != nil {
					continue
				}
				took := time.Millisecond
				if i/2000%2 == 1 {
					took = time.Second
				}
				p.DoneIn(took, nil)
				if i%1000 == 0 {
					metricsOf(b)
				}
			}
		}()
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if m := metricsOf(b); last > HalfOpen || m["breaker_state"] != float64(b.State()) {
		t.Errorf("%v, %v", last, m)
	}
}

func TestAGuardDoesNotAllocate(t *testing.T) {
	b, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10_000, func() {
		p, _ := b.Allow()
		p.Done(nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
