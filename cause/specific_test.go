package cause_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// Stacks of system calls and of what leads to them.
var (
	filewrite      = []string{"syscall.write", "internal/poll.(*FD).Write", "os.(*File).Write"}
	logline        = append(filewrite[:3:3], "log.(*Logger).output", "log.Printf")
	loglock        = []string{"sync.(*Mutex).Lock", "log.(*Logger).output", "log.Printf", "main.serve"}
	fsync          = []string{"syscall.Fsync", "internal/poll.(*FD).Fsync", "os.(*File).Sync"}
	fileread       = []string{"syscall.pread", "internal/poll.(*FD).Pread", "os.(*File).ReadAt"}
	resolve        = []string{"net.(*conn).Read", "net.dnsPacketRoundTrip", "net.(*Resolver).exchange"}
	fileopen       = []string{"syscall.openat", "syscall.Open", "os.open", "os.openFileNolog", "os.OpenFile"}
	connect        = []string{"internal/poll.(*FD).WaitWrite", "net.(*netFD).connect", "net.(*Dialer).DialContext", "main.call", "main.serve"}
	closesReturned = []string{"syscall.Close", "internal/poll.(*FD).destroy", "net.(*netFD).Close", "net.(*conn).Close", "database/sql.(*driverConn).Close", "database/sql.(*DB).putConn", "main.audit", "main.serve"}
	closesOld      = []string{"syscall.Close", "internal/poll.(*FD).destroy", "net.(*netFD).Close", "net.(*conn).Close", "database/sql.(*driverConn).Close", "database/sql.(*DB).conn", "main.call", "main.serve"}
	closesExpired  = []string{"syscall.Close", "internal/poll.(*FD).destroy", "net.(*netFD).Close", "net.(*conn).Close", "github.com/jackc/puddle/v2.(*Pool[...]).destructResourceValue", "github.com/jackc/puddle/v2.(*Pool[...]).destroyAcquiredResource"}
	once           = []string{"sync.(*Once).doSlow", "sync.(*Once).Do", "main.serve"}
)

// with puts functions around others.
func with(inner []string, outer ...string) []string {
	return append(inner[:len(inner):len(inner)], outer...)
}

// calls is a system call, or one into C, that keeps its P.
func calls(g gotrace.GoID, ns int64, functions ...string) func(p *play) {
	return func(p *play) {
		p.do(p.b.Calls(g, p.stack(functions...)))
		p.pass(ns)
		p.do(p.b.Returns(g))
	}
}

// napsIn makes g, which runs on a P, sleep in twelve functions, for so long each.
func napsIn(g gotrace.GoID, on gotrace.ProcID, ns int64, callers ...string) func(p *play) {
	return func(p *play) {
		for i := range 12 {
			p.leaves(g, on, "sleep", append([]string{"time.Sleep", fmt.Sprintf("main.table%d", i)}, callers...)...)
			p.pass(ns)
			p.wakes(0, g)
			p.runs(g, on)
		}
	}
}

// netwaits is a wait for a peer, on P 0.
func netwaits(ns int64, functions ...string) func(p *play) {
	return func(p *play) {
		p.leaves(serving, 0, "network", functions...)
		p.pass(ns)
		p.wakes(0, serving)
		p.runs(serving, 0)
	}
}

// handshaking lets every request connect, and every tenth wait for the only P meanwhile,
// which a goroutine with that root function has: one that it started, or one that was
// always there.
func handshaking(root string, own bool) scene {
	home := []string{"runtime.selectgo", root}
	return scene{procs: 1, cast: func(p *play) { p.waits(helper, "", home...) }, in: func(p *play, i int) {
		netwaits(ms/2, connect...)(p)
		if i%10 != 9 {
			return
		}
		g := helper
		if own {
			g = gotrace.GoID(1000 + i)
			p.do(p.b.Starts(serving, gotrace.NoProc, g, p.stack("main.call", "main.serve"), p.stack(root)))
		} else {
			p.wakes(0, g)
		}
		p.do(p.b.Yields(serving, "preempted", p.stack("main.call", "main.serve")))
		p.runs(g, 0)
		p.computes(g, 0, 20*ms, "math/big.nat.expNN", root)
		if own {
			p.do(p.b.Ends(g))
		} else {
			p.waits(g, "select", home...)
		}
		p.runs(serving, 0)
	}}
}

// sleeps lets every request sleep for a millisecond, and every nth for longer.
func sleeps(longer func(i int) int64, n int) func(p *play, i int) {
	return func(p *play, i int) {
		d := ms
		if i%n == n-1 {
			d = longer(i)
		}
		p.leaves(serving, 0, "sleep", "time.Sleep", "main.pause", "main.serve")
		p.pass(d)
		p.wakes(0, serving)
		p.runs(serving, 0)
	}
}

// reconnects makes a request connect, on a goroutine of its own, until after a while it gets
// a connection that another request gives back.
func reconnects(p *play, i int) {
	get := []string{"net/http.(*Transport).getConn", "net/http.(*Client).Do", "main.call", "main.serve"}
	root := "net/http.(*Transport).startDialConnForLocked.func1"
	dial := gotrace.GoID(1000 + i)
	p.do(p.b.Starts(serving, gotrace.NoProc, dial, p.stack(with([]string{"net/http.(*Transport).startDialConnForLocked", "net/http.(*Transport).queueForDial"}, get...)...), p.stack(root)))
	p.runs(dial, 1)
	p.leaves(dial, 1, "network", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "crypto/tls.(*Conn).HandshakeContext", "net/http.(*Transport).dialConn", root)
	p.leaves(serving, 0, "select", with([]string{"runtime.selectgo"}, get...)...)
	p.pass(20 * ms)
	p.wakes(0, helper)
	p.runs(helper, 1)
	p.wakes(helper, serving, "runtime.chansend1", "net/http.(*wantConn).tryDeliver", "net/http.(*Transport).tryPutIdleConn", "net/http.(*persistConn).readLoop")
	p.leaves(helper, 1, "select", idle...)
	p.runs(serving, 0)
	p.wakes(0, dial)
	p.runs(dial, 1)
	p.do(p.b.Ends(dial))
	p.do(p.b.Idle(1, gotrace.NoProc))
}

// idlesUntil makes a request wait until one that works for all has got something from a
// goroutine that carries requests itself, and did not have any until then.
func idlesUntil(p *play) {
	p.leaves(serving, 0, "chan receive", "runtime.chanrecv1", "main.ask", "main.serve")
	p.pass(20 * ms)
	p.wakes(0, other)
	p.runs(other, 1)
	p.do(p.b.Task(other, "request"))
	p.pass(ms / 10)
	p.wakes(other, helper, "runtime.chansend1", "main.offer", "main.serve")
	p.do(p.b.Done(other))
	p.leaves(other, 1, "network", home...)
	p.runs(helper, 1)
	p.wakes(helper, serving, "runtime.chansend1", "main.grant", "main.loop")
	p.leaves(helper, 1, "select", idle...)
	p.runs(serving, 0)
}

