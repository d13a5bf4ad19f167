package blame

import (
	"cmp"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// given is one request of a made-up population: its columns in nanoseconds.
type given struct {
	at       timeline.Time
	endpoint int
	cols     []int64
	weight   float64
	inFlight bool
}

// population makes a Population of requests whose columns are known.
func population(span timeline.Time, gs []given) (*Population, Columns) {
	a := &Attribution{t: &timeline.Timeline{End: span}, f: &request.Found{}}
	var cols Columns
	for i, g := range gs {
		var d int64
		r := Attributed{Request: i}
		for c, ns := range g.cols {
			d += ns
			for len(cols) <= c {
				cols = append(cols, len(cols))
			}
			r.Pieces = append(r.Pieces, Piece{KeyID(c), ns})
		}
		r.D = d
		a.f.Requests = append(a.f.Requests, request.Request{
			Parts: []request.Part{{Start: g.at, End: g.at + timeline.Time(d)}}, Endpoint: g.endpoint, InFlight: g.inFlight,
		})
		a.Requests = append(a.Requests, r)
		w := g.weight
		if w == 0 {
			w = 1
		}
		a.Weight = append(a.Weight, w)
	}
	a.Keys = make([]Key, len(cols))
	if len(cols) > 0 { // the first is a wait of their own, of the others nothing is known
		a.Keys[0] = Key{Kind: Timer, Site: 1, Flags: Self}
		a.Sites = make([]Site, 2)
	}
	return a.Population(0), cols
}

// exact checks Kitagawa's identity: columns and mix are the whole excess.
func exact(t *testing.T, c Contrast) {
	t.Helper()
	sum := c.Mix.NS
	scale := math.Abs(c.Excess) + math.Abs(c.Mix.NS) + 1
	for _, x := range c.Columns {
		sum += x.NS
		scale += math.Abs(x.NS)
	}
	if math.Abs(sum-c.Excess) > 1e-9*scale {
		t.Errorf("columns and mix are %f, the excess is %f", sum, c.Excess)
	}
}

// even are n requests spread over a span.
func even(n int, span timeline.Time, f func(i int) given) []given {
	gs := make([]given, n)
	for i := range gs {
		gs[i] = f(i)
		gs[i].at = span * timeline.Time(i) / timeline.Time(n)
	}
	return gs
}

func TestTheTailBandIsWideEnoughToSayAnything(t *testing.T) {
	for _, c := range []struct {
		n    int
		tail float64
	}{
		{50, 5},    // never more than a tenth
		{100, 10},  //
		{200, 20},  // twenty requests ...
		{1000, 20}, // ...
		{4000, 60}, // until 1.5 % are more
		{10000, 150},
	} {
		p, _ := population(1e9, even(c.n, 1e9, func(i int) given { return given{cols: []int64{int64(i + 1)}} }))
		tail, typical := p.Tail(), p.Typical()
		if tail.Count != c.tail {
			t.Errorf("%d requests: %v in the tail, want %v", c.n, tail.Count, c.tail)
		}
		if want := float64(c.n) - (c.tail-1)/2; tail.Mean != want {
			t.Errorf("%d requests: tail mean %f, want %f", c.n, tail.Mean, want)
		}
		if want := float64(c.n) / 5; math.Abs(typical.Count-want) > 1 || math.Abs(typical.Mean-float64(c.n+1)/2) > 1 {
			t.Errorf("%d requests: %v typical of mean %f", c.n, typical.Count, typical.Mean)
		}
		if got := p.Requests(tail); len(got) != int(c.tail) || got[0] != c.n-1 {
			t.Errorf("%d requests: the slowest of the tail is %d", c.n, got[0])
		}
	}
}

func TestBandsOfVeryFewRequestsAreNotEmpty(t *testing.T) {
	for n := 1; n < 8; n++ {
		p, cols := population(1e9, even(n, 1e9, func(i int) given { return given{cols: []int64{int64(i + 1)}} }))
		c := p.TailContrast(cols, 1)
		exact(t, c)
		if c.Tail.Count < 1 || c.Typical.Count < 1 || c.Columns[0].HasInterval {
			t.Errorf("%d requests: %+v", n, c)
		}
	}
}

func TestColumnsAndMixAreTheWholeExcess(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 60 {
		endpoints := 1 + rng.IntN(5)
		gs := even(1+rng.IntN(600), 10e9, func(int) given {
			g := given{endpoint: rng.IntN(endpoints), weight: float64(1 + rng.IntN(3)), cols: make([]int64, 4)}
			for j := range g.cols {
				g.cols[j] = int64(1e6 * rng.ExpFloat64() * float64(1+g.endpoint*j))
			}
			return g
		})
		p, cols := population(10e9, gs)
		exact(t, p.TailContrast(cols, 4))
		level := p.LevelContrast(cols, 4, nil)
		exact(t, level)
		if math.Abs(level.Excess-p.Typical().Mean) > 1e-6 {
			t.Errorf("level %f, typical mean %f", level.Excess, p.Typical().Mean)
		}
		base := []float64{1e5, 2e5, 0, 3e5}
		exact(t, p.LevelContrast(cols, 4, base))
		ns, total := p.TailMeans(cols, 4)
		if c := p.TailContrast(cols, 4); ns[1] != c.Columns[1].NS || total != c.Excess {
			t.Error("TailMeans are not the contrast's")
		}
		p.Whole = true
		whole := p.TailContrast(cols, 4)
		exact(t, whole)
		if math.Abs(whole.Excess-whole.Tail.Mean) > 1e-6 || whole.Mix.NS != 0 {
			t.Errorf("the whole tail is %f, not %f", whole.Tail.Mean, whole.Excess)
		}
	}
}

// A tail that is simply another endpoint is mix; the same endpoint with more of
// something is that something.
func TestASlowEndpointIsMixAndASlowRequestIsNot(t *testing.T) {
	quiet := func(i int) int64 { return int64(i % 7) }
	t.Run("another endpoint", func(t *testing.T) {
		p, cols := population(10e9, even(1000, 10e9, func(i int) given {
			if i%40 == 0 {
				return given{endpoint: 1, cols: []int64{20e6 + quiet(i), 0}}
			}
			return given{cols: []int64{1e6 + quiet(i), 0}}
		}))
		c := p.TailContrast(cols, 2)
		exact(t, c)
		if c.Mix.Share < 0.99 || c.MixEndpoint != 1 || math.Abs(c.Columns[0].Share) > 0.01 {
			t.Errorf("mix %+v of endpoint %d, columns %+v", c.Mix, c.MixEndpoint, c.Columns)
		}
	})
	t.Run("slow requests of the same endpoints", func(t *testing.T) {
		p, cols := population(10e9, even(1000, 10e9, func(i int) given {
			g := given{endpoint: i % 2, cols: []int64{1e6 + quiet(i), 0}}
			if i%40 == 0 {
				g.endpoint = i / 40 % 2
				g.cols[1] = 20e6
			}
			return g
		}))
		c := p.TailContrast(cols, 2)
		exact(t, c)
		if math.Abs(c.Mix.Share) > 0.01 || c.Columns[1].Share < 0.99 {
			t.Errorf("mix %+v, columns %+v", c.Mix, c.Columns)
		}
	})
	for _, x := range []struct {
		name  string
		slow  func(i int) bool // of its endpoint's
		takes int64            // ms that these take longer; 0: 20
		mixed bool
	}{
		{"an endpoint most of whose requests begin in an episode", func(i int) bool { return i >= 200 && i < 800 }, 0, false},
		{"an episode in which they take five times as long", func(i int) bool { return i >= 200 && i < 800 }, 4, false},
		{"an episode in which they take three times as long", func(i int) bool { return i >= 200 && i < 800 }, 2, true},
		{"in three of them", func(i int) bool { return i/150%2 == 0 }, 0, false},
		{"in more of them than by chance, but not by much", func(i int) bool { return i/4%5 >= 2 }, 0, true},
		{"an endpoint that by its nature is slow for most", func(i int) bool { return i%10 < 6 }, 0, true},
		{"an episode that leaves too few to be usual", func(i int) bool { return i >= 100 && i < 950 }, 0, true},
		{"an episode that leaves nine", func(i int) bool { return i >= 36 }, 0, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			p, cols := population(10e9, even(1000, 10e9, func(i int) given {
				switch {
				case i%4 != 0:
					return given{cols: []int64{1e6 + quiet(i), 0}}
				case x.slow(i):
					return given{endpoint: 1, cols: []int64{1e6 + quiet(i), cmp.Or(x.takes, 20) * 1e6}}
				}
				return given{endpoint: 1, cols: []int64{1e6 + quiet(i), 0}}
			}))
			c := p.TailContrast(cols, 2)
			exact(t, c)
			if mixed := c.MixEndpoint == 1 && c.Mix.Share > 0.9; mixed != x.mixed || !x.mixed && c.Columns[1].Share < 0.99 {
				t.Errorf("mix %+v of %d, columns %+v", c.Mix, c.MixEndpoint, c.Columns)
			}
		})
	}
	for _, x := range []struct {
		name  string
		one   func(i int) bool // of an endpoint of its own, each of which takes 20 ms
		fast  bool             // but for the first
		mixed bool
		queue bool // they wait for others
	}{
		{"a rare endpoint", func(i int) bool { return i%200 == 0 }, false, true, false},
		{"a rare endpoint that waits for others", func(i int) bool { return i%200 == 0 }, false, false, true},
		{"too rare to be typical of itself", func(i int) bool { return i%400 == 0 }, false, false, false},
		{"a rare endpoint that is fast, too", func(i int) bool { return i%200 == 0 }, true, false, false},
		{"a rare endpoint that is asked for a short time only", func(i int) bool { return i%50 == 0 && i < 250 }, false, false, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			p, cols := population(10e9, even(1000, 10e9, func(i int) given {
				if x.one(i) && !(x.fast && i == 0) {
					if x.queue {
						return given{endpoint: 1, cols: []int64{0, 20e6}}
					}
					return given{endpoint: 1, cols: []int64{20e6, 0}}
				}
				g := given{cols: []int64{1e6 + quiet(i), 0}}
				if x.one(i) {
					g.endpoint = 1
				}
				return g
			}))
			c := p.TailContrast(cols, 2)
			exact(t, c)
			if mixed := c.MixEndpoint == 1 && c.Mix.Share > 0.99; mixed != x.mixed || !x.mixed && math.Abs(c.Mix.NS) > 1 {
				t.Errorf("mix %+v of %d", c.Mix, c.MixEndpoint)
			}
		})
	}
}

func TestEpisodesAreClustersInTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		at     func(i int) timeline.Time // of the i-th slow request, which takes 10 ms
		slow   int
		want   int
		within int64
	}{
		{"all at once", func(i int) timeline.Time { return 3e9 + timeline.Time(i) }, 20, 1, 0},
		{"a burst of overlapping ones", func(i int) timeline.Time { return 3e9 + timeline.Time(i)*9e6 }, 20, 1, 0},
		{"each followed within its own length", func(i int) timeline.Time { return 3e9 + timeline.Time(i)*19e6 }, 20, 1, 0},
		{"each alone", func(i int) timeline.Time { return 1e9 + timeline.Time(i)*100e6 }, 20, 20, 0},
		{"two bursts", func(i int) timeline.Time { return 2e9 + timeline.Time(i%2)*3e9 + timeline.Time(i) }, 20, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			gs := even(1000-c.slow, 8e9, func(i int) given { return given{cols: []int64{1e6 + int64(i%7), 0}} })
			for i := range c.slow {
				gs = append(gs, given{at: c.at(i), cols: []int64{1e6, 9e6}})
			}
			p, cols := population(8e9, gs)
			x := p.TailContrast(cols, 2)
			if x.Episodes != c.want || x.Columns[1].Episodes != c.want || x.Columns[0].Episodes != 0 {
				t.Errorf("%d episodes, of the columns %d and %d, want %d", x.Episodes, x.Columns[0].Episodes, x.Columns[1].Episodes, c.want)
			}
		})
	}
}

