package cause_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// polling is where goroutines that requests leave behind wait for their timers.
var polling = []string{"runtime.selectgo", "main.poll"}

// leaving is a service whose every request may leave goroutines behind. In every
// tenth one all of them run for a moment.
type leaving struct {
	alive []gotrace.GoID
	next  gotrace.GoID
	// reason and at are how they wait again.
	reason string
	at     []string
}

var reads = []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "main.conn"}

// newborn lets a goroutine that runs start another, which then waits, or ends.
func (l *leaving) newborn(p *play, by gotrace.GoID, at, root []string, ends bool) gotrace.GoID {
	if l.next == 0 {
		l.next = 1000
	}
	l.next++
	p.seen[l.next] = true
	p.do(p.b.Starts(by, gotrace.NoProc, l.next, p.stack(at...), p.stack(root...)))
	p.do(p.b.Yields(by, "preempted", p.stack("main.serve")))
	p.runs(l.next, 0)
	if ends {
		p.do(p.b.Ends(l.next))
	} else {
		p.waits(l.next, "select", append([]string{"runtime.selectgo"}, root...)...)
	}
	p.runs(by, 0)
	return l.next
}

// busy lets all of them run in front of the request.
func (l *leaving) busy(p *play, ns int64) {
	for _, g := range l.alive {
		p.wakes(0, g)
	}
	at := polling
	if l.at != nil {
		at = l.at
	}
	p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
	for i, g := range l.alive {
		p.runs(g, 0)
		p.pass(ns)
		if i%100 == 99 {
			p.b.Sample(g, p.stack(at[len(at)-1]))
		}
		p.waits(g, cmp.Or(l.reason, "select"), at...)
	}
	p.runs(serving, 0)
}

var startsPoll = []string{"main.watch", "main.serve"}

// ticks lets the scheduler fire the timers of all of them in front of the request.
func (l *leaving) ticks(p *play, ns int64) {
	p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
	for _, g := range l.alive {
		p.pass(ns)
		p.do(p.b.Wakes(gotrace.NoGoroutine, 0, g, 0))
	}
	for _, g := range l.alive {
		p.runs(g, 0)
		p.waits(g, "select", polling...)
	}
	p.runs(serving, 0)
}

// leaks is such a service: births says how many each request starts, and ends how
// many of these end.
func leaks(births func(i int) int, ends int) scene {
	l := &leaving{}
	return scene{procs: 1, in: func(p *play, i int) {
		for b := range births(i) {
			if g := l.newborn(p, serving, startsPoll, polling[1:], b < ends); b >= ends {
				l.alive = append(l.alive, g)
			}
		}
		if i%10 == 9 {
			l.busy(p, ms/10)
		}
	}}
}

// lasting is such a service with 100 goroutines from before the recording, where one request of so many leaves one more behind.
func lasting(of int) scene {
	l := &leaving{}
	return scene{procs: 1, cast: func(p *play) {
		for g := crowd0; g < crowd0+crowd; g++ {
			p.waits(g, "", polling...)
			l.alive = append(l.alive, g)
		}
	}, in: func(p *play, i int) {
		if i%of == of-1 {
			l.alive = append(l.alive, l.newborn(p, serving, startsPoll, polling[1:], false))
		}
		if i%10 == 9 {
			l.busy(p, ms/10)
		}
	}}
}

// unread is such a service of one P, which has goroutines behind every request, or behind none: in every tenth all of them run
// while the reply to a call has come in, and nobody polls for it.
func unread(leaves bool) scene {
	l := &leaving{}
	return scene{procs: 1, cast: func(p *play) {
		if leaves {
			return
		}
		for g := crowd0; g < crowd0+crowd; g++ {
			p.waits(g, "", polling...)
			l.alive = append(l.alive, g)
		}
	}, in: func(p *play, i int) {
		if leaves {
			l.alive = append(l.alive, l.newborn(p, serving, startsPoll, polling[1:], false))
		}
		if i%10 != 9 {
			return
		}
		for _, g := range l.alive {
			p.wakes(0, g)
		}
		p.waits(serving, "network", reply...)
		for k, g := range l.alive {
			p.runs(g, 0)
			p.pass(20 * ms / int64(len(l.alive)))
			if k%10 == 9 {
				p.b.Sample(g, p.stack("main.poll"))
			}
			if k == len(l.alive)-1 {
				p.wakes(0, serving)
			}
			p.waits(g, "select", polling...)
		}
		p.runs(serving, 0)
	}}
}