// anyTime is a length that differs from request to request.
func anyTime(i int) int64 { return int64(10+i%30) * ms }

// readies makes the goroutine that serves ready again, and its thread late, in every
// fifth request.
func readies(late int64) func(p *play, i int) {
	return func(p *play, i int) {
		if i%5 != 0 {
			return
		}
		p.do(p.b.Yields(serving, "", p.stack("runtime.Gosched", "main.serve")))
		p.do(p.b.Idle(0, gotrace.NoProc))
		p.pass(late)
		p.runs(serving, 0)
	}
}

// profiled takes a CPU sample in every request.
func profiled(do func(p *play, i int)) func(p *play, i int) {
	return func(p *play, i int) {
		p.b.Sample(serving, p.stack("main.serve"))
		do(p, i)
	}
}

// then does one thing after the other, in every request.
func then(all ...func(p *play, i int)) func(p *play, i int) {
	return func(p *play, i int) {
		for _, do := range all {
			do(p, i)
		}
	}
}

// everyTime is a part of every request.
func everyTime(do func(p *play)) func(p *play, i int) { return func(p *play, _ int) { do(p) } }

// seen is a host's evidence with a look each millisecond: what looks say of a
// slow request, which is every tenth, and of other times.
func seen(static host.Static, slow, other func(s *host.Sample)) *host.Recording {
	r := &host.Recording{Static: static}
	sum := host.Sample{}
	for at := int64(0); at < 8400*ms; at += ms {
		s := sum
		s.MonoNS, s.Blocked = int64(timelinetest.Epoch)+at, nil
		s.RunNS += ms / 10
		s.UserNS += ms / 10
		// The slow ones are due every 200 ms, from the tenth on, and take 21 ms.
		if phase := at % (200 * ms); at > 0 && phase < 21*ms {
			slow(&s)
		} else {
			other(&s)
		}
		r.Samples = append(r.Samples, s)
		sum = s
	}
	return r
}

func calm(*host.Sample)      {}
func blocked(s *host.Sample) { s.Blocked = []int{1} }

// delayed is a look at a thread that waited for a CPU for a third of the time.
func delayed(s *host.Sample) {
	th := host.Thread{TID: 1}
	if len(s.Threads) > 0 {
		th = s.Threads[0]
	}
	th.RunNS, th.DelayNS, th.Slices = th.RunNS+ms/10, th.DelayNS+15*ms, th.Slices+1
	s.Threads, s.DelayNS = []host.Thread{th}, s.DelayNS+ms/3
}

func blockedAndDelayed(s *host.Sample) {
	blocked(s)
	delayed(s)
}

func faulting(s *host.Sample) { s.Blocked, s.MajorFaults = []int{1}, s.MajorFaults+2 }
func clearing(s *host.Sample) { s.MinorFaults, s.SystemNS = s.MinorFaults+200, s.SystemNS+ms }
func clearingSome(s *host.Sample) {
	s.MinorFaults, s.SystemNS = s.MinorFaults+150, s.SystemNS+ms/4
}
func kernelTime(s *host.Sample) { s.SystemNS += ms }

var piped, filed = host.Static{Stdout: "pipe", Stderr: "pipe"}, host.Static{Stdout: "file", Stderr: "file"}