func TestIntervalsNeedBlocksAndCoverTheShare(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	make := func(span timeline.Time) (*Population, Columns) {
		return population(span, even(2000, span, func(i int) given {
			g := given{cols: []int64{1e6 + rng.Int64N(1e5), 0, 0}}
			if i%25 == 0 { // the truth: three quarters of the excess are column 1
				g.cols[1] = 15e6 + rng.Int64N(1e6)
				g.cols[2] = 5e6 + rng.Int64N(1e6)
			}
			return g
		}))
	}
	p, cols := make(10e9)
	c := p.TailContrast(cols, 3)
	for j, truth := range []float64{0, 0.75, 0.25} {
		s := c.Columns[j]
		if !s.HasInterval || s.Low > s.Share || s.High < s.Share || s.Low > truth+0.03 || s.High < truth-0.03 || s.High-s.Low > 0.2 {
			t.Errorf("column %d: %+v, the truth is %f", j, s, truth)
		}
	}
	if again := p.TailContrast(cols, 3); again.Columns[1] != c.Columns[1] {
		t.Errorf("%+v, then %+v", c.Columns[1], again.Columns[1])
	}
	short, cols := make(MinBlocks*BlockMin - BlockMin) // one block too few
	if c := short.TailContrast(cols, 3); c.Columns[1].HasInterval || c.Mix.HasInterval || c.Blocks != MinBlocks-1 {
		t.Errorf("%d blocks: %+v", c.Blocks, c.Columns[1])
	}
	enough, cols := make(MinBlocks * BlockMin)
	if c := enough.TailContrast(cols, 3); !c.Columns[1].HasInterval {
		t.Errorf("%d blocks: no interval", c.Blocks)
	}
}

