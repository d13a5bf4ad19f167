package host

import (
	"debug/buildinfo"
	"errors"
	"io/fs"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/evidence"
)

// Describe reads what does not change while a process runs. What cannot be read is
// in Static.Missing; an error wraps ErrNoProcess.
func Describe(pid int) (Description, error) {
	if err := check(pid); err != nil {
		return Description{}, err
	}
	d := Description{Target: evidence.Target{PID: pid}}
	static, _, _ := describe(pid)
	d.Static = static
	missing, notGo := target(pid, &d.Target)
	d.Static.Missing, d.NotGo = append(d.Static.Missing, missing...), notGo
	d.Target.NumCPU = static.Allowed
	d.Host = evidence.Host{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: kernel(),
		Clocksource: static.Clocksource, CPUs: static.CPUs,
	}
	for _, g := range static.Groups {
		if g.QuotaUS > 0 {
			d.Host.Quotas = append(d.Host.Quotas, evidence.Quota{Cgroup: g.Path, QuotaUS: g.QuotaUS, PeriodUS: g.PeriodUS})
		}
	}
	return d, nil
}

// describe returns the first line of a recording, the cgroups with their files, and the CPUs that
// the process may use.
func describe(pid int) (Static, []group, unix.CPUSet) {
	s := Static{Schema: Schema, PID: pid, PeriodNS: int64(shortest), TickNS: tickNS}
	miss := func(what string, err error, command string) {
		s.Missing = append(s.Missing, Missing{What: what, Why: err.Error(), Command: command})
	}
	status, err := readText(procDir(pid) + "/status")
	if err != nil {
		miss("nspid", err, "")
	}
	s.NSPID = nspids(status)
	if s.CPUs, err = onlineCPUs(); err != nil {
		miss("cpus", err, "")
	}
	cpus, err := allowedCPUs(pid)
	if err != nil {
		miss("allowed", err, "")
	}
	s.Allowed = cpus.Count()
	clocksource, err := readText("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if err != nil {
		miss("clocksource", err, "")
	}
	s.Clocksource = strings.TrimSpace(clocksource)
	if s.Stdout, err = fdKind(pid, 1); err != nil {
		miss("stdout, stderr", err, asRoot(err, pid))
	} else {
		s.Stderr, _ = fdKind(pid, 2)
	}
	if on, err := readInt("/proc/sys/kernel/task_delayacct"); err != nil || on == 0 {
		miss("io_delay_ns", errors.New("the kernel does not account for delays of tasks"), "sudo sysctl kernel.task_delayacct=1    # and restart the service: threads that run already are not counted")
	}
	g := findGroups(pid)
	for _, x := range g.list {
		s.Groups = append(s.Groups, x.Group)
	}
	s.Ancestors = g.ancestors
	s.Missing = append(s.Missing, g.missing...)
	return s, g.list, cpus
}

// allowedCPUs is the union of the CPUs that threads of a process may use: some may be bound
// to fewer, the main thread among them.
func allowedCPUs(pid int) (union unix.CPUSet, err error) {
	task, err := open(procDir(pid) + "/task")
	if err != nil {
		return union, err
	}
	defer task.close()
	var buf [32 * MaxAffinities]byte // a name takes 24 to 32 bytes
	asked := 0
	for read := 1; read > 0 && asked < MaxAffinities; {
		read, err = listNumbers(task.fd, buf[:], func(tid int) {
			if asked++; asked <= MaxAffinities {
				addAffinity(tid, &union)
			}
		})
		if err != nil {
			return union, err
		}
	}
	if union.Count() == 0 {
		err = errors.New("none of its threads says which CPUs it may use")
	}
	return union, err
}

// addAffinity adds the CPUs that a thread may use and returns whether there were new ones.
func addAffinity(tid int, union *unix.CPUSet) (grew bool) {
	var mask unix.CPUSet
	if unix.SchedGetaffinity(tid, &mask) != nil {
		return false // ended
	}
	for i, word := range mask {
		grew = grew || word&^union[i] != 0
		union[i] |= word
	}
	return grew
}