// specific are small services in which every tenth request is slow because of
// work of a special kind, and look-alikes of them.
var specific = []struct {
	name  string
	scene scene
	host  *host.Recording
	// finding, where, alike and via are the first finding or set of look-alikes;
	// not is never named nor suspected.
	finding, where, via string
	alike               []string
	not                 []string
}{
	{
		name:    "the request waits until its log line is taken",
		scene:   scene{procs: 2, in: every(10, calls(serving, 20*ms, with(logline, "main.serve")...))},
		finding: "sync-logging", where: "main.serve", not: []string{"slow-disk", "lock-held-across-wait"},
	},
	{
		name: "others write their lines while the logger's lock is awaited",
		scene: scene{procs: 2, cast: waitingHelper, in: then(everyTime(calls(serving, ms/10, with(logline, "main.serve")...)),
			every(10, behindHelper("sync", loglock, []string{"sync.(*Mutex).Unlock", "log.(*Logger).output", "main.loop"}, calls(helper, 20*ms, with(logline, "main.loop")...))))},
		finding: "sync-logging", via: "lock-held-across-wait", not: []string{"slow-disk"},
	},
	{
		name: "others write their lines while the logger's lock is awaited, and then there is room",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("sync", loglock, []string{"sync.(*Mutex).Unlock", "log.(*Logger).output", "main.loop"}, calls(helper, 20*ms, with(logline, "main.loop")...)))},
		finding: "sync-logging", via: "lock-held-across-wait", not: []string{"slow-disk"},
	},
	{
		name: "a logger's lock is held while somebody syncs the file, which nobody else does",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("sync", loglock, []string{"sync.(*Mutex).Unlock", "log.(*Logger).output", "main.loop"},
				calls(helper, 20*ms, with(fsync, "go.uber.org/zap.(*Logger).Sync", "main.loop")...)))},
		finding: "lock-held-across-wait", not: []string{"sync-logging"},
	},
	{
		name: "a lock is held across a log line that its waiters do not write",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("sync", mutex, unlock, calls(helper, 20*ms, with(logline, "main.refresh", "main.loop")...)))},
		finding: "lock-held-across-wait", where: "main.refresh", not: []string{"sync-logging", "slow-disk"},
	},
	{
		name: "a lock is held across a wait, and both the holder and everybody write something",
		scene: scene{procs: 2, cast: waitingHelper, in: then(everyTime(calls(serving, ms/10, "syscall.write")),
			every(10, behindHelper("sync", mutex, unlock, func(p *play) {
				calls(helper, ms/5, "syscall.write")(p)
				naps(20*ms, "main.refresh", "main.loop")(p)
			})))},
		finding: "lock-held-across-wait", where: "main.refresh",
	},
	{
		name: "everybody waits in many places under one lock",
		scene: scene{procs: 2, cast: waitingHelper, in: then(every(10, behindHelper("sync", mutex, unlock, napsIn(helper, 1, 2*ms, "main.refresh", "main.loop"))),
			everyTime(napsIn(serving, 0, ms/100, "main.refresh", "main.loop")))},
		finding: "timer-wait", via: "lock-held-across-wait", not: []string{"lock-held-across-wait"},
	},
	{
		name: "a full queue in front of a goroutine that writes the log",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("chan send", send, []string{"runtime.chanrecv1", "main.consume", "main.loop"}, calls(helper, 20*ms, with(logline, "main.consume", "main.loop")...)))},
		finding: "back-pressure", where: "main.consume", not: []string{"sync-logging"},
	},
	{
		name: "a logger's lock in front of that queue, which its holder has to wait for",
		scene: scene{procs: 2, cast: func(p *play) {
			p.waits(helper, "", idle...)
			p.waits(other, "", home...)
		}, in: every(10, logsThrough)},
		finding: "back-pressure", where: "main.consume", not: []string{"sync-logging", "lock-held-across-wait"},
	},
	{
		name:  "a bare write may be a log or data",
		scene: scene{procs: 2, in: every(10, calls(serving, 20*ms, with(filewrite, "main.note", "main.serve")...))},
		alike: []string{"sync-logging", "slow-disk"},
	},
	{
		name: "a bare write that waits for the poller, as in a pipe",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			p.leaves(serving, 0, "network", "internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).waitWrite", "internal/poll.(*FD).Write", "os.(*File).Write", "main.note", "main.serve")
			p.pass(20 * ms)
			p.wakes(0, serving)
			p.runs(serving, 0)
		})},
		finding: "sync-logging", where: "main.note", not: []string{"slow-disk", "slow-dependency"},
	},
	{
		name:    "a bare write for which no thread waits for a device, into a pipe",
		scene:   scene{procs: 2, in: every(10, calls(serving, 20*ms, with(filewrite, "main.note", "main.serve")...))},
		host:    seen(piped, calm, calm),
		finding: "sync-logging", where: "main.note", not: []string{"slow-disk"},
	},
	{
		name: "the same, but who writes has opened a file before",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			calls(serving, ms/10, with(fileopen, "main.note", "main.serve")...)(p)
			calls(serving, 20*ms, with(filewrite, "main.note", "main.serve")...)(p)
		})},
		host:  seen(piped, calm, calm),
		alike: []string{"sync-logging", "slow-disk"},
	},
	{
		name:    "a bare write for which threads wait for a device, but standard output is a pipe",
		scene:   scene{procs: 2, in: every(10, calls(serving, 20*ms, with(filewrite, "main.note", "main.serve")...))},
		host:    seen(piped, blocked, calm),
		finding: "slow-disk", where: "main.note", not: []string{"sync-logging"},
	},
	{
		name:  "a bare write for which threads wait for a device, and the log is a file",
		scene: scene{procs: 2, in: every(10, calls(serving, 20*ms, with(filewrite, "main.note", "main.serve")...))},
		host:  seen(filed, blocked, calm),
		alike: []string{"sync-logging", "slow-disk"},
	},
	{
		name:    "the request syncs a file",
		scene:   scene{procs: 2, in: every(10, calls(serving, 20*ms, with(fsync, "main.commit", "main.serve")...))},
		finding: "slow-disk", where: "main.commit", not: []string{"sync-logging", "slow-cgo"},
	},
	{
		name:    "the request syncs a file, threads wait for the device, and a third of that time for a CPU",
		scene:   scene{procs: 2, in: every(10, calls(serving, 20*ms, with(fsync, "main.commit", "main.serve")...))},
		host:    seen(filed, blockedAndDelayed, calm),
		finding: "slow-disk", where: "main.commit",
	},
	{
		name: "the request syncs a file, and threads wait for a CPU",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			calls(serving, p.vary(20*ms), with(fsync, "main.commit", "main.serve")...)(p)
		})},
		host:  seen(filed, delayed, calm),
		alike: []string{"slow-disk", "host-contention"},
	},
	{
		name:    "the request sleeps in a system call",
		scene:   scene{procs: 2, in: every(10, calls(serving, 20*ms, "syscall.Nanosleep", "main.pause", "main.serve"))},
		finding: "timer-wait", where: "main.pause", not: []string{"slow-disk", "slow-cgo"},
	},
	{
		name:  "some sleeps are longer, of any length",
		scene: scene{procs: 2, in: then(sleeps(anyTime, 10), readies(ms/20))},
		alike: []string{"timer-wait", "host-contention", "quota-too-low", "gomaxprocs-over-quota"},
	},
	{
		name:    "some sleeps are longer, of any length, on a host where threads are on time",
		scene:   scene{procs: 2, in: then(sleeps(anyTime, 10), readies(ms/20))},
		host:    seen(host.Static{}, calm, calm),
		finding: "timer-wait", where: "main.pause",
	},
	{
		name:  "some sleeps are longer, of any length, and threads are late",
		scene: scene{procs: 2, in: then(sleeps(anyTime, 10), readies(3*ms))},
		host:  seen(host.Static{}, calm, calm),
		alike: []string{"timer-wait", "host-contention"},
	},
	{
		name:    "some sleeps are longer, all alike, and threads are late",
		scene:   scene{procs: 2, in: then(sleeps(func(int) int64 { return 30 * ms }, 10), readies(3*ms))},
		finding: "timer-wait", where: "main.pause",
	},
	{
		name: "few sleep at all, all for as long but one, and threads are late",
		scene: scene{procs: 2, in: then(func(p *play, i int) {
			if i%10 == 9 {
				waitsOn("sleep", map[bool]int64{true: 35 * ms, false: 25 * ms}[i == 199], []string{"time.Sleep", "main.pause", "main.serve"})(p, serving, 0)
			}
		}, readies(3*ms))},
		finding: "timer-wait", where: "main.pause",
	},
	{
		name: "the request tries again and again to lock a database",
		scene: scene{procs: 2, in: every(10, calls(serving, 20*ms, "modernc.org/libc.Xnanosleep", "modernc.org/sqlite/lib._unixSleep",
			"modernc.org/sqlite/lib._sqliteDefaultBusyCallback", "modernc.org/sqlite.(*conn).step", "main.save", "main.serve"))},
		alike: []string{"timer-wait", "lock-held-across-wait", "lock-held-across-work"},
	},
	{
		name:    "a database in Go syncs its log",
		scene:   scene{procs: 2, in: every(10, calls(serving, 20*ms, "modernc.org/libc.Xfsync", "modernc.org/sqlite/lib._unixSync", "modernc.org/sqlite.(*conn).step", "main.save", "main.serve"))},
		finding: "slow-disk", where: "main.save",
	},
	{
		name: "the request writes to a file and syncs it",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			calls(serving, 12*ms, with(filewrite, "main.commit", "main.serve")...)(p)
			calls(serving, 8*ms, with(fsync, "main.commit", "main.serve")...)(p)
		})},
		host:    seen(filed, blocked, calm),
		finding: "slow-disk", where: "main.commit", not: []string{"sync-logging"},
	},
	{
		name: "the request writes to a file and syncs it, without the host's evidence",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			calls(serving, 12*ms, with(filewrite, "main.commit", "main.serve")...)(p)
			calls(serving, 8*ms, with(fsync, "main.commit", "main.serve")...)(p)
		})},
		not: []string{"sync-logging"},
	},
	{
		name: "a function writes slowly that synced a file once, at the start",
		scene: scene{procs: 2, in: func(p *play, i int) {
			if i == 0 {
				calls(serving, ms, with(fsync, "main.note", "main.serve")...)(p)
			}
			every(10, calls(serving, 20*ms, with(filewrite, "main.note", "main.serve")...))(p, i)
		}},
		alike: []string{"sync-logging", "slow-disk"},
	},
	{
		name: "a function syncs quickly what it stores, and writes slowly into a pipe",
		scene: scene{procs: 2, in: then(everyTime(calls(serving, ms/10, with(fsync, "main.note", "main.serve")...)),
			every(10, calls(serving, 20*ms, with(filewrite, "main.note", "main.serve")...)))},
		host:    seen(piped, calm, calm),
		finding: "sync-logging", where: "main.note", not: []string{"slow-disk"},
	},
	{
		name: "a function syncs and writes slowly, but no thread waits for a device, and standard output is a pipe",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			calls(serving, 4*ms, with(fsync, "main.note", "main.serve")...)(p)
			calls(serving, 16*ms, with(filewrite, "main.note", "main.serve")...)(p)
		})},
		host:    seen(piped, calm, calm),
		finding: "sync-logging", where: "main.note",
	},
	{
		name: "all sync under one lock",
		scene: scene{procs: 2, cast: waitingHelper, in: then(everyTime(calls(serving, ms/10, with(fsync, "main.commit", "main.serve")...)),
			every(10, behindHelper("sync", mutex, unlock, calls(helper, 20*ms, with(fsync, "main.commit", "main.loop")...))))},
		finding: "slow-disk", where: "main.commit", via: "lock-held-across-wait",
	},
	{
		name: "a lock is held across a sync that its waiters do not need",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("sync", mutex, unlock, calls(helper, 20*ms, with(fsync, "main.refresh", "main.loop")...)))},
		finding: "lock-held-across-wait", where: "main.refresh", not: []string{"slow-disk"},
	},
	{
		name: "a goroutine syncs for the request",
		scene: scene{procs: 2, cast: waitingHelper, in: func(p *play, i int) {
			d := ms / 10
			if i%10 == 9 {
				d = 20 * ms
			}
			behindHelper("chan receive", receive, []string{"runtime.chansend1", "main.answer", "main.loop"}, calls(helper, d, with(fsync, "main.flush", "main.loop")...))(p)
		}},
		finding: "slow-disk", where: "main.flush", via: "single-worker",
	},
	{
		name:  "reading a file without the host's evidence",
		scene: scene{procs: 2, in: every(10, calls(serving, 20*ms, with(fileread, "main.load", "main.serve")...))},
		alike: []string{"slow-disk", "host-contention"}, not: []string{"sync-logging"},
	},
	{
		name:    "reading a file while threads wait for a device",
		scene:   scene{procs: 2, in: every(10, calls(serving, 20*ms, with(fileread, "main.load", "main.serve")...))},
		host:    seen(piped, blocked, calm),
		finding: "slow-disk", where: "main.load",
	},
	{
		name:  "reading a file while no thread waits for a device",
		scene: scene{procs: 2, in: every(10, calls(serving, 20*ms, with(fileread, "main.load", "main.serve")...))},
		host:  seen(piped, calm, calm),
		not:   []string{"slow-disk", "sync-logging", "slow-cgo"},
	},
	{
		name:    "opening a file on a file system that shows no wait for a device",
		scene:   scene{procs: 2, in: profiled(every(10, calls(serving, 20*ms, with(fileopen, "main.load", "main.serve")...)))},
		host:    seen(filed, calm, calm),
		finding: "slow-disk", where: "main.load",
	},
	{
		name:  "opening a file while threads wait for a CPU",
		scene: scene{procs: 2, in: profiled(every(10, calls(serving, 20*ms, with(fileopen, "main.load", "main.serve")...)))},
		host:  seen(filed, delayed, calm),
		alike: []string{"slow-disk", "host-contention"},
	},
	{
		name: "many quick questions about files, which the kernel computes",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			for i := range 40 {
				calls(serving, ms, "syscall.fstatat", "syscall.Lstat", "os.Lstat", "main.list", "main.serve")(p)
				if i%10 == 9 {
					p.b.Sample(serving, p.stack("syscall.fstatat", "syscall.Lstat", "os.Lstat", "main.list", "main.serve"))
				}
			}
		})},
		host: seen(filed, calm, calm),
		not:  []string{"slow-disk"},
	},
	{
		name:    "a file's attributes are asked for without package os",
		scene:   scene{procs: 2, in: profiled(every(10, calls(serving, 20*ms, "golang.org/x/sys/unix.Fgetxattr", "main.tags", "main.serve")))},
		host:    seen(filed, calm, calm),
		finding: "slow-disk", where: "main.tags",
	},
	{
		name:  "some system call is no disk",
		scene: scene{procs: 2, in: every(10, calls(serving, 20*ms, "syscall.wait4", "os.(*Process).Wait", "main.render", "main.serve"))},
		not:   []string{"slow-disk", "sync-logging", "slow-cgo"},
	},
	{
		name:    "C holds the call",
		scene:   scene{procs: 2, in: every(10, calls(serving, 20*ms, "main._Cfunc_pack", "main.encode", "main.serve"))},
		finding: "slow-cgo", where: "main.encode", not: []string{"slow-disk", "syscall-handoff"},
	},
	{
		name: "a lock is held across a call into C that its waiters do not need",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("sync", mutex, unlock, calls(helper, 20*ms, "main._Cfunc_pack", "main.refresh", "main.loop")))},
		finding: "lock-held-across-wait", where: "main.refresh", not: []string{"slow-cgo"},
	},
	{
		name: "the pointers of an argument are checked",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			p.computes(serving, 0, 30*ms, "runtime.cgoCheckUnknownPointer", "runtime.cgoCheckPointer", "main.encode", "main.serve")
		})},
		finding: "slow-cgo", where: "main.encode", not: []string{"expensive-request"},
	},
	{
		name:    "pages have to be read from a device",
		scene:   scene{procs: 2, in: every(10, func(p *play) { p.computes(serving, 0, 19*ms) })},
		host:    seen(piped, faulting, calm),
		finding: "page-faults", not: []string{"slow-disk", "expensive-request"},
	},
	{
		name:    "the kernel finds and clears pages",
		scene:   scene{procs: 2, in: every(10, func(p *play) { p.computes(serving, 0, 19*ms, "main.grow", "main.serve") })},
		host:    seen(piped, clearing, calm),
		finding: "page-faults", where: "main.grow", not: []string{"expensive-request"},
	},
	{
		name:    "the kernel computes without faults",
		scene:   scene{procs: 2, in: every(10, func(p *play) { p.computes(serving, 0, 40*ms, "main.scale", "main.serve") })},
		host:    seen(piped, kernelTime, calm),
		finding: "expensive-request", not: []string{"page-faults"},
	},
	{
		name:    "pages fault all the time alike",
		scene:   scene{procs: 2, in: every(10, func(p *play) { p.computes(serving, 0, 40*ms, "main.scale", "main.serve") })},
		host:    seen(piped, clearing, clearing),
		finding: "expensive-request", not: []string{"page-faults"},
	},
	{
		name:    "requests like the slow ones have the kernel clear pages at other times, too",
		scene:   scene{procs: 2, in: every(10, func(p *play) { p.computes(serving, 0, 40*ms, "main.paint", "main.serve") })},
		host:    seen(piped, clearing, clearingSome),
		finding: "page-faults", where: "main.paint", not: []string{"expensive-request"},
	},
	{
		name:    "pages fault while the request is in a system call",
		scene:   scene{procs: 2, in: every(10, calls(serving, 20*ms, with(fsync, "main.commit", "main.serve")...))},
		host:    seen(piped, faulting, calm),
		finding: "slow-disk", not: []string{"page-faults"},
	},
	{
		name:    "a name is resolved",
		scene:   scene{procs: 2, in: every(10, netwaits(20*ms, with(resolve, "net.(*Resolver).lookupIP", "main.call", "main.serve")...))},
		finding: "slow-dns", where: "main.call", not: []string{"slow-dependency", "dial-per-request"},
	},
	{
		name:    "C resolves a name",
		scene:   scene{procs: 2, in: every(10, calls(serving, 20*ms, "net._C2func_getaddrinfo", "net.cgoLookupIP", "main.call", "main.serve"))},
		finding: "slow-dns", where: "main.call", not: []string{"slow-cgo", "slow-dependency"},
	},
	{
		name:    "every request connects",
		scene:   scene{procs: 2, in: then(everyTime(netwaits(ms/2, connect...)), every(10, netwaits(20*ms, connect...)))},
		finding: "dial-per-request", where: "main.call", not: []string{"slow-dependency", "cold-start"},
	},
	{
		name:    "every request connects, and some wait for a P behind the handshakes of others",
		scene:   handshaking("net/http.(*persistConn).addTLS.func2", true),
		finding: "dial-per-request", not: []string{"cpu-hog", "netpoll-starvation"},
	},
	{
		name:    "every request connects, and some wait for a P behind a computation",
		scene:   handshaking("main.loop", true),
		finding: "cpu-hog", not: []string{"dial-per-request"},
	},
	{
		name:    "every request connects, and some wait for a P behind handshakes that are no request's",
		scene:   handshaking("net/http.(*persistConn).addTLS.func2", false),
		finding: "cpu-hog", not: []string{"dial-per-request"},
	},
	{
		name: "every tenth request that calls connects",
		scene: scene{procs: 2, in: func(p *play, i int) {
			if i%10 == 0 {
				netwaits(20*ms, connect...)(p)
			} else {
				netwaits(ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call")(p)
			}
		}},
		alike: []string{"dial-per-request", "slow-dependency"}, not: []string{"cold-start"},
	},
	{
		name: "one goroutine ends all waits, and nobody knows what it waited for",
		scene: scene{procs: 2, cast: func(p *play) {
			p.waits(helper, "", idle...)
			p.waits(other, "", home...)
		}, in: every(10, idlesUntil)},
		alike: []string{"single-worker", "slow-dependency", "slow-client", "back-pressure"},
	},
	{
		name: "one goroutine answers what another one computes before",
		scene: scene{procs: 2, cast: func(p *play) {
			p.waits(helper, "", idle...)
			p.waits(third, "", "runtime.chanrecv1", "main.label")
		}, in: func(p *play, i int) {
			d := ms / 10
			if i%10 == 9 {
				d = 20 * ms
			}
			p.wakes(serving, helper, "runtime.chansend1", "main.ask", "main.serve")
			p.runs(helper, 1)
			p.leaves(serving, 0, "chan receive", receive...)
			p.computes(helper, 1, d, "main.normalize", "main.loop")
			p.wakes(helper, third, "runtime.chansend1", "main.loop")
			p.leaves(helper, 1, "select", idle...)
			p.runs(third, 1)
			p.wakes(third, serving, "runtime.chansend1", "main.label")
			p.leaves(third, 1, "chan receive", "runtime.chanrecv1", "main.label")
			p.runs(serving, 0)
		}},
		finding: "single-worker", where: "main.normalize",
	},
	{
		name: "every third request that calls connects",
		scene: scene{procs: 2, in: func(p *play, i int) {
			if i%3 == 0 {
				netwaits(20*ms, connect...)(p)
			} else {
				netwaits(ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call")(p)
			}
		}},
		finding: "dial-per-request", where: "main.call", not: []string{"slow-dependency", "cold-start"},
	},
	{
		name: "every third request connects, but first gets a connection that another gives back",
		scene: scene{procs: 2, cast: waitingHelper, in: func(p *play, i int) {
			if i%3 == 0 {
				reconnects(p, i)
			}
			netwaits(ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call")(p)
		}},
		finding: "dial-per-request", where: "main.call", not: []string{"pool-exhausted", "single-worker", "slow-dependency"},
	},
	{
		name: "every tenth request calls, and connects",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			netwaits(20*ms, connect...)(p)
			netwaits(ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call")(p)
		})},
		finding: "dial-per-request", where: "main.call", not: []string{"slow-dependency", "cold-start"},
	},
	{
		name: "every tenth request that calls connects, and all of these close what they do not give back",
		scene: scene{procs: 2, in: func(p *play, i int) {
			if i%10 == 0 {
				netwaits(20*ms, "internal/poll.(*FD).WaitWrite", "net.(*netFD).connect", "net.(*Dialer).DialContext", "database/sql.(*DB).conn", "main.call")(p)
				calls(serving, ms/100, closesReturned...)(p)
			} else {
				netwaits(ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call")(p)
			}
		}},
		finding: "dial-per-request", where: "main.call", not: []string{"slow-dependency", "cold-start"},
	},
	{
		name: "every tenth request that calls finds a connection that is too old, and connects",
		scene: scene{procs: 2, in: func(p *play, i int) {
			if i%10 == 0 {
				calls(serving, ms/100, closesOld...)(p)
				netwaits(20*ms, "internal/poll.(*FD).WaitWrite", "net.(*netFD).connect", "net.(*Dialer).DialContext", "database/sql.(*DB).conn", "main.call")(p)
			} else {
				netwaits(ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call")(p)
			}
		}},
		finding: "dial-per-request", where: "main.call", not: []string{"slow-dependency", "cold-start"},
	},
	{
		name: "every tenth request that calls connects, and fails to at first",
		scene: scene{procs: 2, in: func(p *play, i int) {
			if i%10 == 0 {
				calls(serving, ms/100, "syscall.Close", "internal/poll.(*FD).destroy", "net.(*netFD).Close", "net.socket", "net.(*Dialer).DialContext", "database/sql.(*DB).conn", "main.call")(p)
				netwaits(20*ms, "internal/poll.(*FD).WaitWrite", "net.(*netFD).connect", "net.(*Dialer).DialContext", "database/sql.(*DB).conn", "main.call")(p)
			} else {
				netwaits(ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call")(p)
			}
		}},
		alike: []string{"dial-per-request", "slow-dependency"}, not: []string{"cold-start"},
	},
	{
		name: "every tenth request that calls connects, as a pool destroys what has expired",
		scene: scene{procs: 2, in: func(p *play, i int) {
			if i%10 == 0 {
				calls(serving, ms/100, closesExpired...)(p)
				netwaits(20*ms, "internal/poll.(*FD).WaitWrite", "net.(*netFD).connect", "net.(*Dialer).DialContext", "github.com/jackc/puddle/v2.(*Pool[...]).acquire", "main.call")(p)
			} else {
				netwaits(ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call")(p)
			}
		}},
		finding: "dial-per-request", where: "main.call", not: []string{"slow-dependency", "cold-start"},
	},
	{
		name: "every tenth request that calls connects, and closes a connection of another pool",
		scene: scene{procs: 2, in: func(p *play, i int) {
			if i%10 == 0 {
				netwaits(20*ms, connect...)(p)
				calls(serving, ms/100, closesReturned...)(p)
			} else {
				netwaits(ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call")(p)
			}
		}},
		alike: []string{"dial-per-request", "slow-dependency"}, not: []string{"cold-start"},
	},
	{
		name: "every tenth request connects in another function than that which calls",
		scene: scene{procs: 2, in: func(p *play, i int) {
			if i%10 == 0 {
				netwaits(20*ms, connect...)(p)
			}
			netwaits(ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask")(p)
		}},
		alike: []string{"dial-per-request", "slow-dependency"}, not: []string{"cold-start"},
	},
	{
		name: "one connection is made, and used again",
		scene: scene{procs: 2, requests: 60, in: func(p *play, i int) {
			if i < 2 {
				netwaits(20*ms, connect...)(p)
			}
		}},
		finding: "cold-start", where: "main.call", not: []string{"dial-per-request", "slow-dependency"},
	},
	{
		name: "some requests run a one-time initialisation",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			p.leaves(serving, 0, "sleep", with([]string{"time.Sleep", "main.load"}, once...)...)
			p.pass(20 * ms)
			p.wakes(0, serving)
			p.runs(serving, 0)
		})},
		finding: "cold-start", where: "main.load", not: []string{"timer-wait"},
	},
	{
		name: "some requests await another's initialisation",
		scene: scene{procs: 2, cast: waitingHelper, in: every(10, behindHelper("sync", with([]string{"sync.(*Mutex).Lock"}, once...),
			[]string{"sync.(*Mutex).Unlock", "sync.(*Once).doSlow", "main.loop"}, naps(20*ms, with([]string{"main.load"}, "sync.(*Once).doSlow", "main.loop")...)))},
		finding: "cold-start", not: []string{"lock-held-across-wait"},
	},
	{
		name: "what a one-time initialisation computes",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			p.computes(serving, 0, 40*ms, with([]string{"main.scan", "main.parse"}, once...)...)
		})},
		finding: "cold-start", where: "main.parse", not: []string{"expensive-request"},
	},
	{
		name: "every request has something of its own to initialise once",
		scene: scene{procs: 2, in: func(p *play, i int) {
			d := ms / 2
			if i%10 == 9 {
				d = 20 * ms
			}
			p.leaves(serving, 0, "sleep", with([]string{"time.Sleep", "main.load"}, once...)...)
			p.pass(d)
			p.wakes(0, serving)
			p.runs(serving, 0)
		}},
		finding: "timer-wait", not: []string{"cold-start"},
	},
	{
		name: "many return from calls at once, and each has to wait for a P",
		scene: scene{procs: 1, cast: crowdServes, in: every(10, func(p *play) {
			p.do(p.b.Calls(serving, p.stack("main._Cfunc_pack", "main.encode", "main.serve")))
			p.do(p.b.Idle(0, 7))
			p.pass(ms / 10)
			crowdWorks(p, func() { p.do(p.b.Returns(serving)) })
			p.runs(serving, 0)
		})},
		finding: "syscall-handoff", where: "main.encode", not: []string{"overload", "cpu-hog", "slow-cgo"},
	},
	{
		name: "many requests are ready at once, and none was in a call",
		scene: scene{procs: 1, cast: crowdServes, in: every(10, func(p *play) {
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			crowdWorks(p, func() {})
			p.runs(serving, 0)
		})},
		finding: "overload", not: []string{"syscall-handoff"},
	},
	{
		name: "many requests are ready at once behind calls that keep the P",
		scene: scene{procs: 1, cast: crowdServes, in: every(10, func(p *play) {
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			crowdDoes(p, func() {}, func(g gotrace.GoID) {
				p.pass(ms / 2)
				p.do(p.b.Calls(g, p.stack("main._Cfunc_pack", "main.encode", "main.serve")))
				p.pass(ms)
				p.do(p.b.Returns(g))
			})
			p.runs(serving, 0)
		})},
		finding: "syscall-handoff", where: "main.encode", not: []string{"overload", "slow-cgo"},
	},
	{
		name: "others are ready at once behind such as initialise something once",
		scene: scene{procs: 1, cast: crowdServes, in: every(100, func(p *play) {
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			crowdDoes(p, func() {}, func(g gotrace.GoID) {
				for range 8 {
					p.pass(5 * ms / 2)
					p.b.Sample(g, p.stack(with([]string{"main.compile", "main.rules.func1"}, once...)...))
				}
			})
			p.runs(serving, 0)
		})},
		finding: "cold-start", where: "main.rules.func1", not: []string{"expensive-request"},
	},
	{
		name: "others are ready at once behind calls that keep the P of such as compute more than most",
		scene: scene{procs: 1, cast: crowdServes, in: every(30, func(p *play) {
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			crowdDoes(p, func() {}, func(g gotrace.GoID) {
				p.pass(5 * ms)
				p.do(p.b.Calls(g, p.stack("main._Cfunc_pack", "main.encode", "main.serve")))
				p.pass(20 * ms)
				p.do(p.b.Returns(g))
			})
			p.runs(serving, 0)
		})},
		finding: "syscall-handoff", where: "main.encode", not: []string{"expensive-request"},
	},
	{
		name:    "many requests are ready at once, and each writes often to its socket",
		scene:   scene{procs: 1, cast: crowdServes, in: every(10, crowdCalls(100, 10*ms/1000, "internal/poll.(*FD).WriteTo", "net.(*UDPConn).WriteTo", "main.answer", "main.serve"))},
		finding: "overload", not: []string{"syscall-handoff"},
	},
	{
		name:    "many requests are ready at once, and the kernel delivers what each writes to its socket",
		scene:   scene{procs: 1, cast: crowdServes, in: every(10, crowdCalls(20, 50*ms/1000, "internal/poll.(*FD).Write", "net.(*conn).Write", "main.answer", "main.serve"))},
		finding: "overload", not: []string{"syscall-handoff"},
	},
	{
		name:    "many requests are ready at once, and each calls C often and briefly",
		scene:   scene{procs: 1, cast: crowdServes, in: every(10, crowdCalls(100, 10*ms/1000, "main._Cfunc_hash", "main.hash", "main.serve"))},
		finding: "overload", not: []string{"syscall-handoff"},
	},
	{
		name:    "many requests are ready at once, and each calls C often and for longer",
		scene:   scene{procs: 1, cast: crowdServes, in: every(10, crowdCalls(20, 50*ms/1000, "main._Cfunc_hash", "main.hash", "main.serve"))},
		finding: "syscall-handoff", where: "main.hash", not: []string{"overload"},
	},
	{
		name: "calls of somebody who serves nobody keep the only P",
		scene: scene{procs: 1, cast: waitingHelper, in: every(10, func(p *play) {
			p.wakes(0, helper)
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			p.runs(helper, 0)
			for range 3 {
				p.computes(helper, 0, ms/10, "main.poll", "main.loop")
				calls(helper, 8*ms, "syscall.ioctl", "main.poll", "main.loop")(p)
			}
			p.waits(helper, "select", idle...)
			p.runs(serving, 0)
		})},
		finding: "syscall-handoff", where: "main.poll", not: []string{"cpu-hog"},
	},
	{
		name: "a request returns from a call while somebody else computes on the only P",
		scene: scene{procs: 1, cast: waitingHelper, in: every(10, func(p *play) {
			p.wakes(serving, helper, "main.start", "main.serve")
			p.do(p.b.Calls(serving, p.stack("main._Cfunc_pack", "main.encode", "main.serve")))
			p.do(p.b.Idle(0, 7))
			p.runs(helper, 0)
			p.pass(ms / 10)
			p.do(p.b.Returns(serving))
			p.computes(helper, 0, 20*ms, "main.model", "main.loop")
			p.waits(helper, "select", idle...)
			p.runs(serving, 0)
		})},
		finding: "cpu-hog", not: []string{"syscall-handoff", "overload"},
	},
	{
		name: "somebody computes on the only P, and other requests keep it by calls",
		scene: scene{procs: 1, cast: func(p *play) {
			waitingHelper(p)
			crowdServes(p)
		}, in: func(p *play, i int) {
			if i%10 != 9 {
				return
			}
			for _, g := range []gotrace.GoID{crowd0, crowd0 + 1, helper} {
				p.wakes(0, g)
			}
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			for _, g := range []gotrace.GoID{crowd0, crowd0 + 1} {
				p.runs(g, 0)
				p.do(p.b.Task(g, "request"))
				calls(g, 11*ms, "main._Cfunc_pack", "main.encode", "main.serve")(p)
				p.do(p.b.Done(g))
				p.waits(g, "network", home...)
			}
			p.runs(helper, 0)
			p.computes(helper, 0, 20*ms, "main.model", "main.loop")
			p.waits(helper, "select", idle...)
			p.runs(serving, 0)
		}},
		finding: "cpu-hog", where: "main.model",
	},
}