// One episode cannot vouch for itself: when all of the tail lies in one block,
// replicates without it see none of it.
func TestOneEpisodeGivesAWideInterval(t *testing.T) {
	p, cols := population(10e9, even(2000, 10e9, func(i int) given {
		g := given{cols: []int64{1e6 + int64(i%100)*1e4, 0}}
		if i >= 1000 && i < 1030 {
			g.cols[1] = 20e6
		}
		return g
	}))
	c := p.TailContrast(cols, 2)
	if s := c.Columns[1]; s.Share < 0.9 || !s.HasInterval || s.High-s.Low < 0.5 || c.Episodes != 1 {
		t.Errorf("%+v in %d episodes", s, c.Episodes)
	}
}

func TestARequestInASampleStandsForSeveral(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var all, sample []given
	for i := range 4000 {
		g := given{at: timeline.Time(i) * 2e6, cols: []int64{1e6 + rng.Int64N(4)*1e5, 0}}
		slow := i%20 == 7
		if slow {
			g.cols[1] = 10e6 + int64(i)
		}
		all = append(all, g)
		if slow {
			sample = append(sample, g)
		} else if i%4 == 1 {
			g.weight = 3800.0 / 1000 // 1000 of the 3800 fast ones
			sample = append(sample, g)
		}
	}
	p, cols := population(8e9, all)
	q, _ := population(8e9, sample)
	if math.Abs(p.N-q.N) > 1e-6*p.N {
		t.Fatalf("the sample stands for %f of %f", q.N, p.N)
	}
	a, b := p.TailContrast(cols, 2), q.TailContrast(cols, 2)
	exact(t, b)
	if math.Abs(a.Excess-b.Excess) > 0.02*a.Excess || math.Abs(a.Columns[1].Share-b.Columns[1].Share) > 0.02 || a.Tail.Count != b.Tail.Count {
		t.Errorf("excess %f of %v requests and %f of %v", a.Excess, a.Tail.Count, b.Excess, b.Tail.Count)
	}
	for _, x := range []float64{0.1, 0.5, 0.9, 0.99} {
		if d := p.Quantile(x) - q.Quantile(x); max(d, -d) > 2e5 {
			t.Errorf("quantile %g: %d and %d", x, p.Quantile(x), q.Quantile(x))
		}
	}
}

func TestSampledRequestsKeepTheSlowOnesAndTheWeights(t *testing.T) {
	f := &request.Found{Roles: make([]request.Role, 2)}
	for i := range 5000 {
		d := timeline.Time(1e6 + i*7919%5000*100)
		f.Requests = append(f.Requests, request.Request{Role: i % 2, Parts: []request.Part{{Start: 0, End: d}}})
	}
	a := &Attribution{f: f}
	pick, weight := a.pick(1500)
	if len(pick) > 1600 || len(pick) < 1000 {
		t.Errorf("%d picked", len(pick))
	}
	var sum float64
	picked := map[int]bool{}
	for i, p := range pick {
		sum += weight[i]
		picked[p] = true
		if i > 0 && p <= pick[i-1] {
			t.Fatal("not in order")
		}
	}
	if sum != 5000 {
		t.Errorf("they stand for %f of 5000", sum)
	}
	for i := range f.Requests {
		if f.Requests[i].Duration() > 1e6+4500*100 && !picked[i] {
			t.Errorf("a slow request of %d ns is not among them", f.Requests[i].Duration())
		}
	}
	if pick, weight := a.pick(0); len(pick) != 5000 || weight[17] != 1 {
		t.Errorf("few requests are sampled: %d", len(pick))
	}
}

