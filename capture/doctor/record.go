package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
)

// Bits of capabilities in /proc/PID/status (include/uapi/linux/capability.h).
const (
	capPtrace   = 19
	capAdmin    = 21
	capPerfmon  = 38
	capBPF      = 39
	rootOnly    = "root, or CAP_SYS_PTRACE"
	restartNote = "; threads that run already are not counted"
)

// recordable says what this user may record.
func recordable(f files, k kernel, p *process) []Row {
	r := rightsOf(f)
	rows := []Row{
		{ID: "trace", State: Yes, Why: "needs no right here: the service has to import net/http/pprof and be reachable", Advice: "whylate diagnose http://HOST:PORT"},
	}
	if p.name != "self" && p.examined() {
		rows = append(rows, targetRow(f, p))
	}
	return append(rows,
		Row{ID: "own-processes", State: Yes, Why: "CPU time and waiting of threads, environment and program of processes of the same user"},
		othersRow(f, r),
		memoryRow(f, r),
		groupsRow(f, p),
		pressureRow(f),
		schedstatRow(f),
		delayRow(f),
		bpfRow(f, k, r),
		packetRow(k),
		perfRow(f, r),
	)
}

// rights are the effective capabilities of this process. Those of a user
// namespace of its own are not counted: they hold for what was made inside only.
type rights struct {
	caps   uint64
	nested bool
}

func rightsOf(f files) rights {
	if ns := f.link("proc/self/ns/user"); ns != "" && ns != initUser {
		return rights{nested: true}
	}
	caps, err := strconv.ParseUint(fields(f.value("proc/self/status"))["CapEff"], 16, 64)
	if err != nil {
		return rights{}
	}
	return rights{caps: caps}
}

func (r rights) has(bit int) bool { return r.caps>>bit&1 == 1 }

// targetFiles of a process need different rights: the first two are open to
// everyone, the others to those who may trace it.
var targetFiles = []string{"stat", "schedstat", "environ", "exe", "io"}

// readable tries the files of a process; it returns those that could be read and
// those that could not.
func readable(f files, name string) (can, cannot []string) {
	for _, s := range targetFiles {
		file, err := f.fs.Open("proc/" + name + "/" + s)
		if err != nil {
			cannot = append(cannot, s)
			continue
		}
		// Some are only checked when they are read.
		if _, err := file.Read(make([]byte, 1)); errors.Is(err, fs.ErrPermission) {
			cannot = append(cannot, s)
		} else {
			can = append(can, s)
		}
		file.Close()
	}
	return can, cannot
}

func accessRow(id, name string, f files) Row {
	can, cannot := readable(f, name)
	row := Row{ID: id, State: Yes, Why: "threads' CPU time and waiting, environment, program, I/O"}
	switch {
	case len(can) == 0:
		row.State, row.Why, row.Advice = No, "nothing of it can be read", rootOnly
	case len(cannot) > 0:
		row.State = Partly
		row.Why = "readable: " + strings.Join(can, ", ") + "; not: " + strings.Join(cannot, ", ")
		row.Advice = rootOnly
	}
	return row
}

func targetRow(f files, p *process) Row {
	row := accessRow("process", p.name, f)
	row.Value = "process " + p.name
	return row
}

// othersRow tries a process of another user, if one can be seen.
func othersRow(f files, r rights) Row {
	own := strings.Fields(fields(f.value("proc/self/status"))["Uid"])
	entries, err := fs.ReadDir(f.fs, "proc")
	if err == nil && len(own) > 1 {
		for _, e := range entries {
			if _, err := strconv.Atoi(e.Name()); err != nil {
				continue
			}
			uid := strings.Fields(fields(f.value("proc/" + e.Name() + "/status"))["Uid"])
			if len(uid) < 2 || uid[1] == own[1] {
				continue
			}
			row := accessRow("other-users", e.Name(), f)
			row.Value = "tried on process " + e.Name()
			return row
		}
	}
	row := Row{ID: "other-users", State: Unknown, Why: "no process of another user can be seen"}
	switch h := hidepid(f); {
	case r.has(capPtrace):
		row.State, row.Why = Yes, "CAP_SYS_PTRACE"
	case h != "":
		row.State, row.Why, row.Advice = No, "/proc is mounted with hidepid="+h, rootOnly
	}
	return row
}

// memoryRow is about /proc/PID/mem, from which doctor reads GOMAXPROCS. Yama's
// ptrace_scope limits it beyond the user's id (Documentation/admin-guide/LSM/Yama.rst).
func memoryRow(f files, r rights) Row {
	row := Row{ID: "process-memory", State: Yes}
	scope := f.value("proc/sys/kernel/yama/ptrace_scope")
	row.Value = "ptrace_scope " + scope
	switch {
	case scope == "" || scope == "0":
		row.Why = "of processes of the same user"
		if scope == "" {
			row.Value = "no ptrace_scope"
		}
	case scope == "3":
		row.State, row.Why = No, "the kernel lets nobody trace until it is booted again"
	case r.has(capPtrace):
		row.Why = "CAP_SYS_PTRACE"
	default:
		row.State, row.Why, row.Advice = No, "GOMAXPROCS of a running process is then computed, not read", rootOnly
	}
	return row
}

func groupsRow(f files, p *process) Row {
	name := p.name
	if !p.examined() {
		name = "self"
	}
	g := cgroups(f, name)
	row := Row{ID: "cgroup", State: Yes, Value: fmt.Sprintf("v%d, %s", g.version, count(len(g.list), "level"))}
	switch {
	case g.version == 0 && g.complete:
		row.Value, row.Why = "none", g.hidden
	case len(g.list) == 0:
		row.State, row.Value, row.Why = No, "", g.hidden
	case !g.complete:
		row.State, row.Why = Partly, g.hidden
	}
	if row.State != Yes {
		row.Advice = "run whylate on the host, or mount its /sys/fs/cgroup"
	}
	return row
}

