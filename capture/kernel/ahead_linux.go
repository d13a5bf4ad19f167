//go:build amd64 || arm64

package kernel

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/whylate/whylate/capture/kernel/events"
)

// maxAhead is how many processes are told apart behind which threads wait for a CPU: those that are met first.
const maxAhead = 1024

// ahead is behind which processes the threads of the target wait for a CPU.
type ahead struct {
	target int
	of     map[int]*process
}

// process is one of them: its name, when it was met first, and how long threads waited behind it, in ns.
type process struct {
	name string
	ns   int64
}

// add counts what a thread waited before a stretch.
func (a *ahead) add(s *events.Stretch) {
	if s.QueueNS == 0 || s.Flags&events.Throttled != 0 || s.Behind <= 0 || s.Behind == a.target {
		return
	}
	p := a.of[s.Behind]
	if p == nil {
		if len(a.of) >= maxAhead {
			return
		}
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", s.Behind)) // it may be gone
		p = &process{name: events.Text(strings.TrimSuffix(string(name), "\n"))}
		a.of[s.Behind] = p
	}
	p.ns += s.QueueNS
}

// longest returns those behind which threads waited longest.
func (a *ahead) longest() (list []events.Process) {
	for pid, p := range a.of {
		list = append(list, events.Process{PID: pid, Name: p.name})
	}
	slices.SortFunc(list, func(x, y events.Process) int {
		return cmp.Or(cmp.Compare(a.of[y.PID].ns, a.of[x.PID].ns), cmp.Compare(x.PID, y.PID))
	})
	return list[:min(len(list), events.MaxProcesses)]
}