// However many requests there are, what is typical is not one of them.
func TestOfVeryManyRequestsSlowAndTypicalOnesAreSampled(t *testing.T) {
	const n, limit = 200_000, 2000
	f := &request.Found{Roles: make([]request.Role, 1)}
	for i := range n {
		d := timeline.Time(1e6 + i*7919%n*100)
		f.Requests = append(f.Requests, request.Request{Parts: []request.Part{{Start: 0, End: d}}})
	}
	a := &Attribution{f: f}
	pick, weight := a.pick(limit)
	var sum, slow, usual float64
	slowest, typical := 0, 0
	for i, p := range pick {
		sum += weight[i]
		switch rank := float64(f.Requests[p].Duration()-1e6) / 100 / n; {
		case rank >= 1-TailMin:
			slowest++
			slow += weight[i]
		case rank >= TypicalLow && rank < TypicalHigh:
			typical++
			usual += weight[i]
		}
	}
	if sum != n || len(pick) > limit*11/10 {
		t.Errorf("%d picked stand for %f of %d", len(pick), sum, n)
	}
	if slowest < limit/4 || typical < limit/16 {
		t.Errorf("of %d the tail has %d, what is typical %d", len(pick), slowest, typical)
	}
	if share := slow / n; share < TailMin*0.95 || share > TailMin*1.05 {
		t.Errorf("the tail stands for %f of all", share)
	}
	if share := usual / n; share < 0.19 || share > 0.21 {
		t.Errorf("what is typical stands for %f of all", share)
	}
}

func TestTheP99WithoutAColumn(t *testing.T) {
	p, cols := population(10e9, even(1000, 10e9, func(i int) given {
		g := given{cols: []int64{1e6, 0, int64(i % 3)}}
		if i%50 == 0 {
			g.cols[1] = 20e6
		}
		return g
	}))
	c := p.TailContrast(cols, 3)
	if got := c.Columns[1].P99Without; got < 1e6 || got > 1e6+2 {
		t.Errorf("without the slow column: %d", got)
	}
	if got := c.Columns[2].P99Without; got < 21e6 || got > 21e6+2 {
		t.Errorf("without the noise: %d", got)
	}
}

func TestOldRequestsInFlightBelongToTheTail(t *testing.T) {
	gs := even(200, 10e9, func(i int) given { return given{cols: []int64{1e6 + int64(i), 0}} })
	gs = append(gs, given{at: 5e9, inFlight: true, cols: []int64{0, 5e9}}, given{at: 9.99e9, inFlight: true, cols: []int64{0, 1e5}})
	p, cols := population(10e9, gs)
	if n, oldest := p.InFlight(); n != 1 || oldest != 5e9 || p.Len() != 201 {
		t.Errorf("%d in flight, the oldest %d, %d requests", n, oldest, p.Len())
	}
	c := p.TailContrast(cols, 2)
	exact(t, c)
	if c.Columns[1].Share < 0.99 {
		t.Errorf("%+v", c.Columns)
	}
}