func pressureRow(f files) Row {
	_, err := f.text("proc/pressure/cpu")
	switch {
	case err == nil:
		return Row{ID: "psi", State: Yes, Value: "/proc/pressure", Why: "how long tasks waited for CPU, memory and I/O"}
	case missing(err):
		return Row{ID: "psi", State: No, Why: "the kernel was built without it", Advice: "CONFIG_PSI=y, Linux 4.20 or newer"}
	case errors.Is(err, syscall.EOPNOTSUPP):
		return Row{ID: "psi", State: No, Why: "switched off at boot", Advice: "psi=1 on the kernel's command line"}
	}
	return Row{ID: "psi", State: No, Why: because(err)}
}

// schedstatRow tells whether the kernel counts how long threads wait for a CPU.
// Without CONFIG_SCHEDSTATS the file is there and holds three zeros.
func schedstatRow(f files) Row {
	text, err := f.text("proc/self/schedstat")
	switch words := strings.Fields(text); {
	case err == nil && len(words) == 3 && strings.Join(words, " ") != "0 0 0":
		return Row{ID: "schedstat", State: Yes, Why: "how long each thread ran and waited for a CPU"}
	case err != nil && !missing(err):
		return Row{ID: "schedstat", State: No, Why: because(err)}
	}
	return Row{ID: "schedstat", State: No, Why: "the kernel does not count it", Advice: "CONFIG_SCHEDSTATS=y"}
}

// delayRow is about delay accounting: what a thread waited for block I/O and
// swapping in. Since Linux 5.14 it is off unless asked for.
func delayRow(f files) Row {
	n, err := f.number("proc/sys/kernel/task_delayacct")
	switch {
	case missing(err):
		return Row{ID: "delayacct", State: Unknown, Why: "older than Linux 5.14, or built without it", Advice: "CONFIG_TASK_DELAY_ACCT=y"}
	case err != nil:
		return Row{ID: "delayacct", State: Unknown, Why: because(err)}
	case n == 0:
		return Row{ID: "delayacct", State: No, Why: "off: what threads wait for block I/O is not counted", Advice: "sudo sysctl kernel.task_delayacct=1, then restart the service" + restartNote}
	}
	return Row{ID: "delayacct", State: Yes, Why: "what threads wait for block I/O and swapping in" + restartNote}
}

// bpfRow loads a program that does nothing, then those of whylate: that is what decides,
// not the kernel's version and not the capabilities, which a user namespace gives for
// nothing.
func bpfRow(f files, k kernel, r rights) Row {
	row := Row{ID: "ebpf", State: Yes}
	var lack []string
	if !r.has(capAdmin) {
		for _, c := range []struct {
			bit  int
			name string
		}{{capBPF, "CAP_BPF"}, {capPerfmon, "CAP_PERFMON"}} {
			if !r.has(c.bit) {
				lack = append(lack, c.name)
			}
		}
	}
	err := k.bpf()
	switch {
	case errors.Is(err, syscall.ENOSYS):
		row.State, row.Why = No, "the kernel has no bpf(2), or it is not tried on this architecture"
	case err != nil && r.nested:
		row.State, row.Why, row.Advice = No, "the capabilities of a user namespace do not count", "run it on the host, as root"
	case err != nil && len(lack) > 0:
		row.State, row.Why, row.Advice = No, "not permitted", "root, or "+strings.Join(lack, " and ")
	case err != nil:
		row.State = No
		row.Why = fmt.Sprintf("refused (%s) although the capabilities are there: a seccomp filter of the container, or kernel lockdown", because(err))
		row.Advice = "run it on the host, or in a privileged container"
	case !f.exists("sys/kernel/btf/vmlinux"):
		row.State, row.Why, row.Advice = Partly, "programs load, but the kernel does not describe its types", "CONFIG_DEBUG_INFO_BTF=y"
	default:
		if err := k.sched(); err != nil {
			row.State, row.Why = Partly, "programs load, but not those that whylate records scheduling events with: "+err.Error()
			return row
		}
		row.Why = "scheduling events of threads, and system calls that read the clock"
	}
	return row
}

func packetRow(k kernel) Row {
	if err := k.packet(); err != nil {
		return Row{ID: "packets", State: No, Why: "packet sockets: " + because(err), Advice: "root, or CAP_NET_RAW"}
	}
	return Row{ID: "packets", State: Yes, Why: "when answers reached this network namespace"}
}

// perfRow judges perf_event_paranoid (Documentation/admin-guide/sysctl/kernel.rst):
// above 2, a patch of Debian's and Ubuntu's kernels, nothing is left to users.
func perfRow(f files, r rights) Row {
	n, err := f.number("proc/sys/kernel/perf_event_paranoid")
	if err != nil {
		return Row{ID: "perf", State: No, Why: "perf_event_paranoid: " + because(err)}
	}
	row := Row{ID: "perf", State: Yes, Value: fmt.Sprintf("perf_event_paranoid %d", n)}
	const advice = "sudo sysctl kernel.perf_event_paranoid=1, or CAP_PERFMON"
	switch {
	case r.has(capPerfmon) || r.has(capAdmin):
		row.Why = "CAP_PERFMON"
	case n <= 1:
		row.Why = "own processes, kernel included"
	case n == 2:
		row.State, row.Why, row.Advice = Partly, "own processes, without the kernel", advice
	default:
		row.State, row.Why, row.Advice = No, "closed to users", advice
	}
	return row
}