// crowdServes makes the crowd carry requests, too.
func crowdServes(p *play) {
	for g := range crowd {
		p.waits(crowd0+g, "", home...)
	}
}

// crowdWorks runs a request of a millisecond on each of the crowd, after back.
func crowdWorks(p *play, back func()) {
	crowdDoes(p, back, func(g gotrace.GoID) {
		p.pass(ms)
		if g%10 == 9 {
			p.b.Sample(g, p.stack("main.draw", "main.serve"))
		}
	})
}

// Requests that compute much more than others and come together wait behind each other: they are expensive, however much cheap ones
// compute at other times; those that compute a few times as much, and less in all, are too many.
func TestWhoComputesMoreThanOthersIsExpensiveAlsoTogether(t *testing.T) {
	for takes, want := range map[int64]string{30 * ms: "expensive-request", 12 * ms: "overload"} {
		v := cause.Judge(attributed(t, scene{procs: 1, cast: crowdServes, in: func(p *play, i int) {
			if p.computes(serving, 0, ms, "main.draw", "main.serve"); i != 99 {
				return
			}
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			for g := crowd0; g < crowd0+crowd; g++ {
				p.wakes(0, g)
				p.runs(g, 0)
				p.do(p.b.Task(g, "request"))
				p.do(p.b.Yields(g, "preempted", p.stack("main.serve")))
			}
			for g := crowd0; g < crowd0+crowd; g++ {
				p.runs(g, 0)
				p.computes(g, 0, takes, "main.load", "main.serve")
				p.do(p.b.Done(g))
				p.waits(g, "network", home...)
			}
			p.runs(serving, 0)
		}}), cause.Settings{})
		got := ""
		for _, x := range v.Consistent {
			got = x.Causes[0]
		}
		if len(v.Findings) > 0 {
			got = v.Findings[0].Cause
		}
		if got != want {
			t.Errorf("%d ns each: %s %+v", takes, v.Sentence, v.Findings)
		}
	}
}