// ticking is a service whose first requests each leave a goroutine behind of which
// nothing but its timer costs anything.
func ticking(requests int) scene {
	l := &leaving{}
	return scene{procs: 1, in: func(p *play, i int) {
		if i < requests {
			l.alive = append(l.alive, l.newborn(p, serving, startsPoll, polling[1:], false))
		}
		if i%10 == 9 {
			l.ticks(p, ms/10)
		}
	}}
}

// always is n for every request.
func always(n int) func(int) int { return func(int) int { return n } }

// first is n for the first requests and rest for later ones.
func first(requests, n, rest int) func(int) int {
	return func(i int) int {
		if i < requests {
			return n
		}
		return rest
	}
}

// connections is a service with a growing number of connections, each of which has a
// goroutine beside it that polls; the connections themselves are busy if set.
func connections(themselves bool) scene {
	const acceptor = helper
	l := &leaving{}
	return scene{procs: 1, cast: waitingHelper, in: func(p *play, i int) {
		p.wakes(0, acceptor)
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.runs(acceptor, 0)
		conn := l.newborn(p, acceptor, []string{"main.accept", "main.loop"}, []string{"main.conn"}, false)
		p.waits(acceptor, "select", idle...)
		p.wakes(0, conn)
		p.runs(conn, 0)
		beside := l.newborn(p, conn, []string{"main.conn"}, polling[1:], false)
		p.waits(conn, "network", reads...)
		p.runs(serving, 0)
		if l.alive = append(l.alive, beside); themselves {
			l.alive[len(l.alive)-1] = conn
			l.reason, l.at = "network", reads
		}
		if i%10 == 9 {
			l.busy(p, ms/10)
		}
	}}
}

// ending is a service whose clients go before the recording ends.
func ending(s scene) scene {
	s.quiet = 1700 * ms
	return s
}

// short starts goroutines that end at once, beside a crowd that does not grow.
func short() scene {
	l := &leaving{}
	return scene{procs: 1, cast: crowdAtHome("main.poll"), in: func(p *play, i int) {
		l.newborn(p, serving, startsPoll, polling[1:], true)
		if i%10 == 9 {
			crowded(p, "select", polling, func(g gotrace.GoID) {
				p.pass(ms)
				if g%10 == 9 {
					p.b.Sample(crowd0+g, p.stack(polling[1:]...))
				}
			})
		}
	}}
}

// standing is a service that serves some requests on goroutines that run together for one in ten others, and have the
// same root as these. They are requests then, or not.
func standing(requests bool) scene {
	return scene{procs: 1, cast: crowdAtHome("main.serve"), in: func(p *play, i int) {
		if i%10 == 9 {
			crowded(p, "select", []string{"runtime.selectgo", "main.serve"}, func(g gotrace.GoID) {
				if requests {
					p.do(p.b.Task(crowd0+g, "request"))
				}
				p.pass(ms)
				if g%10 == 9 {
					p.b.Sample(crowd0+g, p.stack("main.serve"))
				}
				if requests {
					p.do(p.b.Done(crowd0 + g))
				}
			})
		}
	}}
}

// harmless leaves goroutines behind that never run again.
func harmless() scene {
	l := &leaving{}
	s := slow(20 * ms)
	return scene{procs: 2, in: func(p *play, i int) {
		l.newborn(p, serving, startsPoll, polling[1:], false)
		if i%10 == 9 {
			s.in(p, i)
		}
	}}
}

// renewals is a service in which many goroutines wait until the same time, for a reason and in a function, when the scheduler wakes
// each of them in front of a request.
func renewals(reason, in string) scene {
	const n = 200
	asleep := []string{in, "main.renew"}
	return scene{procs: 1, cast: func(p *play) {
		for g := range gotrace.GoID(n) {
			p.waits(crowd0+g, "", asleep...)
		}
	}, in: func(p *play, i int) {
		if i%10 != 9 {
			return
		}
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		for g := range gotrace.GoID(n) {
			p.pass(ms / 10)
			p.do(p.b.Wakes(gotrace.NoGoroutine, 0, crowd0+g, 0))
		}
		for g := range gotrace.GoID(n) {
			p.runs(crowd0+g, 0)
			p.pass(ms / 100)
			p.waits(crowd0+g, reason, asleep...)
		}
		p.runs(serving, 0)
	}}
}

