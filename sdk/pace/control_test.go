package pace

import (
	"context"
	"math"
	"testing"
	"time"
)

func quiet() signals { return signals{room: math.Inf(1)} }

func TestTheAllowanceFollowsWhatIsSeen(t *testing.T) {
	target := 2 * time.Millisecond
	cases := []struct {
		name   string
		target time.Duration
		seen   signals
		want   float64 // of 4 permits, after one step from 2
		slowed bool
	}{
		{"all is well", target, quiet(), 2.2, false},
		{"a wake-up by the network took too long", target, signals{wakeup: 3 * time.Millisecond, room: math.Inf(1)}, 1, true},
		{"a wake-up took as long as it may", target, signals{wakeup: target, room: math.Inf(1)}, 2.2, false},
		{"goroutines waited for a P", target, signals{late: 2, room: math.Inf(1)}, 1, true},
		{"one goroutine waited for a P", target, signals{late: 1, room: math.Inf(1)}, 2.2, false},
		{"the world stood still", target, signals{stop: 3 * time.Millisecond, room: math.Inf(1)}, 1, true},
		{"without a target nothing is late", 0, signals{wakeup: time.Second, late: 100, stop: time.Second, room: math.Inf(1)}, 2.2, false},
		{"the group was stopped", 0, signals{throttled: true, room: math.Inf(1)}, 1, true},
		{"the quota leaves little", 0, signals{room: 0.5}, 0.5, true},
		{"the quota leaves enough", 0, signals{room: 10}, 2.2, false},
		{"the quota leaves nothing", 0, signals{room: -1}, 0.05, true},
		{"nobody knows what the quota leaves", 0, signals{room: math.NaN()}, 2.2, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Target: c.target}
			if err := o.complete(); err != nil {
				t.Fatal(err)
			}
			s := newControl(o, 4)
			s.allowance = 2
			if slowed := s.step(c.seen); math.Abs(s.allowance-c.want) > 1e-9 || slowed != c.slowed {
				t.Errorf("%v cores, slowed %v; want %v, %v", s.allowance, slowed, c.want, c.slowed)
			}
		})
	}
}

func TestTheAllowanceAndTheSliceComeBack(t *testing.T) {
	o := Options{Target: time.Millisecond}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	c := newControl(o, 4)
	for i := 0; i < 50; i++ {
		c.step(signals{wakeup: time.Second})
	}
	if c.allowance != 0.05 || c.slice != minSlice {
		t.Errorf("with all late: %v cores, slices of %v", c.allowance, c.slice)
	}
	for i := 0; i < upSteps; i++ {
		c.step(quiet())
	}
	if c.allowance != 4 || c.slice != defaultSlice {
		t.Errorf("after 20 steps without: %v cores, slices of %v", c.allowance, c.slice)
	}
}

// What others of the group use is not seen but by its being stopped, and that is looked at once a second.
func TestANeighbourInTheQuotaIsNotStoppedMostOfTheTime(t *testing.T) {
	const quota, neighbour, foreground = 1, 0.5, 0.1
	o := Options{}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	c := newControl(o, 2)
	const steps = 1200
	stopped, since, work := 0, 0, 0.0
	for i := 1; i <= steps; i++ {
		work += c.allowance / steps
		if neighbour+foreground+c.allowance > quota {
			stopped++
			since++
		}
		s := signals{room: headroom*quota - foreground}
		if i%10 == 0 {
			s.throttled, since = since >= 2, 0
		}
		c.step(s)
	}
	if stopped > steps/3 || work < 0.2 {
		t.Errorf("stopped in %d of %d periods; the background has %.2f of the 0.4 cores that are left", stopped, steps, work)
	}
}

func TestAGrantIsTheAllowance(t *testing.T) {
	for _, allowance := range []float64{minFloor, 0.05, 0.5, 1, 1.25, 2, 3.9, 4} {
		c := control{allowance: allowance}
		permits, rest := c.grant()
		if got := float64(permits) * 1024 / float64(1024+rest); math.Abs(got/allowance-1) > 0.01 {
			t.Errorf("%d permits with %d ns of rest for 1024 are %v cores, want %v", permits, rest, got, allowance)
		}
	}
}