// crowdCalls runs a request on each of the crowd that computes for 0.7 ms and makes
// n calls of ns each, at a stack.
func crowdCalls(n int, ns int64, functions ...string) func(p *play) {
	return func(p *play) {
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		crowdDoes(p, func() {}, func(g gotrace.GoID) {
			p.pass(700 * ms / 1000)
			if g%10 == 9 {
				p.b.Sample(g, p.stack("main.draw", "main.serve"))
			}
			for range n {
				calls(g, ns, functions...)(p)
				p.pass(ms / 1000)
			}
		})
		p.runs(serving, 0)
	}
}

// crowdDoes runs a request on each of the crowd, after back.
func crowdDoes(p *play, back func(), do func(g gotrace.GoID)) {
	for g := range crowd {
		p.wakes(0, crowd0+g)
	}
	p.runs(crowd0, 0)
	back()
	for g := range crowd {
		if g > 0 {
			p.runs(crowd0+g, 0)
		}
		p.do(p.b.Task(crowd0+g, "request"))
		do(crowd0 + g)
		p.do(p.b.Done(crowd0 + g))
		p.waits(crowd0+g, "network", home...)
	}
}

func TestSpecificWorkIsToldFromItsLookAlikes(t *testing.T) {
	for _, s := range specific {
		t.Run(s.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, s.scene), s.scene.onItsMachine(cause.Settings{Host: s.host}))
			var f cause.Finding
			if len(v.Findings) > 0 {
				f = v.Findings[0]
			}
			if f.Cause != s.finding || s.where != "" && (f.Where == nil || f.Where.Function != s.where) {
				t.Errorf("found %s at %+v: %s", f.Cause, f.Where, v.Sentence)
				for _, r := range v.RuledOut {
					t.Logf("not %s: %s", r.Cause, r.Because)
				}
				t.Logf("%+v %+v", v.Consistent, v.Unnamed)
			}
			if s.via != "" && !slices.Contains(f.Via, s.via) {
				t.Errorf("via %q, want %s", f.Via, s.via)
			}
			named := []string{f.Cause}
			for _, c := range v.Consistent {
				named = append(named, c.Causes[0])
			}
			if len(s.alike) > 0 && (len(v.Consistent) == 0 || !slices.Equal(v.Consistent[0].Causes, s.alike) || v.Consistent[0].Record == "") {
				t.Errorf("undecided between %+v, want %q", v.Consistent, s.alike)
			}
			for _, id := range s.not {
				if slices.Contains(named, id) {
					t.Errorf("%s is named", id)
				}
			}
		})
	}
}

