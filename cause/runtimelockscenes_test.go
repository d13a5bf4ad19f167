package cause_test

import (
	"testing"

	"github.com/whylate/whylate/cause"
)

// What stands above the program's own code in a lock of the runtime.
var (
	takesOne  = []string{"runtime.lock2", "runtime.lockWithRank", "runtime.lock", "runtime.sellock", "runtime.selectgo"}
	spinsFor  = append([]string{"runtime.procyieldAsm", "runtime.procyield"}, takesOne...)
	wakesNext = []string{"runtime.futex", "runtime.futexwakeup", "runtime.semawakeup", "runtime.unlock2Wake", "runtime.unlock2", "runtime.unlockWithRank", "runtime.unlock", "runtime.(*mheap).allocSpan", "runtime.mallocgc"}
	ofMutex   = []string{"runtime.procyield", "runtime.lock2", "runtime.lock", "runtime.semacquire1", "internal/sync.runtime_SemacquireMutex", "internal/sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock"}
	ofTracer  = []string{"runtime.futex", "runtime.semasleep", "runtime.lock2", "runtime.lock", "runtime.traceBufFlush", "runtime.selectgo"}
	ofAssist  = []string{"runtime.procyield", "runtime.lock2", "runtime.lock", "runtime.gcAssistAlloc", "runtime.mallocgc"}
)

// halfSeen is burns at one stack, of which every other 10 ms are on no CPU.
func halfSeen(n int, at ...string) scene {
	return scene{procs: 2, in: every(10, func(p *play) {
		for range n {
			p.computes(serving, 0, 10*ms, with(at, "main.count", "main.serve")...)
			p.computes(serving, 0, 10*ms)
		}
	})}
}

var runtimeLockScenes = []told{
	{name: "requests spin for a lock that selects share", scene: burns(20*ms, spinsFor, takesOne, takesOne, nil), finding: "runtime-lock", where: "main.page", share: 1},
	{name: "requests wake each other up for the lock of the heap", scene: burns(20*ms, wakesNext, wakesNext, nil), finding: "runtime-lock", where: "main.page", share: 1},
	{name: "nobody waits for the locks that are taken", scene: burns(40*ms, takesOne), finding: "expensive-request"},
	{name: "hardly anybody waits for the locks that are taken", scene: burns(10*ms, takesOne, takesOne, takesOne, takesOne, takesOne, takesOne, spinsFor), finding: "expensive-request"},
	{name: "what is done between takes twice as long", scene: burns(20*ms, spinsFor, nil, nil), finding: "expensive-request"},
	{name: "the lock is below a mutex of the program", scene: burns(40*ms, ofMutex), finding: "expensive-request"},
	{name: "the lock is the recording's", scene: burns(40*ms, ofTracer), finding: "expensive-request"},
	{name: "the lock is the collector's", scene: burns(40*ms, ofAssist), finding: "expensive-request"},
	{name: "a lock is spun for in so few requests that samples are few", scene: scene{procs: 2, requests: 60, in: every(10, func(p *play) {
		p.computes(serving, 0, 10*ms, with(spinsFor, "main.page", "main.serve")...)
	})}, alike: []string{"runtime-lock", "expensive-request"}},
	{name: "half of the time nobody is on a CPU, and locks are all there is to see", scene: halfSeen(3, takesOne...), alike: []string{"runtime-lock", "expensive-request", "host-contention", "quota-too-low"}},
	{name: "half of the time nobody is on a CPU, without locks", scene: halfSeen(3), alike: []string{"expensive-request", "host-contention", "quota-too-low"}},
}

func TestLocksOfTheRuntimeAreToldFromWork(t *testing.T) { tell(t, runtimeLockScenes) }

// Who sleeps for a lock wants no CPU; who is kept from one does.
func TestTheHostTellsSleepInALockFromContention(t *testing.T) {
	for _, c := range []struct {
		name    string
		at      []string
		host    machine
		finding string
		alike   string
	}{
		{"no thread waits for a CPU", takesOne, machine{cpus: 2, own: 0.3, idle: 0.6}, "runtime-lock", ""},
		{"threads wait for a CPU", takesOne, machine{cpus: 2, own: 0.2, delayed: 0.8, idle: 0.01}, "", "host-contention"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, halfSeen(3, c.at...))
			v := cause.Judge(a, cause.Settings{Host: observe(a, c.host)})
			var finding, alike string
			for _, f := range v.Findings {
				finding = f.Cause
			}
			for _, x := range v.Consistent {
				for _, id := range x.Causes {
					if id == c.alike {
						alike = id
					}
				}
			}
			if c.alike != "" && finding == c.alike {
				return // the host's cause itself claims it
			}
			if finding != c.finding || alike != c.alike {
				t.Errorf("%s: %+v, undecided between %+v", v.Sentence, v.Findings, v.Consistent)
			}
		})
	}
}
