package timelinetest

import "github.com/whylate/whylate/gotrace"

// places are the stacks of random scripts and what may happen there.
var places = struct {
	waits []struct {
		reason string
		stack  []string
	}
	calls, releases, roots [][]string
}{
	waits: []struct {
		reason string
		stack  []string
	}{
		{"sync", []string{"sync.runtime_SemacquireMutex", "sync.(*Mutex).Lock", "main.get", "main.handle"}},
		{"sync", []string{"sync.runtime_SemacquireMutex", "sync.(*Mutex).Lock", "main.put", "main.work"}},
		{"sync", []string{"sync.runtime_SemacquireRWMutexR", "sync.(*RWMutex).RLock", "main.look", "main.handle"}},
		{"sync", []string{"sync.runtime_SemacquireWaitGroup", "sync.(*WaitGroup).Wait", "main.fan", "main.handle"}},
		{"network", []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "main.serve"}},
		{"network", []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "net/http.(*persistConn).readLoop"}},
		{"chan receive", []string{"runtime.chanrecv1", "main.ask", "main.handle"}},
		{"chan send", []string{"runtime.chansend1", "main.tell", "main.handle"}},
		{"select", []string{"runtime.selectgo", "main.either", "main.work"}},
		{"select", []string{"runtime.selectgo", "net/http.(*persistConn).roundTrip", "main.call", "main.handle"}},
		{"sync.(*Cond).Wait", []string{"sync.runtime_notifyListWait", "sync.(*Cond).Wait", "main.pool", "main.handle"}},
		{"sleep", []string{"time.Sleep", "main.nap", "main.handle"}},
		{"forever", []string{"runtime.block", "main.main"}},
		{"GC mark assist wait for work", []string{"runtime.gcParkAssist", "main.alloc", "main.handle"}},
		{"wait until GC ends", []string{"runtime.gcStart", "main.alloc", "main.handle"}},
		{"system goroutine wait", []string{"runtime.gcBgMarkWorker"}},
		{"something new", []string{"main.odd"}},
	},
	calls: [][]string{
		{"syscall.write", "os.(*File).Write", "main.log", "main.handle"},
		{"syscall.write", "net.(*conn).Write", "main.serve"},
		{"runtime.cgocall", "main._Cfunc_deflate", "main.pack", "main.work"},
		nil,
	},
	releases: [][]string{
		{"sync.(*Mutex).Unlock", "main.get", "main.handle"},
		{"sync.(*Mutex).Unlock", "main.put", "main.work"},
		{"context.(*cancelCtx).cancel", "context.WithCancel.func1", "main.work"},
		{"internal/poll.runtime_pollSetDeadline", "net.(*conn).SetReadDeadline", "main.serve"},
		{"runtime.startTheWorldWithSema", "runtime.gcMarkTermination", "main.alloc"},
		{"runtime.chansend1", "main.reply", "main.work"},
		nil,
	},
	roots: [][]string{{"main.serve"}, {"main.handle"}, {"main.work"}, {"runtime.gcBgMarkWorker"}, nil},
}

// steps are the times between events, in nanoseconds: below and above every
// threshold of the timeline.
var steps = [...]int64{0, 1, 64, 999, 20_000, 60_000, 200_000, 1_000_000, 7_000_000, 25_000_000}

// Random makes a stream of events that could have happened from any bytes. Three
// bytes make an event; those that could not happen are left out.
func Random(data []byte) *Builder {
	b := NewBuilder()
	var ns int64
	procs := gotrace.ProcID(1)
	if len(data) > 0 {
		procs += gotrace.ProcID(data[0] % 3)
		data = data[1:]
	}
	b.Procs(int(procs))
	next := gotrace.GoID(1)
	for p := range procs {
		_ = b.Busy(p)
	}
	for range 6 {
		w := places.waits[int(next)%len(places.waits)]
		_ = b.Waits(next, "", b.Stack(w.stack...))
		next++
	}
	for ; len(data) >= 3; data = data[3:] {
		op, x, y := data[0], int(data[1]), int(data[2])
		ns += steps[int(op>>4)%len(steps)]
		_ = b.At(ns)
		p := gotrace.ProcID(x) % procs
		pick := func(s gotrace.State) gotrace.GoID {
			var ids []gotrace.GoID
			for _, g := range keys(b.gs) {
				if b.gs[g].state == s {
					ids = append(ids, g)
				}
			}
			if len(ids) == 0 {
				return gotrace.NoGoroutine
			}
			return ids[x%len(ids)]
		}
		stack := func(of [][]string) gotrace.StackID { return b.Stack(of[y%len(of)]...) }
		switch op & 15 {
		case 0, 1, 2:
			if g := pick(gotrace.Runnable); g != gotrace.NoGoroutine {
				_ = b.Runs(g, gotrace.ProcID(y)%procs, 0)
			}
		case 3, 4:
			w := places.waits[y%len(places.waits)]
			_ = b.Waits(pick(gotrace.Running), w.reason, b.Stack(w.stack...))
		case 5, 6:
			if by, whom := pick(gotrace.Running), pick(gotrace.Waiting); by != gotrace.NoGoroutine {
				_ = b.Wakes(by, gotrace.NoProc, whom, stack(places.releases))
			}
		case 7:
			_ = b.Wakes(gotrace.NoGoroutine, p-gotrace.ProcID(y%2), pick(gotrace.Waiting), 0)
		case 8:
			_ = b.Yields(pick(gotrace.Running), "preempted", stack(places.releases))
		case 9:
			_ = b.Calls(pick(gotrace.Running), stack(places.calls))
		case 10:
			_ = b.Returns(pick(gotrace.Syscall))
		case 11:
			if y%3 == 0 {
				_ = b.Busy(p)
			} else {
				_ = b.Idle(p, gotrace.ProcID(y%3-2))
			}
		case 12:
			by := pick(gotrace.Running)
			if y%8 == 0 {
				by = gotrace.NoGoroutine
			}
			if len(b.gs) < 64 && b.Starts(by, p, next, stack(places.releases), stack(places.roots)) == nil {
				next++
			}
		case 13:
			if y%4 == 0 {
				_ = b.Ends(pick(gotrace.Running))
			} else {
				_ = b.Label(pick(gotrace.Running), []string{"GC (idle)", "GC (dedicated)", "mine"}[y%3])
			}
		case 14:
			name := []string{"GC mark assist", "stop-the-world (GC mark termination)", "stop-the-world (read mem stats)", markPhase}[y%4]
			g := pick(gotrace.Running)
			if g == gotrace.NoGoroutine {
				break
			}
			if b.Range(gotrace.KindRangeBegin, g, name, 0) != nil {
				_ = b.Range(gotrace.KindRangeEnd, g, name, 0)
			}
		case 15:
			switch y % 4 {
			case 0:
				b.Sync()
			case 1, 2:
				b.Sample(pick(gotrace.Running), stack(places.releases))
			case 3: // Ps beyond it may go on: a damaged trace says so
				b.Procs(1 + x%4)
			}
		}
	}
	_ = b.At(ns + 1000)
	b.Sample(gotrace.NoGoroutine, 0)
	return b
}
