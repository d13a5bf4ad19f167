// Package doctor says what can be recorded on this machine, and what about the
// machine, the cgroup and a process makes requests late before anybody records
// anything: a slow clock, more Ps than the CPU quota, power saving, swap.
//
// It only looks; it changes nothing, needs no privilege, and says of everything
// that it may not see why, and what would show it.
package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
)

// Schema names the format of a [Report] in JSON; changes only add to it.
const Schema = "whylate.doctor/1"

// ErrNotLinux is returned on systems without /proc.
var ErrNotLinux = errors.New("doctor reads Linux's /proc and cgroups; on " + runtime.GOOS + " there are none: run it where the service runs")

// State is the judgement of a [Row].
type State string

// Rows of Report.Record are Yes, Partly or No: what this user may record. The
// others are OK, Look (it may make requests late), Bad (it does, or will under
// load), Absent (this machine does not have it) or Unknown (it cannot be seen).
const (
	Yes     State = "yes"
	Partly  State = "partly"
	No      State = "no"
	OK      State = "ok"
	Look    State = "look"
	Bad     State = "bad"
	Absent  State = "absent"
	Unknown State = "unknown"
)

// Row is one line of a report. Its texts may hold names that a target chose;
// they are to be quoted before they reach a terminal.
type Row struct {
	// ID names what was looked at, such as "psi"; it is stable.
	ID    string `json:"id"`
	State State  `json:"state"`
	// Value is what was found, Why what that means or why it is so, Advice one
	// line: the command, capability or setting that would change it.
	Value  string `json:"value,omitempty"`
	Why    string `json:"why,omitempty"`
	Advice string `json:"advice,omitempty"`
}

// Report is the outcome of an examination.
type Report struct {
	Schema string `json:"schema"`
	// Target is the process that was asked for, nil if none was.
	Target *Target `json:"target,omitempty"`
	// Record is what this user may record here.
	Record []Row `json:"record"`
	Clock  Clock `json:"clock"`
	Procs  Procs `json:"procs"`
	// Host are the settings of the machine that matter for latency.
	Host []Row `json:"host"`
}

// Target is a process.
type Target struct {
	PID int `json:"pid"`
	// NSPID are its ids in its own pid namespaces, outermost first; absent if
	// there is only one.
	NSPID []int `json:"nspid,omitempty"`
	// UID is the effective user, -1 if unknown.
	UID int `json:"uid"`
	// Go is the version it was built with, Main its main package; empty if that
	// could not be read.
	Go   string `json:"go,omitempty"`
	Main string `json:"main,omitempty"`
	// Problem says why the process could not be examined: it is gone, or it is no
	// Go program. Limits say what could not be seen of it.
	Problem string   `json:"problem,omitempty"`
	Limits  []string `json:"limits,omitempty"`
}

// Examine looks at the machine and at the process pid, or, if pid is 0, at what a
// Go program started by this process would find. A process that cannot be examined
// is no error but Target.Problem: the rest of the report stands.
func Examine(pid int) (*Report, error) {
	if pid < 0 {
		return nil, fmt.Errorf("%d is no process id", pid)
	}
	if runtime.GOOS != "linux" {
		return nil, ErrNotLinux
	}
	return examine(files{os.DirFS("/")}, thisKernel, pid), nil
}

func examine(f files, k kernel, pid int) *Report {
	r := &Report{Schema: Schema}
	var p *process
	if pid == 0 {
		p = shell(f)
	} else {
		p = inspect(f, pid)
		r.Target = &p.Target
	}
	r.Record = recordable(f, k, p)
	r.Clock = clock(f, k.clock, p)
	r.Procs = procs(f, p)
	r.Host = settings(f, k, p)
	if isRoot(f) {
		for _, rows := range [][]Row{r.Record, r.Clock.Rows, r.Procs.Rows, r.Host} {
			forRoot(rows)
		}
	}
	return r
}

// isRoot reports whether this process runs as root.
func isRoot(f files) bool {
	ids := strings.Fields(fields(f.value("proc/self/status"))["Uid"])
	return len(ids) > 1 && ids[1] == "0" // the effective one
}

// forRoot changes advice that asks for what is there already. Root that is refused something lacks a
// capability: it is root of a container.
func forRoot(rows []Row) {
	for i := range rows {
		a := &rows[i].Advice
		switch rest, ok := strings.CutPrefix(*a, "root, or "); {
		case ok:
			*a = rest + ": root of a container lacks it; or run whylate on the host"
		case strings.HasPrefix(*a, "sudo whylate "):
			*a = "run it on the host: root of a container may not look into the process"
		default:
			*a = strings.TrimPrefix(*a, "sudo ")
		}
	}
}

// missing reports whether err says that there is no such file, as opposed to one
// that may not be read.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
