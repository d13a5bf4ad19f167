package gctune

import (
	"encoding/binary"
	"math"
	"math/rand"
	"strings"
	"testing"
)

const mb = 1 << 20

// plant is a program with a collector, by the algebra of the runtime's pacer: a cycle ends at the goal, marks what is
// live, and what is allocated meanwhile counts as live in the next one.
type plant struct {
	live, stacks, other float64 // bytes
	alloc               float64 // bytes allocated per CPU second of the program
	mark                float64 // CPU seconds per byte marked
	procs, busy         float64 // processors, and the part of their time that the program wants
	noise               func() float64

	r    reading
	peak float64 // of the last cycle
}

// program is one that allocates 2 GB per CPU second and marks 1 GB per CPU second: the collector takes 0.33 of its CPU time at GOGC=100.
func program(live float64) *plant {
	return &plant{live: live, stacks: 2 * mb, other: 8 * mb, alloc: 2e9, mark: 1e-9, procs: 2, busy: 1, noise: func() float64 { return 1 }, r: reading{gogc: 100, limit: math.MaxInt64}}
}

// cycle runs one garbage collection under the settings and returns what is read after it.
func (p *plant) cycle(gogc int, limit int64) reading {
	r := &p.r
	r.gogc, r.limit = gogc, limit
	before := max(r.live, p.live)
	goal := before + (before+p.stacks)*float64(gogc)/100
	if l := (float64(limit) - p.other - p.stacks) * 0.97; l < goal {
		goal = max(l, before)
	}
	room := max(goal-before, 1*mb)
	program := room / p.alloc // CPU seconds
	mark := p.mark * p.live * p.noise()
	floating := min(mark*p.alloc*p.busy, 0.1*goal)
	program += floating / p.alloc
	used := program + mark
	wall := program/(p.procs*p.busy) + mark/p.procs
	r.total += wall * p.procs
	r.idle += max(0, wall*p.procs-used)
	r.gc += mark
	r.assist += 0.1 * mark * p.busy // idle processors mark first
	r.allocs += room + floating
	r.live, r.stacks, r.globals = p.live+floating, p.stacks, 0
	p.peak = before + room + floating + p.other + p.stacks
	r.mapped, r.heap = max(p.peak, r.mapped*0.9), max(p.peak, r.mapped*0.9)-p.other-p.stacks
	r.cycles++
	return *r
}

// drive runs n cycles under the law and calls see after each.
func drive(l *law, p *plant, n int, see func(i int, d Decision, changed bool)) {
	for i := range n {
		d, changed := l.step(p.cycle(l.now.GOGC, l.now.Limit))
		if see != nil {
			see(i, d, changed)
		}
	}
}

func begin(p *plant, budget, raised int64) *law {
	l := newLaw(budget, raised, ceiling, 0.25, 0.1)
	l.step(p.r)
	return l
}