// asRoot is what helps if permission is missing. Root that has not got it is root of a container.
func asRoot(err error, pid int) string {
	if !errors.Is(err, fs.ErrPermission) {
		return ""
	}
	if os.Geteuid() == 0 {
		return "run whylate on the host, or with CAP_SYS_PTRACE"
	}
	return "sudo whylate diagnose " + strconv.Itoa(pid)
}

// target reads what the process itself says: its command, its environment and
// its build. It returns what is missing, and whether it is no Go program.
func target(pid int, t *evidence.Target) (missing []Missing, notGo bool) {
	miss := func(what string, err error) {
		missing = append(missing, Missing{What: what, Why: err.Error(), Command: asRoot(err, pid)})
	}
	cmdline, err := readText(procDir(pid) + "/cmdline")
	if argv0, _, _ := strings.Cut(cmdline, "\x00"); err != nil {
		miss("program", err)
	} else if argv0 != "" {
		t.Program = path.Base(argv0)
	}
	environ, err := readText(procDir(pid) + "/environ")
	if err != nil {
		miss("env", err)
	}
	t.Env = settings(environ)
	info, err := buildinfo.ReadFile(procDir(pid) + "/exe")
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		miss("build info", err)
	case err != nil:
		miss("build info", errors.New("the executable is no Go program, or its build information was removed"))
		notGo = true
	default:
		build(info, t)
	}
	return missing, notGo
}

// settings picks the variables that change how a Go program runs. It is the
// environment that the process was started with; what it set itself is not in there.
func settings(environ string) map[string]string {
	var env map[string]string
	for _, line := range strings.Split(environ, "\x00") {
		name, value, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG"}, name) {
			continue
		}
		if env == nil {
			env = make(map[string]string)
		}
		if _, set := env[name]; !set { // as getenv: the first one counts
			env[name] = value
		}
	}
	return env
}

// buildSettings are those that Target.Settings has (see runtime/debug.BuildSetting).
var buildSettings = []string{
	"-buildmode", "-compiler", "-gcflags", "-race", "-msan", "-asan", "-tags", "-pgo", "CGO_ENABLED",
	"GOARCH", "GOOS", "GOAMD64", "GOARM64", "GOEXPERIMENT", "vcs.revision", "vcs.time", "vcs.modified",
}

func build(info *debug.BuildInfo, t *evidence.Target) {
	t.Go = info.GoVersion
	t.Main, t.MainVersion = info.Main.Path, info.Main.Version
	t.ModulesFrom = "build info"
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		t.Modules = append(t.Modules, evidence.Module{Path: m.Path, Version: m.Version})
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "DefaultGODEBUG":
			t.DefaultGODEBUG = s.Value
		case slices.Contains(buildSettings, s.Key):
			if t.Settings == nil {
				t.Settings = make(map[string]string)
			}
			t.Settings[s.Key] = s.Value
		}
	}
}

// fdKind says what a file descriptor of a process is, see Static.Stdout.
func fdKind(pid, fd int) (string, error) {
	info, err := os.Stat(procDir(pid) + "/fd/" + strconv.Itoa(fd)) // does not open it
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // closed
	}
	if err != nil {
		return "", err
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return "file", nil
	case mode&fs.ModeNamedPipe != 0:
		return "pipe", nil
	case mode&fs.ModeSocket != 0:
		return "socket", nil
	case mode&fs.ModeCharDevice != 0:
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return "", nil
		}
		// Documentation/admin-guide/devices.txt of the kernel: 1:3 is /dev/null, 4 and 5
		// are terminals and consoles, 136 to 143 pseudo terminals.
		major := unix.Major(uint64(st.Rdev))
		switch {
		case major == 1 && unix.Minor(uint64(st.Rdev)) == 3:
			return "null", nil
		case major == 4, major == 5, major >= 136 && major <= 143:
			return "tty", nil
		}
	}
	return "", nil
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// onlineCPUs counts the CPUs of the machine.
func onlineCPUs() (int, error) {
	list, err := readText("/sys/devices/system/cpu/online")
	if err != nil {
		return 0, err
	}
	return countList(strings.TrimSpace(list)), nil
}

// countList counts the members of a list of the kernel, such as "0-3,8".
func countList(list string) int {
	n := 0
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(last); err != nil {
				continue
			}
		}
		n += max(b-a+1, 0)
	}
	return n
}