// The scheduler is nobody's code: whose timers it runs is.
func TestAFloodOfTimersIsWhereTheyAre(t *testing.T) {
	for reason, in := range map[string]string{"sleep": "time.Sleep", "chan receive": "runtime.chanrecv2"} { // of a ticker
		v := cause.Judge(attributed(t, renewals(reason, in)), cause.Settings{})
		said := v.Sentence
		if len(v.Findings) > 0 {
			check(t, v, "goroutine-flood", nil)
		} else if len(v.Consistent) == 0 || v.Consistent[0].Causes[0] != "goroutine-flood" {
			t.Fatalf("%s: %s: %+v", reason, said, v.Consistent)
		}
		if !strings.Contains(said, "very many goroutines of main.renew") {
			t.Errorf("%s: %s", reason, said)
		}
	}
}

var leakScenes = []told{
	{name: "every request leaves a goroutine behind", scene: leaks(always(1), 0), finding: "goroutine-leak", where: "main.watch"},
	{name: "every request leaves a goroutine behind, and in the end there are few", scene: ending(leaks(always(1), 0)), finding: "goroutine-leak", where: "main.watch"},
	{name: "the growth slows down before the requests do", scene: ending(leaks(first(250, 4, 1), 0)), finding: "goroutine-flood"},
	{name: "the timers of what every request leaves behind", scene: ticking(400), finding: "goroutine-leak", where: "main.watch"},
	{name: "the timers of what the first requests left behind", scene: ticking(200), alike: []string{"goroutine-flood"}},
	{name: "replies wait unread while what every request leaves behind runs", scene: unread(true), finding: "goroutine-leak", where: "main.watch"},
	{name: "replies wait unread while many goroutines run", scene: unread(false), finding: "netpoll-starvation"},
	{name: "of three goroutines one ends", scene: leaks(always(3), 1), finding: "goroutine-leak", where: "main.watch"},
	{name: "of three goroutines two end", scene: leaks(always(3), 2), finding: "goroutine-flood"},
	{name: "what has leaked for long goes on slowly", scene: lasting(13), finding: "goroutine-leak", where: "main.watch"},
	{name: "what has leaked for long goes on, but hardly", scene: lasting(14), alike: []string{"goroutine-flood", "quota-too-low", "gomaxprocs-over-quota", "host-contention"}},
	{name: "the service warms up", scene: leaks(first(100, 4, 0), 0), finding: "goroutine-flood"},
	{name: "the service ramps up for half of the time", scene: leaks(first(200, 2, 0), 0), finding: "goroutine-flood"},
	{name: "the growth slows down", scene: leaks(first(300, 4, 1), 0), finding: "goroutine-flood"},
	{name: "goroutines end", scene: short(), finding: "goroutine-flood"},
	{name: "every connection has one", scene: connections(false), finding: "goroutine-flood"},
	{name: "they are connections", scene: connections(true), finding: "overload"},
	{name: "they are like those that carry requests, and carry none", scene: standing(false), finding: "goroutine-flood"},
	{name: "they carry requests", scene: standing(true), finding: "overload"},
	{name: "they do no harm", scene: harmless(), finding: "timer-wait", where: "main.retry"},
}

func TestALeakIsToldFromAFlood(t *testing.T) { tell(t, leakScenes) }

// Whether anybody feels it yet or not, goroutines that become more and more are told, and none that end.
func TestGoroutinesThatBecomeMoreAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		scene scene
		want  string
	}{
		"nobody ends them":    {leaks(always(1), 0), "Goroutines become more and more: main.watch started "},
		"nobody feels them":   {harmless(), "Goroutines become more and more: main.watch started "},
		"they end":            {leaks(always(3), 3), ""},
		"there are no others": {scene{procs: 2}, ""},
	} {
		a := attributed(t, c.scene)
		v := cause.Judge(a, cause.Settings{})
		said := ""
		if more := cause.Grows(a, v.Role); len(more) > 0 {
			said = more[0].Told(a)
		}
		if c.want == "" && said != "" || !strings.HasPrefix(said, c.want) {
			t.Errorf("%s: %q, want %q", name, said, c.want)
		}
	}
}