// FuzzControl steps a controller with anything: what it grants stays within its bounds.
func FuzzControl(f *testing.F) {
	f.Add(int64(2e6), 2, 0.05, int64(0), []byte{0, 1, 2, 4, 8, 16, 255})
	f.Add(int64(0), 1, 1e300, int64(1e9), []byte{16, 32, 64})
	f.Add(int64(0), 1, 1e-300, int64(0), []byte{64, 64})
	f.Add(int64(0), 1000, minFloor, int64(0), []byte{64, 64})
	f.Fuzz(func(t *testing.T, target int64, permits int, floor float64, slice int64, steps []byte) {
		o := Options{Target: time.Duration(target), Permits: permits, Floor: floor, Slice: time.Duration(slice)}
		if o.complete() != nil || permits == 0 {
			return
		}
		c := newControl(o, permits)
		for _, b := range steps {
			s := quiet()
			if b&1 != 0 {
				s.wakeup = math.MaxInt64
			}
			if b&2 != 0 {
				s.late = math.MaxInt
			}
			if b&4 != 0 {
				s.stop = time.Duration(b) * time.Millisecond
			}
			s.throttled = b&8 != 0
			if b&16 != 0 {
				s.room = float64(b) / 16
			}
			if b&32 != 0 {
				s.room = math.NaN()
			}
			if b&64 != 0 {
				s.room = math.Inf(-1)
			}
			if b&128 != 0 {
				c.bound(max(1, permits/2))
			} else {
				c.bound(permits)
			}
			c.step(s)
			n, rest := c.grant()
			if !(c.allowance >= min(c.floor, c.most) && c.allowance <= c.most) || n < 1 || n > permits {
				t.Fatalf("%+v: %d permits", c, n)
			}
			// A worker multiplies the rest with an hour of work at most.
			if got := float64(n) * 1024 / float64(1024+rest); math.Abs(got/c.allowance-1) > 0.01 || rest < 0 || rest > math.MaxInt64/int64(time.Hour) {
				t.Fatalf("%+v: %d permits that rest %d are %v cores", c, n, rest, got)
			}
			if c.slice < minSlice || c.slice > maxSlice {
				t.Fatalf("slices of %v", c.slice)
			}
		}
	})
}

func TestLateGoroutinesOfTheBackgroundAreNotTheForegrounds(t *testing.T) {
	for _, c := range []struct {
		late uint64
		ours int64
		want int
	}{
		{0, 0, 0},
		{5, 0, 5},
		{10, 80, 0}, // ten of ours are expected, nine more may be chance
		{30, 80, 10},
		{0, 800, 0},
	} {
		if got := foreground(c.late, c.ours); got != c.want {
			t.Errorf("%d late, %d of the background: %d are the foreground's, want %d", c.late, c.ours, got, c.want)
		}
	}
}

func TestALayoutLeavesPsToOthers(t *testing.T) {
	cases := []struct {
		name string
		o    Options
		way  Way
		base int
		user bool
		want layout
	}{
		{"threads are lowered", Options{}, Lowered, 4, false, layout{permits: 4, raises: true}},
		{"fewer permits", Options{Permits: 1}, Lowered, 4, false, layout{permits: 1, raises: true}},
		{"more permits than Ps", Options{Permits: 6}, Nice, 4, false, layout{permits: 6, raises: true}},
		{"somebody chose GOMAXPROCS", Options{}, Lowered, 4, true, layout{permits: 3}},
		{"somebody chose one", Options{}, Lowered, 1, true, layout{permits: 1, parks: true}},
		{"and does not mind", Options{Raise: RaiseAlways}, Lowered, 4, true, layout{permits: 4, raises: true}},
		{"never", Options{Raise: RaiseNever, Permits: 9}, Lowered, 4, false, layout{permits: 3}},
		{"threads cannot be lowered", Options{Permits: 9}, Parks, 4, false, layout{permits: 4, parks: true}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := plan(c.o, c.way, c.base, c.user); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for _, o := range []Options{
		{Way: 9}, {Raise: 9}, {Permits: -1}, {Permits: 1e6}, {Slice: 1}, {Slice: time.Hour}, {Target: -1}, {Target: 1},
		{Floor: -1}, {Floor: 1e-300}, {Floor: math.NaN()}, {Floor: math.Inf(1)}, {MaxWorkers: -1}, {MaxWorkers: 1e6},
	} {
		if p, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
			p.Stop(context.Background())
		}
	}
}
