package cause_test

import (
	"github.com/whylate/whylate/cause"
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// Where readers and writers of an RWMutex wait for each other, and where they unlock.
var (
	rlock   = []string{"sync.runtime_SemacquireRWMutexR", "sync.(*RWMutex).RLock", "main.look", "main.serve"}
	wlock   = []string{"sync.runtime_SemacquireRWMutex", "sync.(*RWMutex).Lock", "main.refresh", "main.loop"}
	wlocked = []string{"sync.runtime_SemacquireMutex", "sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", "sync.(*RWMutex).Lock", "main.change", "main.serve"}
	wunlock = []string{"sync.(*RWMutex).Unlock", "main.refresh", "main.loop"}
	runlock = []string{"sync.(*RWMutex).rUnlockSlow", "sync.(*RWMutex).RUnlock", "main.export", "main.report"}
)

// reader is a goroutine that has a lock for reading when a writer comes.
const reader = gotrace.GoID(3)

func waitingReader(p *play) {
	waitingHelper(p)
	p.waits(reader, "", "runtime.selectgo", "main.report")
}

// behindReader lets the reader do something on P 1, for which the helper waits as a
// writer, for which the request waits as another reader.
func behindReader(meanwhile func(p *play)) func(p *play) {
	return func(p *play) {
		p.wakes(serving, reader, "main.start", "main.serve")
		p.wakes(serving, helper, "main.start", "main.serve")
		p.runs(helper, 1)
		p.waits(helper, "sync", wlock...)
		p.runs(reader, 1)
		p.leaves(serving, 0, "sync", rlock...)
		meanwhile(p)
		p.wakes(reader, helper, runlock...)
		p.waits(reader, "select", "runtime.selectgo", "main.report")
		p.runs(helper, 1)
		p.wakes(helper, serving, wunlock...)
		p.leaves(helper, 1, "select", idle...)
		p.runs(serving, 0)
	}
}

// writesBehindReader is behindReader in which the request is the writer.
func writesBehindReader(meanwhile func(p *play)) func(p *play) {
	return func(p *play) {
		p.wakes(serving, reader, "main.start", "main.serve")
		p.runs(reader, 1)
		p.leaves(serving, 0, "sync", with(wlock[:2], "main.refresh", "main.serve")...)
		meanwhile(p)
		p.wakes(reader, serving, runlock...)
		p.leaves(reader, 1, "select", "runtime.selectgo", "main.report")
		p.runs(serving, 0)
	}
}

// alternately does the one thing and the other in turn.
func alternately(one, other func(p *play)) func(p *play) {
	first := false
	return func(p *play) {
		if first = !first; first {
			one(p)
		} else {
			other(p)
		}
	}
}

// exports makes g, which runs on a P, wait in the function that reads for long.
func exports(g gotrace.GoID, on gotrace.ProcID, ns int64) func(p *play) {
	return func(p *play) {
		p.leaves(g, on, "sleep", "time.Sleep", "main.export", "main.report")
		p.pass(ns)
		p.wakes(0, g)
		p.runs(g, on)
	}
}

// behindShortWriters is twenty times behind a writer that holds the lock for a millisecond.
func behindShortWriters(p *play) {
	for range 20 {
		behindHelper("sync", rlock, wunlock, func(p *play) { p.computes(helper, 1, ms, "main.refresh", "main.loop") })(p)
	}
}

// convoy lets the crowd have a lock one after the other, and the request last. Each computes with it.
func convoy(at, release []string) func(p *play) {
	return convoyOf(at, release, func(p *play, g gotrace.GoID) { p.computes(g, 1, ms) })
}

// convoyOf is convoy in which each does something else with the lock, on P 1.
func convoyOf(at, release []string, holds func(p *play, g gotrace.GoID)) func(p *play) {
	return func(p *play) {
		for g := range crowd {
			p.wakes(serving, crowd0+g, "main.start", "main.serve")
		}
		for g := range crowd {
			p.runs(crowd0+g, 1)
			if g > 0 { // the first one has it
				p.waits(crowd0+g, "sync", at...)
			} else {
				p.do(p.b.Yields(crowd0, "preempted", p.stack("main.refresh", "main.loop")))
			}
		}
		p.leaves(serving, 0, "sync", at...)
		for g := range crowd {
			p.runs(crowd0+g, 1)
			holds(p, crowd0+g)
			next := crowd0 + g + 1
			if g == crowd-1 {
				next = serving
			}
			p.wakes(crowd0+g, next, release...)
			p.pass(ms / 1000)
			p.waits(crowd0+g, "select", "runtime.selectgo", "main.loop")
		}
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}
}

// However many hold a lock before, none of their holds is short if it takes many times as long as usual requests do in all.
func TestManyHoldersAreNoConvoyIfEachHoldsForLong(t *testing.T) {
	for _, c := range []struct {
		hold int64
		want string
	}{{ms / 2, "lock-convoy"}, {ms, "lock-convoy"}, {4 * ms, "lock-convoy"}, {6 * ms, "lock-held-across-work"}} {
		v := cause.Judge(attributed(t, scene{procs: 2, cast: crowdAtHome("main.loop"), in: every(10, convoyOf(mutex, unlock, func(p *play, g gotrace.GoID) {
			p.computes(g, 1, c.hold)
			p.b.Sample(g, p.stack("main.refresh", "main.loop"))
		}))}), cause.Settings{})
		if len(v.Findings) == 0 || v.Findings[0].Cause != c.want {
			t.Errorf("holds of %s: %s", cause.Ms(float64(c.hold)), v.Sentence)
		}
	}
}

var writerScenes = []told{
	{
		name: "the writer sleeps with the lock",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("sync", rlock, wunlock, naps(20*ms, "main.refresh", "main.loop")))},
		finding: "rwmutex-writer", where: "main.refresh", share: 1,
	},
	{
		name: "the writer calls with the lock, as all do who call",
		scene: scene{procs: 2, cast: func(p *play) {
			waitingHelper(p)
			p.waits(crowd0, "", append(home[:3:3], "net/http.(*persistConn).readLoop")...)
		}, in: every(10, behindHelper("sync", rlock, wunlock, func(p *play) {
			p.leaves(helper, 1, "select", "runtime.selectgo", "net/http.(*persistConn).roundTrip", "client.get", "main.refresh", "main.loop")
			p.pass(20 * ms)
			p.wakes(0, crowd0)
			p.runs(crowd0, 1)
			p.wakes(crowd0, helper, "runtime.chansend1", "net/http.(*persistConn).readLoop")
			p.leaves(crowd0, 1, "network", append(home[:3:3], "net/http.(*persistConn).readLoop")...)
			p.runs(helper, 1)
		}))},
		finding: "rwmutex-writer", where: "main.refresh", share: 1,
	},
	{
		name: "the writer computes with the lock",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("sync", rlock, wunlock, func(p *play) { p.computes(helper, 1, 20*ms, "main.refresh", "main.loop") }))},
		finding: "rwmutex-writer", where: "main.refresh",
	},
	{
		name:    "the writer waits for a reader that sleeps",
		scene:   scene{procs: 2, cast: waitingReader, in: every(10, behindReader(exports(reader, 1, 20*ms)))},
		finding: "rwmutex-writer", where: "main.export",
	},
	{
		name:    "the writer waits for a reader that computes",
		scene:   scene{procs: 2, cast: waitingReader, in: every(10, behindReader(func(p *play) { p.computes(reader, 1, 20*ms, "main.export", "main.report") }))},
		finding: "rwmutex-writer", where: "main.export",
	},
	{
		name: "the writer waits for a reader that does what all readers do",
		scene: scene{procs: 2, cast: waitingReader, in: then(everyTime(exports(serving, 0, ms)),
			every(10, behindReader(exports(reader, 1, 20*ms))))},
		finding: "rwmutex-writer", where: "main.export",
	},
	{
		name: "the writer does what everybody needs",
		scene: scene{procs: 2, cast: waitingHelper, in: then(every(10, behindHelper("sync", rlock, wunlock, napsIn(helper, 1, 2*ms, "main.refresh", "main.loop"))),
			everyTime(napsIn(serving, 0, ms/100, "main.refresh", "main.loop")))},
		finding: "timer-wait",
	},
	{
		name:    "many writers hold the lock shortly",
		scene:   scene{procs: 2, cast: waitingHelper, in: every(10, behindShortWriters)},
		finding: "lock-convoy", where: "main.refresh",
	},
	{
		name:    "a queue of writers",
		scene:   scene{procs: 2, cast: crowdAtHome("main.loop"), in: every(10, convoy(wlocked, wunlock))},
		finding: "lock-convoy", where: "main.refresh",
	},
	{
		name: "a writer waits for one that sleeps",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("sync", wlocked, wunlock, naps(20*ms, "main.refresh", "main.loop")))},
		finding: "lock-held-across-wait", where: "main.refresh",
	},
	{
		name: "a writer waits for a reader that sleeps",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("sync", with(wlock[:2], "main.change", "main.serve"), runlock, naps(20*ms, "main.export", "main.loop")))},
		finding: "lock-held-across-wait", where: "main.export",
	},
	{
		name:    "a reader sleeps for whom writers wait, some of them requests, and readers behind them",
		scene:   scene{procs: 2, cast: waitingReader, in: every(10, alternately(behindReader(exports(reader, 1, 20*ms)), writesBehindReader(exports(reader, 1, 20*ms))))},
		finding: "rwmutex-writer", where: "main.export", share: 1,
	},
	{
		name:  "a writer that never comes",
		scene: scene{procs: 2, last: 1000 * ms, stuck: rlock},
		alike: []string{"rwmutex-writer", "lock-held-across-wait", "lock-held-across-work"},
	},
}

func TestReadersBehindAWriterAreToldFromOtherLocks(t *testing.T) { tell(t, writerScenes) }

// The lock of a file is one, too: who has it no trace tells.
func TestWhoWaitsForAFilesLockWaitsForALock(t *testing.T) {
	alike := []string{"lock-held-across-wait", "lock-held-across-work"}
	tell(t, []told{
		{name: "flock", scene: scene{procs: 2, in: every(10, calls(serving, 20*ms, "syscall.Flock", "main.add", "main.serve"))}, alike: alike},
		{name: "fcntl", scene: scene{procs: 2, in: every(10, calls(serving, 20*ms, "golang.org/x/sys/unix.FcntlFlock", "main.add", "main.serve"))}, alike: alike},
		{name: "another call", scene: scene{procs: 2, in: every(10, calls(serving, 20*ms, "syscall.Fcntl", "main.add", "main.serve"))}},
	})
}