// Waits after calls and others are told separately: behind calls that keep the P,
// requests that never lost it queue too.
func TestWaitsAfterCallsAreToldFromOthers(t *testing.T) {
	in := every(10, crowdCalls(20, 50*ms/1000, "main._Cfunc_hash", "main.hash", "main.serve"))
	v := cause.Judge(attributed(t, scene{procs: 1, cast: crowdServes, in: in}), cause.Settings{})
	var told []string
	for _, f := range v.Findings {
		told = append(told, f.Evidence...)
	}
	for _, r := range v.RuledOut {
		told = append(told, r.Because)
	}
	for _, want := range []string{
		"slow requests wait 0.00 ms for a P after calls, 0.0 times, and 34.4 ms for other reasons; typical ones 0.00 ms and 0.00 ms",
		"0 % of these waits follow calls that cost the P; a wait takes 0.00 ms after a call, 34.4 ms otherwise; calls keep the Ps for 58 %",
	} {
		if !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%q is not in %q", want, told)
		}
	}
}

// connections plays n connections of ten requests each, which take turns; wait
// says for how long request i of a connection sleeps.
func connecting(t *testing.T, n int, wait func(i int) int64) *blame.Attribution {
	t.Helper()
	const listener, per = gotrace.GoID(1), 10
	p := &play{tb: t, b: timelinetest.NewBuilder(), seen: map[gotrace.GoID]bool{}}
	p.b.Procs(2)
	for on := range gotrace.ProcID(2) {
		p.do(p.b.Busy(on))
		p.do(p.b.Idle(on, gotrace.NoProc))
	}
	p.waits(listener, "", "net.(*TCPListener).Accept", "main.listen")
	type one struct {
		g        gotrace.GoID
		from, to int64
	}
	var all []one
	for c := range n {
		g := gotrace.GoID(100 + c)
		p.wakes(0, listener)
		p.runs(listener, 0)
		p.do(p.b.Starts(listener, gotrace.NoProc, g, p.stack("main.listen"), p.stack("main.serve")))
		p.seen[g] = true
		p.leaves(listener, 0, "network", "net.(*TCPListener).Accept", "main.listen")
		for i := range per {
			if i > 0 {
				p.wakes(0, g)
			}
			from := p.now
			p.runs(g, 1)
			p.pass(ms)
			if d := wait(i); d > 0 {
				p.leaves(g, 1, "sleep", "time.Sleep", "main.session", "main.serve")
				p.pass(d)
				p.wakes(0, g)
				p.runs(g, 1)
			}
			all = append(all, one{g, from, p.now})
			p.leaves(g, 1, "network", home...)
			p.pass(10 * ms)
		}
	}
	tl, err := timeline.Read(p.b.Source(), timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rs []request.Request
	for _, r := range all {
		g, _ := tl.G(r.g)
		rs = append(rs, request.Request{Parts: []request.Part{{G: g, Start: timeline.Time(r.from) + timeline.Time(timelinetest.Epoch), End: timeline.Time(r.to) + timeline.Time(timelinetest.Epoch)}}})
	}
	f := request.Fixed(tl, rs, []string{"main.serve"}, func(timeline.GID) gotrace.StackID { return p.stack(home...) })
	f.Roles[0].Shape = request.Connection
	return blame.Attribute(tl, f, blame.Options{})
}

// What only the first requests of connections pay is a cold start; what any
// request may pay is none, nor what a single connection's pays.
func TestFirstRequestsOfConnections(t *testing.T) {
	turn := 0
	for _, c := range []struct {
		name string
		n    int
		wait func(i int) int64
		want string
	}{
		{"the first ones ask for a session", 20, func(i int) int64 {
			if i == 0 {
				return 20 * ms
			}
			return 0
		}, "cold-start"},
		{"any may wait", 20, func(int) int64 {
			if turn++; turn%10 == 3 {
				return 20 * ms
			}
			return 0
		}, "timer-wait"},
		{"some first ones wait, most do not", 60, func(i int) int64 {
			if i == 0 {
				if turn++; turn%4 == 0 {
					return 20 * ms
				}
			}
			return 0
		}, "timer-wait"},
	} {
		turn = 0
		v := cause.Judge(connecting(t, c.n, c.wait), cause.Settings{})
		if len(v.Findings) != 1 || v.Findings[0].Cause != c.want || v.Findings[0].Where == nil || v.Findings[0].Where.Function != "main.session" {
			t.Errorf("%s: %+v %+v: %s", c.name, v.Findings, v.Consistent, v.Sentence)
			for _, r := range v.RuledOut {
				t.Logf("not %s: %s", r.Cause, r.Because)
			}
		}
	}
}

// third is a goroutine that a helper hands things to.
const third = gotrace.GoID(3)

// logsThrough is a request that waits for a logger's lock while another one, which has it,
// hands its line to a goroutine that writes for 20 ms.
func logsThrough(p *play) {
	handOn := []string{"runtime.chansend1", "main.(*queue).Write", "log.(*Logger).output", "log.Printf", "main.serve"}
	p.wakes(0, helper)
	p.runs(helper, 1)
	p.leaves(serving, 0, "sync", loglock...)
	p.wakes(0, other)
	p.runs(other, 0)
	p.do(p.b.Task(other, "request"))
	p.leaves(other, 0, "chan send", handOn...)
	calls(helper, 20*ms, with(filewrite, "main.consume", "main.loop")...)(p)
	p.wakes(helper, other, "runtime.chanrecv1", "main.consume", "main.loop")
	p.leaves(helper, 1, "select", idle...)
	p.runs(other, 0)
	p.wakes(other, serving, "sync.(*Mutex).Unlock", "log.(*Logger).output", "log.Printf", "main.serve")
	p.do(p.b.Done(other))
	p.leaves(other, 0, "network", home...)
	p.runs(serving, 0)
}

// A holder that never waits does so nowhere.
func TestAHolderThatComputesWaitsNowhere(t *testing.T) {
	v := cause.Judge(attributed(t, scene{procs: 2, cast: waitingHelper,
		in: every(10, behindHelper("sync", mutex, unlock, func(p *play) { p.computes(helper, 1, 20*ms, "main.refresh", "main.loop") }))}), cause.Settings{})
	for _, r := range v.RuledOut {
		if r.Cause == "lock-held-across-wait" {
			if want := "the holders spent 0 % of that time waiting"; r.Because != want {
				t.Errorf("%q, want %q", r.Because, want)
			}
			return
		}
	}
	t.Error("lock-held-across-wait is not ruled out")
}