// An endpoint that was seen only where it was late is not slow by design; one of which each
// request does the same may be.
func TestAnEndpointSeenOnlyWhenLateHasNoUsualTime(t *testing.T) {
	const fast = 100_000
	keys := []Key{
		{Kind: CPU, Flags: Self},                                         // 0
		{Kind: Timer, Flags: Self, Site: 1},                              // 1: its own pause
		{Kind: Timer, Site: 1, First: Hop{Site: 9}, Queue: Hop{Site: 9}}, // 2: behind one that makes it
		{Kind: Network, Flags: Self, Site: 2},                            // 3: a call that each makes
		{Kind: Syscall, Flags: Self, Site: 3},                            // 4: what the library does for everybody
		{Kind: Network, Site: 2, First: Hop{Site: 8}},                    // 5: a child's call
		{Kind: Timer, Site: 1, First: Hop{Site: 8}, Queue: Hop{Site: 7}}, // 6: a child in a queue
		{Kind: UnknownHolder, Flags: Self, Site: 9},                      // 7: a lock that somebody has
		{Kind: Behind}, // 8: ready to run
		{Kind: Timer, Site: 1, First: Hop{Site: 4}, Queue: Hop{Site: 4}}, // 9: until it is told
		{Kind: CPU, First: Hop{Site: 6}},                                 // 10: what a child computes that everybody has
		{Kind: Network, Site: 2, First: Hop{Site: 6}},                    // 11: its call
		{Kind: Timer, Site: 1, First: Hop{Site: 6}, Queue: Hop{Site: 7}}, // 12: it, in a queue
		{Kind: Network, Flags: Self, Site: 10},                           // 13: a call in a one-time initialisation
		{Kind: Network, Site: 2, First: Hop{Site: 10}},                   // 14: a child's
		{Kind: Timer, Flags: Self, Site: 11},                             // 15: its turn at a rate limiter
		{Kind: Timer, Site: 11, First: Hop{Site: 6}},                     // 16: a child's
	}
	type one struct {
		key KeyID
		ns  int64
	}
	for _, c := range []struct {
		name   string
		unseen int
		late   func(i int) []one
		mix    bool // its being another endpoint explains that it is slow
	}{
		{"some pause, others wait behind them", 1000, func(i int) []one {
			if i%3 == 0 {
				return []one{{1, 40e6}}
			}
			return []one{{2, 35e6}}
		}, false},
		{"all wait behind others", 1000, func(int) []one { return []one{{2, 35e6}} }, false},
		{"all pause", 1000, func(int) []one { return []one{{1, 40e6}} }, true},
		{"all wait for their turn at a rate limiter", 1000, func(int) []one { return []one{{15, 40e6}} }, false},
		{"all wait for a child's turn at a rate limiter", 1000, func(int) []one { return []one{{16, 40e6}} }, false},
		{"all call, and some wait behind others", 1000, func(i int) []one {
			return []one{{3, 20e6}, {2, int64(i%3) * 10e6}}
		}, true},
		{"all wait for a child's call", 1000, func(int) []one { return []one{{5, 35e6}} }, true},
		{"all wait for a child, which waits in a queue", 1000, func(int) []one { return []one{{6, 35e6}} }, true},
		{"all wait for a lock that somebody has", 1000, func(int) []one { return []one{{7, 35e6}} }, false},
		{"all compute", 1000, func(int) []one { return []one{{0, 40e6}, {1, 5e6}} }, true},
		{"all compute, and wait for a CPU", 1000, func(int) []one { return []one{{0, 15e6}, {8, 25e6}} }, true},
		{"all wait for a CPU", 1000, func(int) []one { return []one{{0, 1e6}, {8, 35e6}} }, false},
		{"all do what everybody does, and wait behind others", 1000, func(int) []one { return []one{{4, 1e6}, {2, 35e6}} }, false},
		{"all wait for what is announced", 1000, func(int) []one { return []one{{9, 35e6}} }, true},
		{"all wait for the call of a child that everybody has", 1000, func(int) []one { return []one{{10, fast}, {11, 35e6}} }, true},
		{"all wait for what a child computes that everybody has", 1000, func(int) []one { return []one{{10, 35e6}} }, true},
		{"all wait for a child that everybody has, in a queue", 1000, func(int) []one { return []one{{10, fast}, {12, 35e6}} }, false},
		{"all call to initialise something", 1000, func(int) []one { return []one{{13, 35e6}} }, false},
		{"all wait for a child's call to initialise something", 1000, func(int) []one { return []one{{14, 35e6}} }, false},
		{"fewer were not seen than it has", 10, func(int) []one { return []one{{2, 35e6}} }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &Attribution{t: &timeline.Timeline{End: 60e9}, f: &request.Found{}, Keys: keys, Sites: append(make([]Site, 10), Site{Once: true}, Site{Limit: true}), announced: map[SiteID]bool{4: true, 9: false}}
			add := func(endpoint int, unseen bool, pieces []one) {
				n := len(a.Requests)
				r := Attributed{Request: n}
				for _, x := range pieces {
					r.D += x.ns
					r.Pieces = append(r.Pieces, Piece{x.key, x.ns})
				}
				at := timeline.Time(n) * 10e6
				a.f.Requests = append(a.f.Requests, request.Request{Parts: []request.Part{{Start: at, End: at + timeline.Time(r.D)}}, Endpoint: endpoint, Unseen: unseen})
				a.Requests, a.Weight = append(a.Requests, r), append(a.Weight, 1)
			}
			for range c.unseen {
				add(0, true, []one{{0, fast}, {4, fast}, {10, fast}})
			}
			for i := c.unseen; i < 1000; i++ {
				add(0, false, []one{{0, fast}, {4, fast}, {10, fast}})
			}
			for i := range 24 {
				add(1, false, c.late(i))
			}
			p := a.Population(0)
			cols := Columns{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
			x := p.TailContrast(cols, len(cols))
			if got := x.Mix.Share > 0.3; got != c.mix {
				t.Errorf("the mix is %.2f of %.1f ms", x.Mix.Share, x.Excess/1e6)
			}
		})
	}
}
