// Command sim runs sdk/breaker in virtual time against callees that are well and that become slow,
// and prints a Markdown table: false alarms per hour, and after what time faults are found. All
// that the breaker knows it has learnt. A rule that is often written by hand stands beside it.
//
//	go run ./breaker/sim
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/whylate/whylate/sdk/breaker"
)

type draw func(r *rand.Rand) float64

func lognormal(r *rand.Rand) float64 { return math.Exp(r.NormFloat64() * 0.5) }

func slower(d draw, part, times float64) draw {
	return func(r *rand.Rand) float64 {
		x := d(r)
		if r.Float64() < part {
			x *= times
		}
		return x
	}
}

var callees = []struct {
	name string
	draw draw
}{
	{"lognormal", lognormal},
	{"lognormal + 0.5 % x20", slower(lognormal, 0.005, 20)},
	{"lognormal + 1 % x20", slower(lognormal, 0.01, 20)},
	{"Pareto 2", func(r *rand.Rand) float64 { return math.Pow(1-r.Float64(), -0.5) }},
}

var faults = []struct {
	name        string
	part, times float64
}{{"5 % x20", 0.05, 20}, {"20 % x10", 0.2, 10}, {"all x2", 1, 2}, {"all x4", 1, 4}}

// rule opens, or not, after a call.
type rule interface {
	call(at time.Duration, ms float64) (opened bool)
}

// ours is the breaker itself, in virtual time.
type ours struct {
	*breaker.Breaker
	now   time.Time
	start time.Time
}

func newOurs() rule {
	o := &ours{start: time.Now()}
	o.now = o.start
	b, err := breaker.New(breaker.Options{BlameScheduler: true, Now: func() time.Time { return o.now }})
	if err != nil {
		log.Fatal(err)
	}
	o.Breaker = b
	return o
}

// call is told of a call when it begins. That it ends later is left out: 1,000 calls
// a second would have to be kept in order.
func (o *ours) call(at time.Duration, ms float64) bool {
	o.now = o.start.Add(at)
	if p, err := o.AllowAt(o.now); err == nil {
		p.DoneIn(time.Duration(ms*1e6), nil)
	}
	return o.State() == breaker.Open
}

// byHand is "the p99 of the last 100 calls is more than 1.8 times that of the last 10,000",
// looked at every 200 ms.
type byHand struct {
	calls []float64
	next  time.Duration
}

func (b *byHand) call(at time.Duration, ms float64) bool {
	b.calls = append(b.calls, ms)
	if at < b.next || len(b.calls) < 10_000 {
		return false
	}
	b.next = at + 200*time.Millisecond
	b.calls = append(b.calls[:0], b.calls[len(b.calls)-10_000:]...)
	if p99(b.calls[len(b.calls)-100:]) > 1.8*p99(b.calls) {
		b.calls = b.calls[:0]
		return true
	}
	return false
}

func p99(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[int(0.99*float64(len(v)))]
}

const step = time.Millisecond // 1,000 calls a second

func main() {
	hours := flag.Int("hours", 6, "of healthy calls, each")
	runs := flag.Int("runs", 200, "of each fault")
	flag.Parse()
	fmt.Print("| rule | callee | false alarms per hour |")
	for _, f := range faults {
		fmt.Printf(" %s: p50 / p99 |", f.name)
	}
	fmt.Println("\n|---|---|---|---|---|---|---|")
	for _, r := range []struct {
		name string
		make func() rule
	}{{"whylate breaker", newOurs}, {"p99 of 100 > 1.8 x p99 of 10,000", func() rule { return &byHand{} }}} {
		for i, c := range callees {
			fmt.Printf("| %s | %s | %.1f |", r.name, c.name, falseAlarms(r.make, c.draw, uint64(i), *hours))
			for _, f := range faults {
				p50, p99 := detection(r.make, c.draw, slower(c.draw, f.part, f.times), uint64(i), *runs)
				fmt.Printf(" %s / %s |", p50, p99)
			}
			fmt.Println()
		}
	}
}

func falseAlarms(make func() rule, d draw, seed uint64, hours int) float64 {
	r, one, n := rand.New(rand.NewPCG(9, seed)), make(), 0
	for at := time.Duration(0); at < time.Duration(hours)*time.Hour; at += step {
		if one.call(at, d(r)) {
			n++
			one = make()
		}
	}
	return float64(n) / float64(hours)
}

// detection returns after what time a fault is found that begins after half a minute.
func detection(make func() rule, well, ill draw, seed uint64, runs int) (p50, p99 string) {
	const healthy, most = 30 * time.Second, 30 * time.Second
	took := []time.Duration{}
	for run := range runs {
		r, one := rand.New(rand.NewPCG(seed, uint64(run))), make()
		at := time.Duration(0)
		for ; at < healthy; at += step {
			if one.call(at, well(r)) {
				one = make() // it has to find the fault with what it has learnt since
			}
		}
		found := time.Hour
		for ; at < healthy+most; at += step {
			if one.call(at, ill(r)) {
				found = at - healthy
				break
			}
		}
		took = append(took, found)
	}
	slices.Sort(took)
	show := func(d time.Duration) string {
		if d == time.Hour {
			return "never"
		}
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return show(took[runs/2]), show(took[runs*99/100])
}