func TestTheRoomIsWhatTheRuntimesAlgebraLeaves(t *testing.T) {
	for _, c := range []struct {
		name        string
		r           reading
		limit, want float64
	}{
		{"half of a small heap", reading{live: 50 * mb, heap: 90 * mb, mapped: 100 * mb}, 100 * mb, 100 * (0.97*90 - 50) / 50},
		{"stacks take from the limit, and GOGC counts them", reading{live: 60 * mb, stacks: 100 * mb, heap: 80 * mb, mapped: 200 * mb}, 240 * mb, 100 * (0.97*120 - 60) / 160},
		{"free heap is not lost", reading{live: 60 * mb, heap: 200 * mb, mapped: 200 * mb}, 100 * mb, 100 * (0.97*100 - 60) / 60},
		{"none", reading{live: 120 * mb, heap: 120 * mb, mapped: 120 * mb}, 100 * mb, 100 * (0.97*100 - 120) / 120},
		{"nothing at all", reading{}, 16 * mb, 100 * 0.97 * 16 / 4},
		{"nonsense", reading{live: math.NaN(), mapped: math.Inf(1)}, 100 * mb, -100},
	} {
		if got := c.r.room(c.limit); math.Abs(got-c.want) > 1e-6*math.Abs(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestWhatFitsTheBudgetStaysInItAndTheLimitLeads(t *testing.T) {
	p := program(30 * mb)
	l := begin(p, 256*mb, math.MaxInt64)
	for _, live := range []float64{30, 110, 30, 8, 120} {
		p.live = live * mb
		drive(l, p, 40, func(i int, d Decision, changed bool) {
			if d.Mode != Within || d.GOGC != ceiling || d.Limit != limit(256*mb) || changed {
				t.Fatalf("live %v, cycle %d: %+v", live, i, d)
			}
			if p.peak > 256*mb {
				t.Errorf("live %v, cycle %d: %.0f MB", live, i, p.peak/mb)
			}
		})
	}
}

func TestWhatLeavesNoRoomIsLetGoOfBeforeItSpiralsAndSettles(t *testing.T) {
	for _, live := range []float64{210, 235, 300, 2000} {
		p := program(30 * mb)
		l := begin(p, 256*mb, math.MaxInt64)
		drive(l, p, 20, nil)
		p.live = live * mb
		let, settled := -1, 0
		var g []int
		drive(l, p, 40, func(i int, d Decision, changed bool) {
			if let < 0 && d.Mode == Over {
				let = i
			}
			if let >= 0 && d.Mode != Over {
				t.Fatalf("live %v, cycle %d: took hold again: %+v", live, i, d)
			}
			g = append(g, d.GOGC)
		})
		for i, v := range g {
			if ratio := float64(v) / float64(g[len(g)-1]); ratio < 1/1.2 || ratio > 1.2 {
				settled = i + 1
			}
		}
		if let < 0 || let >= doubt {
			t.Errorf("live %v: let go in cycle %d", live, let)
		}
		if settled-let > 3 {
			t.Errorf("live %v: settles in %d cycles: %v", live, settled-let, g)
		}
		if share := l.cost.share; share < 0.21 || share > 0.29 {
			t.Errorf("live %v: the collector takes %.2f where the aim is 0.25; GOGC %v", live, share, g[len(g)-1])
		}
	}
}

func TestTheLimitIsTakenHoldOfAgainWhenThereIsRoom(t *testing.T) {
	p := program(235 * mb)
	l := begin(p, 256*mb, math.MaxInt64)
	drive(l, p, 20, nil)
	if l.now.Mode != Over {
		t.Fatalf("%+v", l.now)
	}
	p.live = 90 * mb
	took := -1
	drive(l, p, 20, func(i int, d Decision, _ bool) {
		if took < 0 && d.Mode == Within {
			took = i
		}
	})
	if took < 0 || took > 4 || l.now.Mode != Within {
		t.Errorf("taken hold of in cycle %d, then %+v", took, l.now)
	}
}

func TestAProgramThatIsMostlyIdleStaysInItsBudgetHoweverSmall(t *testing.T) {
	p := program(195 * mb)
	p.busy = 0.002
	l := begin(p, 256*mb, math.MaxInt64)
	drive(l, p, 100, func(i int, d Decision, _ bool) {
		if d.Mode != Within {
			t.Fatalf("cycle %d: %+v", i, d)
		}
	})
	t.Run("and goes back to it when it becomes idle", func(t *testing.T) {
		p.busy = 1
		drive(l, p, 20, nil)
		if l.now.Mode != Over {
			t.Fatalf("busy: %+v", l.now)
		}
		p.busy = 0.001
		drive(l, p, 20, nil)
		if l.now.Mode != Within {
			t.Fatalf("idle: %+v", l.now)
		}
	})
}

func TestALiveHeapAroundTheThresholdDoesNotMakeItFlap(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	p := program(200 * mb)
	p.noise = func() float64 { return 0.7 + 0.6*random.Float64() }
	l := begin(p, 256*mb, math.MaxInt64)
	modes, last := 0, Within
	drive(l, p, 5000, func(i int, d Decision, _ bool) {
		p.live = (100 + 110*random.Float64()) * mb
		if d.Mode != last {
			modes, last = modes+1, d.Mode
		}
	})
	if modes > 40 {
		t.Errorf("%d changes of mode in 5000 cycles", modes)
	}
}

func TestNoiseOfTheMeasurementMovesGOGCLittle(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	p := program(235 * mb)
	l := begin(p, 256*mb, math.MaxInt64)
	drive(l, p, 20, nil)
	p.noise = func() float64 { return 0.9 + 0.2*random.Float64() }
	low, high := 1000, 0
	drive(l, p, 500, func(_ int, d Decision, _ bool) { low, high = min(low, d.GOGC), max(high, d.GOGC) })
	if float64(high) > 1.4*float64(low) { // 20 % on either side
		t.Errorf("GOGC between %d and %d for ±10 %% of noise", low, high)
	}
}

func TestTheCeilingBoundsWhatIsUsedOverTheBudget(t *testing.T) {
	p := program(200 * mb)
	l := begin(p, 200*mb, limit(384*mb))
	drive(l, p, 50, func(i int, d Decision, _ bool) {
		if p.peak > 384*mb || d.Limit > limit(384*mb) {
			t.Errorf("cycle %d: %.0f MB, %+v", i, p.peak/mb, d)
		}
	})
	if l.now.Mode != Over || l.now.Limit != limit(384*mb) {
		t.Errorf("%+v", l.now)
	}
	t.Run("and one that is the budget keeps the limit in the lead", func(t *testing.T) {
		p := program(235 * mb)
		l := begin(p, 256*mb, limit(256*mb))
		drive(l, p, 50, nil)
		if l.now.Mode != Within {
			t.Errorf("%+v", l.now)
		}
	})
}

func TestTheRuntimesLimiterIsAReasonEvenBetweenCycles(t *testing.T) {
	p := program(30 * mb)
	l := begin(p, 256*mb, math.MaxInt64)
	drive(l, p, 3, nil)
	r := p.r
	r.limited = r.cycles
	r.gogc, r.limit = l.now.GOGC, l.now.Limit
	if d, changed := l.step(r); !changed || d.Mode != Over || !strings.Contains(d.Why, "had to stop the collector") {
		t.Errorf("%v %+v", changed, d)
	}
}

func TestABudgetThatChangesMovesTheLimitAtOnce(t *testing.T) {
	p := program(30 * mb)
	l := begin(p, 256*mb, math.MaxInt64)
	l.budget = 128 * mb
	r := p.r
	r.gogc, r.limit = l.now.GOGC, l.now.Limit
	if d, changed := l.step(r); !changed || d.Limit != limit(128*mb) || d.Budget != 128*mb || d.Why != "the budget is 128 MiB now, it was 256 MiB" {
		t.Errorf("%v %+v", changed, d)
	}
}

func TestSomebodyElsesSettingIsLeftAndNothingIsSetAnyMore(t *testing.T) {
	for _, c := range []struct {
		change func(*reading)
		why    string
	}{
		{func(r *reading) { r.gogc = 150 }, "somebody set GOGC to 150, which was 800: nothing is set until that is put back"},
		{func(r *reading) { r.gogc = -1 }, "somebody set GOGC to -1, which was 800: nothing is set until that is put back"},
		{func(r *reading) { r.limit = 100 * mb }, "somebody set the memory limit to 100 MiB, which was 240 MiB: nothing is set until that is put back"},
	} {
		p := program(30 * mb)
		l := begin(p, 256*mb, math.MaxInt64)
		r := p.cycle(l.now.GOGC, l.now.Limit)
		c.change(&r)
		d, changed := l.step(r)
		if !changed || d.Mode != Yielded || d.Why != c.why || d.GOGC != r.gogc || d.Limit != r.limit {
			t.Errorf("%+v", d)
		}
		p.live = 300 * mb
		drive(l, p, 20, func(_ int, d Decision, changed bool) {
			if changed || d.Mode != Yielded {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestASettingThatIsPutBackIsTakenOverAgain(t *testing.T) {
	none := int64(math.MaxInt64)
	for _, c := range []struct {
		name          string
		theirs        settings // what somebody sets
		left, putBack settings // what is in force then, as the tuner restores what is still its own, and later
		resumes       bool
	}{
		{"the collector was off for a while", settings{-1, 240 * mb}, settings{-1, none}, settings{800, none}, true},
		{"the limit was another", settings{800, 100 * mb}, settings{100, 100 * mb}, settings{100, 240 * mb}, true},
		{"both", settings{-1, 100 * mb}, settings{-1, 100 * mb}, settings{800, 240 * mb}, true},
		{"one of both", settings{-1, 100 * mb}, settings{-1, 100 * mb}, settings{800, 100 * mb}, false},
		{"and the other is set", settings{-1, 240 * mb}, settings{-1, none}, settings{800, 77 * mb}, false},
		{"another is set", settings{-1, 240 * mb}, settings{-1, none}, settings{50, none}, false},
	} {
		p := program(30 * mb)
		l := begin(p, 256*mb, math.MaxInt64)
		see := func(s settings) (Decision, bool) {
			r := p.r
			r.gogc, r.limit = s.gogc, s.limit
			return l.step(r)
		}
		see(c.theirs)
		l.now.GOGC, l.now.Limit = c.left.gogc, c.left.limit
		if d, changed := see(c.left); changed || d.Mode != Yielded {
			t.Errorf("%s: %+v", c.name, d)
		}
		d, changed := see(c.putBack)
		if changed != c.resumes || c.resumes && (d.Mode != Within || d.GOGC != ceiling || d.Limit != limit(256*mb)) || !c.resumes && d.Mode != Yielded {
			t.Errorf("%s: %v, %+v", c.name, changed, d)
		}
	}
}

func TestCountersThatStandStillOrGoBackDecideNothing(t *testing.T) {
	p := program(110 * mb)
	l := begin(p, 256*mb, math.MaxInt64)
	drive(l, p, 10, nil)
	at := p.r
	for i, change := range []func(*reading){
		func(*reading) {}, // no cycle: the CPU counters are stale
		func(r *reading) { r.cycles++ },
		func(r *reading) { r.cycles--; r.gc, r.total = 0, 0 },
		func(r *reading) { r.cycles++; r.gc = math.NaN() },
		func(r *reading) { r.cycles++; r.total = math.Inf(1) },
		func(r *reading) { r.cycles++; r.idle = 1e9 },
		func(r *reading) { r.cycles++; r.total++; r.idleMark = -math.MaxFloat64 },
		func(r *reading) { r.cycles++; r.total++; r.assist = math.Inf(1) },
	} {
		r := at
		change(&r)
		if d, changed := l.step(r); changed || d.Mode != Within {
			t.Errorf("%d: %+v", i, d)
		}
	}
}

// readings makes readings of any bytes.
func readings(b []byte) (list []reading) {
	for len(b) >= 19 {
		number := func(i int) float64 {
			bits := binary.LittleEndian.Uint16(b[i:])
			switch bits % 11 {
			case 0:
				return math.NaN()
			case 1:
				return math.Inf(1)
			case 2:
				return -float64(bits) * mb
			case 3:
				return math.MaxFloat64
			}
			return float64(bits) * mb / 64
		}
		seconds := func(i int) float64 { return number(i) / mb }
		list = append(list, reading{
			cycles: uint64(b[0] >> 2), limited: uint64(b[0] & 3),
			gc: seconds(1), assist: seconds(2), idleMark: seconds(3) / 64, idle: seconds(4), total: seconds(6),
			allocs: number(8), live: number(10), stacks: number(12), globals: number(13), mapped: number(14), heap: number(16),
		})
		b = b[18:]
	}
	return list
}

func FuzzAnyReadingLeavesTheSettingsWithinTheirBounds(f *testing.F) {
	f.Add(int64(256*mb), int64(0), []byte("any bytes are readings, one after the other, in some way or another"))
	f.Add(int64(1), int64(1<<62), make([]byte, 400))
	f.Fuzz(func(t *testing.T, budget, top int64, b []byte) {
		if top <= 0 {
			top = math.MaxInt64
		}
		budget = max(smallest, budget)
		most := ceiling
		if len(b) > 0 {
			most = floor + int(b[0])*(ceiling-floor)/255
		}
		l := newLaw(budget, top, most, 0.25, 0.1)
		l.step(reading{gogc: 100, limit: math.MaxInt64})
		for _, r := range readings(b) {
			r.gogc, r.limit = l.now.GOGC, l.now.Limit
			switch r.cycles % 8 { // a control group's limit may change at any time
			case 6:
				budget = max(smallest, budget/2)
			case 7:
				budget = min(budget, math.MaxInt64/4) * 2
			}
			l.budget = budget
			before := l.now
			d, changed := l.step(r)
			switch {
			case d.GOGC < floor || d.GOGC > ceiling:
				t.Fatalf("GOGC %d after %+v", d.GOGC, r)
			case d.Limit < smallest || d.Limit < limit(budget):
				t.Fatalf("limit %d after %+v", d.Limit, r)
			case d.Mode == Within && (d.Limit != limit(budget) || d.GOGC != ceiling), d.Mode == Over && d.Limit != l.top(), d.Mode > Over:
				t.Fatalf("%+v after %+v", d, r)
			case !changed && (d.Mode != before.Mode || d.GOGC != before.GOGC || d.Limit != before.Limit || d.Why != before.Why), changed && d.Why == "":
				t.Fatalf("changed %v: %+v, before %+v", changed, d, before)
			case !(d.GCShare >= 0 && d.GCShare <= 1 && d.AssistShare >= 0 && d.AssistShare <= 1) || d.Live < 0:
				t.Fatalf("%+v after %+v", d, r)
			}
		}
	})
}
