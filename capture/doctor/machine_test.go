package doctor

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

// machine is a file tree of recorded texts; values that begin with "->" are
// symbolic links.
func machine(texts map[string]string) files {
	m := fstest.MapFS{}
	for name, text := range texts {
		if to, ok := strings.CutPrefix(text, "->"); ok {
			m[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
		} else {
			m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
		}
	}
	return files{m}
}

// Texts of /proc/PID/cgroup and /proc/self/mountinfo: a virtual machine with
// version 1 beside an empty version 2, a docker container on version 1 without a
// cgroup namespace, a Kubernetes node on version 2 seen from the host, and a
// container on it.
const (
	v1Group = "9:name=systemd:/\n4:memory:/process_api/45d0\n2:cpuacct:/\n1:cpu:/batch/job 7\n0::/\n"
	v1Mount = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	dockerGroup = "12:cpu,cpuacct:/docker/8f2a\n11:memory:/docker/8f2a\n1:name=systemd:/docker/8f2a\n"
	dockerMount = `1301 1299 0:29 /docker/8f2a /sys/fs/cgroup/cpu,cpuacct ro,nosuid,nodev,noexec,relatime master:13 - cgroup cgroup rw,cpu,cpuacct
`
	nodeGroup = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7.slice/cri-containerd-5f.scope\n"
	nodeMount = `35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
`
	podGroup = "0::/\n"
	podMount = `612 605 0:30 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate,memory_recursiveprot
`
	nodeDir = "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7.slice/"
)

func TestGroupsOfRecordedMachines(t *testing.T) {
	for _, c := range []struct {
		name     string
		texts    map[string]string
		version  int
		list     []Group
		complete bool
		hidden   string // a part of it
	}{
		{"version 1, the quota on the leaf, a space in the name", map[string]string{
			"proc/7/cgroup": v1Group, "proc/self/mountinfo": v1Mount, "proc/self/ns/cgroup": "->" + initCgroup,
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu/batch/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/batch/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu/batch/job 7/cpu.cfs_quota_us": "125000\n", "sys/fs/cgroup/cpu/batch/job 7/cpu.cfs_period_us": "50000\n",
			"sys/fs/cgroup/cpu/batch/job 7/cpu.stat": "nr_periods 26\nnr_throttled 24\nthrottled_time 3670000000\n",
		}, 1, []Group{{"/sys/fs/cgroup/cpu/batch/job 7", 2.5, 50000, 26, 24}, {Path: "/sys/fs/cgroup/cpu/batch"}, {Path: "/sys/fs/cgroup/cpu"}}, true, ""},
		{"version 1 in a container that mounts its own part", map[string]string{
			"proc/7/cgroup": dockerGroup, "proc/self/mountinfo": dockerMount, "proc/self/ns/cgroup": "->" + initCgroup,
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
		}, 1, []Group{{Path: "/sys/fs/cgroup/cpu,cpuacct", CPUs: 0.5, PeriodUS: 100000}}, false, "only a part of the hierarchy"},
		{"version 2, the quota on the pod", map[string]string{
			"proc/7/cgroup": nodeGroup, "proc/self/mountinfo": nodeMount, "proc/self/ns/cgroup": "->" + initCgroup,
			nodeDir + "cri-containerd-5f.scope/cpu.max": "max 100000\n",
			nodeDir + "cpu.max":                         "200000 100000\n",
			nodeDir + "cpu.stat":                        "usage_usec 9\nnr_periods 12\nnr_throttled 3\nthrottled_usec 8\n",
		}, 2, []Group{
			{Path: "/" + nodeDir + "cri-containerd-5f.scope"}, {"/" + strings.TrimSuffix(nodeDir, "/"), 2, 100000, 12, 3},
			{Path: "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice"}, {Path: "/sys/fs/cgroup/kubepods.slice"}, {Path: "/sys/fs/cgroup"},
		}, true, ""},
		{"version 2 in a cgroup namespace", map[string]string{
			"proc/7/cgroup": podGroup, "proc/self/mountinfo": podMount, "proc/self/ns/cgroup": "->cgroup:[4026532451]",
			"sys/fs/cgroup/cpu.max": "150000 100000\n",
		}, 2, []Group{{Path: "/sys/fs/cgroup", CPUs: 1.5, PeriodUS: 100000}}, false, "cgroup namespace"},
		{"a process outside of this cgroup namespace", map[string]string{
			"proc/7/cgroup": "0::/../cri-containerd-77.scope\n", "proc/self/mountinfo": podMount,
		}, 2, nil, false, "outside of this cgroup namespace"},
		{"no mount", map[string]string{"proc/7/cgroup": podGroup, "proc/self/mountinfo": "1 0 0:1 / / rw - overlay overlay rw\n"}, 2, nil, false, "no mount"},
		{"no cgroup at all", map[string]string{"proc/7/cgroup": "3:cpuset:/x\n"}, 0, nil, true, "no cgroup"},
		{"a process that is gone", nil, 0, nil, false, "not there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := cgroups(machine(c.texts), "7")
			if g.version != c.version || g.complete != c.complete || !strings.Contains(g.hidden, c.hidden) || c.hidden == "" && g.hidden != "" {
				t.Errorf("version %d, complete %v, hidden %q", g.version, g.complete, g.hidden)
			}
			if len(g.list) != len(c.list) {
				t.Fatalf("%+v", g.list)
			}
			for i, want := range c.list {
				if g.list[i] != want {
					t.Errorf("level %d: %+v, not %+v", i, g.list[i], want)
				}
			}
		})
	}
}

func TestPsAreTheQuotaRoundedUpButAtLeast2(t *testing.T) {
	for _, c := range []struct {
		cpus  int
		quota float64
		want  int
	}{{48, 0, 48}, {48, 0.5, 2}, {48, 1.5, 2}, {48, 2, 2}, {48, 2.001, 3}, {48, 8, 8}, {4, 8, 4}, {1, 0.5, 1}, {48, 1e300, 48}} {
		if got := ps(c.cpus, c.quota); got != c.want {
			t.Errorf("%d CPUs, quota %v: %d, not %d", c.cpus, c.quota, got, c.want)
		}
	}
}

func TestSmallTexts(t *testing.T) {
	for _, c := range []struct {
		list string
		want int
	}{{"0-3,8", 5}, {"0", 1}, {"0-0\n", 1}, {"", 0}, {"3-1", 0}, {"0-99999999", 0}, {"a-b", 0}, {"-1", 0}} {
		if got := listLen(c.list); got != c.want {
			t.Errorf("list %q: %d, not %d", c.list, got, c.want)
		}
	}
	for v, want := range map[string]string{
		"go1.24.13": "go1.24", "go1.25rc1": "go1.25", "go1.26.8 X:nodwarf5": "go1.26", "devel go1.27-0123abc Tue Nov 3": "go1.27",
		"go1.26-custom": "go1.26", "": "", "unknown": "",
	} {
		if got := release(v); got != want {
			t.Errorf("version %q: %q, not %q", v, got, want)
		}
	}
	for _, c := range []struct {
		list string
		want int
	}{{"", 9}, {"a=1", 9}, {"k=0", 0}, {"k=0,a=1,k=2", 2}, {"k=0,k=x", 0}, {"k", 9}} {
		if got := debugSetting(c.list, "k", 9); got != c.want {
			t.Errorf("GODEBUG=%s: %d, not %d", c.list, got, c.want)
		}
	}
	if m := fields("Name:\tx\nUid:\t1\nUid:\t2\n"); m["Uid"] != "1" {
		t.Errorf("%q", m)
	}
}

// The traps that no program of this toolchain has, and what hides a quota.
func TestTrapsOfOtherProcesses(t *testing.T) {
	quota := map[string]string{
		"proc/7/cgroup": nodeGroup, "proc/self/mountinfo": nodeMount, "proc/self/ns/cgroup": "->" + initCgroup,
		nodeDir + "cri-containerd-5f.scope/cpu.max": "250000 100000\n",
	}
	built := func(version, godebug string) process {
		return process{Target: Target{PID: 7, Go: version}, name: "7", known: true, cpus: 48, godebug: godebug}
	}
	with := func(p process, change func(p *process)) process { change(&p); return p }
	for _, c := range []struct {
		name    string
		p       process
		procs   int
		verdict State
		trap    string
	}{
		{"Go 1.24", built("go1.24.13", ""), 48, Bad, "old-go"},
		{"Go 1.25", built("go1.25.0", ""), 3, OK, ""},
		{"a version of one's own is taken for new", built("weird", ""), 3, OK, ""},
		{"a go line below 1.25", built("go1.26.8", "containermaxprocs=0,updatemaxprocs=0"), 48, Bad, "go-line"},
		{"a file system without cgroups", with(built("go1.26.8", ""), func(p *process) { p.noCgroupMount = true }), 48, Bad, "no-cgroup-mount"},
		{"automaxprocs rounds down", with(built("go1.26.8", ""), func(p *process) { p.procs, p.library = 2, setter+" v1.6.0" }), 2, Look, "set-in-code"},
		{"a build that cannot be read", with(built("", ""), func(p *process) { p.known = false }), 0, Unknown, ""},
		{"an environment that cannot be read", with(built("go1.26.8", ""), func(p *process) { p.envErr = errors.New("no") }), 0, Unknown, ""},
		{"but memory can", with(built("", ""), func(p *process) { p.known, p.procs = false, 3 }), 3, OK, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := procs(machine(quota), &c.p)
			if r.GOMAXPROCS != c.procs || r.Wanted != 3 || r.Quota != 2.5 {
				t.Errorf("GOMAXPROCS %d, wanted %d, quota %v", r.GOMAXPROCS, r.Wanted, r.Quota)
			}
			if x := row(r.Rows, "gomaxprocs"); x.State != c.verdict {
				t.Errorf("%+v", x)
			}
			for _, x := range r.Rows[2:] {
				if x.ID != c.trap || x.Advice == "" {
					t.Errorf("a trap: %+v", x)
				}
			}
			if (c.trap == "") != (len(r.Rows) == 2) {
				t.Errorf("%d rows", len(r.Rows))
			}
		})
	}
	t.Run("a burst's length is the quota shared by the Ps", func(t *testing.T) {
		p := built("go1.24.13", "")
		if x := row(procs(machine(quota), &p).Rows, "gomaxprocs"); !strings.Contains(x.Why, " in 5.2ms") { // 250 ms / 48
			t.Errorf("%+v", x)
		}
	})
	t.Run("more Ps than CPUs without a quota", func(t *testing.T) {
		p := with(built("go1.26.8", ""), func(p *process) { p.cpus, p.procs = 2, 48 })
		r := procs(machine(map[string]string{"proc/7/cgroup": "1:cpuset:/\n"}), &p)
		if x := row(r.Rows, "gomaxprocs"); x.State != Look || !strings.Contains(x.Why, "only 2 CPUs") {
			t.Errorf("%+v", x)
		}
	})
	t.Run("throttling is seen", func(t *testing.T) {
		texts := map[string]string{nodeDir + "cri-containerd-5f.scope/cpu.stat": "nr_periods 26\nnr_throttled 24\n"}
		for k, v := range quota {
			texts[k] = v
		}
		p := built("go1.26.8", "")
		if x := row(procs(machine(texts), &p).Rows, "quota"); x.State != Look || !strings.Contains(x.Why, "24 of 26") {
			t.Errorf("%+v", x)
		}
	})
	t.Run("a quota above a namespace is not denied", func(t *testing.T) {
		p := built("go1.26.8", "")
		r := procs(machine(map[string]string{"proc/7/cgroup": podGroup, "proc/self/mountinfo": podMount, "proc/self/ns/cgroup": "->cgroup:[1]"}), &p)
		if x := row(r.Rows, "quota"); x.State != Unknown || x.Advice == "" {
			t.Errorf("%+v", x)
		}
	})
}

// healthyKernel permits everything and keeps the time.
var healthyKernel = kernel{
	clock:    func() (since, raw []float64) { return []float64{40, 44, 900}, []float64{280, 300, 310} },
	adjtimex: func() (timex, error) { return timex{Status: staNano, Offset: 1500, MaxErrorUS: 20}, nil },
	packet:   func() error { return nil },
	bpf:      func() error { return nil },
	sched:    func() error { return nil },
}

func TestWhatMayBeRecorded(t *testing.T) {
	status := func(caps string) string { return "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t" + caps + "\n" }
	const none, all, bpfOnly = "0000000000000000", "000001ffffffffff", "000000c000000000"
	refusing := healthyKernel
	refusing.bpf = func() error { return syscall.EPERM }
	refusing.packet = refusing.bpf
	old := healthyKernel
	old.sched = func() error { return errors.New("no task storage") }
	for _, c := range []struct {
		name   string
		k      kernel
		texts  map[string]string
		id     string
		want   State
		advice string // a part of it
	}{
		{"no capabilities, no eBPF", refusing, map[string]string{"proc/self/status": status(none)}, "ebpf", No, "CAP_BPF and CAP_PERFMON"},
		{"capabilities of a user namespace do not help", refusing, map[string]string{"proc/self/status": status(all), "proc/self/ns/user": "->user:[4026532000]"}, "ebpf", No, "on the host, as root"},
		{"nor do they with perf", healthyKernel, map[string]string{"proc/self/status": status(all), "proc/self/ns/user": "->user:[4026532000]", "proc/sys/kernel/perf_event_paranoid": "2"}, "perf", Partly, "sysctl"},
		{"a seccomp filter", refusing, map[string]string{"proc/self/status": status(all), "proc/self/ns/user": "->" + initUser}, "ebpf", No, "on the host, or"},
		{"two capabilities are enough", healthyKernel, map[string]string{"proc/self/status": status(bpfOnly), "sys/kernel/btf/vmlinux": "x"}, "ebpf", Yes, ""},
		{"no types", healthyKernel, map[string]string{"proc/self/status": status(bpfOnly)}, "ebpf", Partly, "BTF"},
		{"a kernel that lacks something", old, map[string]string{"proc/self/status": status(bpfOnly), "sys/kernel/btf/vmlinux": "x"}, "ebpf", Partly, ""},
		{"no packet sockets", refusing, nil, "packets", No, "CAP_NET_RAW"},
		{"packet sockets", healthyKernel, nil, "packets", Yes, ""},
		{"no pressure", healthyKernel, nil, "psi", No, "CONFIG_PSI"},
		{"pressure", healthyKernel, map[string]string{"proc/pressure/cpu": "some avg10=0.00\n"}, "psi", Yes, ""},
		{"thread times", healthyKernel, map[string]string{"proc/self/schedstat": "3020 17 4\n"}, "schedstat", Yes, ""},
		{"thread times that are not counted", healthyKernel, map[string]string{"proc/self/schedstat": "0 0 0\n"}, "schedstat", No, "SCHEDSTATS"},
		{"delay accounting off", healthyKernel, map[string]string{"proc/sys/kernel/task_delayacct": "0\n"}, "delayacct", No, "sysctl"},
		{"delay accounting on", healthyKernel, map[string]string{"proc/sys/kernel/task_delayacct": "1\n"}, "delayacct", Yes, ""},
		{"delay accounting unknown", healthyKernel, nil, "delayacct", Unknown, "CONFIG"},
		{"perf closed", healthyKernel, map[string]string{"proc/sys/kernel/perf_event_paranoid": "4\n"}, "perf", No, "sysctl"},
		{"perf half open", healthyKernel, map[string]string{"proc/sys/kernel/perf_event_paranoid": "2\n"}, "perf", Partly, "sysctl"},
		{"perf open", healthyKernel, map[string]string{"proc/sys/kernel/perf_event_paranoid": "-1\n"}, "perf", Yes, ""},
		{"perf by capability", healthyKernel, map[string]string{"proc/self/status": status(bpfOnly), "proc/sys/kernel/perf_event_paranoid": "4\n"}, "perf", Yes, ""},
		{"memory behind ptrace_scope", healthyKernel, map[string]string{"proc/self/status": status(none), "proc/sys/kernel/yama/ptrace_scope": "1\n"}, "process-memory", No, "CAP_SYS_PTRACE"},
		{"memory for root", healthyKernel, map[string]string{"proc/self/status": status(all), "proc/sys/kernel/yama/ptrace_scope": "1\n"}, "process-memory", Yes, ""},
		{"memory for nobody", healthyKernel, map[string]string{"proc/self/status": status(all), "proc/sys/kernel/yama/ptrace_scope": "3\n"}, "process-memory", No, ""},
		{"hidden processes", healthyKernel, map[string]string{"proc/self/status": status(none), "proc/self/mountinfo": "5 1 0:5 / /proc rw - proc proc rw,hidepid=invisible\n"}, "other-users", No, "root"},
		{"another user's process, half open", healthyKernel, map[string]string{"proc/self/status": status(none), "proc/1/status": "Uid:\t0\t0\t0\t0\n", "proc/1/stat": "1", "proc/1/schedstat": "1"}, "other-users", Partly, "root"},
		{"cgroups", healthyKernel, map[string]string{"proc/self/cgroup": nodeGroup, "proc/self/mountinfo": nodeMount, "proc/self/ns/cgroup": "->" + initCgroup}, "cgroup", Yes, ""},
		{"cgroups of a container", healthyKernel, map[string]string{"proc/self/cgroup": podGroup, "proc/self/mountinfo": podMount, "proc/self/ns/cgroup": "->cgroup:[1]"}, "cgroup", Partly, "host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := row(examine(machine(c.texts), c.k, 0).Record, c.id)
			if x == nil || x.State != c.want || !strings.Contains(x.Advice, c.advice) || (c.advice == "" && x.Advice != "") {
				t.Errorf("%+v", x)
			}
		})
	}
}

// Root that may not do something is root of a container: sudo changes nothing.
func TestRootIsNotToldToBecomeRoot(t *testing.T) {
	refusing := healthyKernel
	refusing.bpf = func() error { return syscall.EPERM }
	refusing.packet = refusing.bpf
	texts := func(uid string) map[string]string {
		return map[string]string{
			"proc/self/status": "Uid:\t" + uid + "\t" + uid + "\t" + uid + "\t" + uid + "\nCapEff:\t0000000000000000\n",
			"proc/7/status":    "Tgid:\t7\nUid:\t5\t5\t5\t5\nCpus_allowed_list:\t0-1\n", "proc/7/stat": "7",
			"proc/sys/kernel/yama/ptrace_scope": "1\n", "proc/sys/kernel/task_delayacct": "0\n", "proc/sys/kernel/perf_event_paranoid": "4\n",
		}
	}
	advice := func(uid string) string {
		m := machine(texts(uid))
		m.fs.(fstest.MapFS)["proc/7/exe"] = &fstest.MapFile{Mode: fs.ModeDir} // not a program that can be read
		r := examine(m, refusing, 7)
		var all []string
		for _, rows := range [][]Row{r.Record, r.Clock.Rows, r.Procs.Rows, r.Host} {
			for _, x := range rows {
				all = append(all, x.Advice)
			}
		}
		return strings.Join(append(all, r.Target.Limits...), "\n")
	}
	if text := advice("1000"); !strings.Contains(text, "sudo ") || !strings.Contains(text, "root, or CAP_") {
		t.Errorf("a user is told:\n%s", text)
	}
	if text := advice("0"); strings.Contains(text, "sudo ") || strings.Contains(text, "root, or CAP_") || !strings.Contains(text, "CAP_BPF and CAP_PERFMON: root of a container") {
		t.Errorf("root is told:\n%s", text)
	}
}

func TestAProcessThatIsNotThereIsSaidOnce(t *testing.T) {
	r := examine(machine(map[string]string{"proc/self/status": "Uid:\t0\t0\t0\t0\n"}), healthyKernel, 7)
	const said = "there is no process 7"
	n := strings.Count(r.Target.Problem, said)
	for _, rows := range [][]Row{r.Record, r.Clock.Rows, r.Procs.Rows, r.Host} {
		for _, x := range rows {
			n += strings.Count(x.Value+x.Why+x.Advice, said)
		}
	}
	if n != 1 || len(r.Record) == 0 || len(r.Host) == 0 {
		t.Errorf("said %d times: %+v", n, r)
	}
}

func TestTheClockSource(t *testing.T) {
	const dir = "sys/devices/system/clocksource/clocksource0/"
	slow, coarse := healthyKernel, healthyKernel
	slow.clock = func() (since, raw []float64) { return []float64{300, 900, 280}, []float64{280, 300, 310} }
	coarse.clock = func() (since, raw []float64) { return []float64{0, 0, 250000}, []float64{0, 0, 0} }
	for _, c := range []struct {
		name, current, available string
		k                        kernel
		cost, source             State
		advice                   string
	}{
		{"tsc", "tsc", "tsc hpet acpi_pm", healthyKernel, OK, OK, ""},
		{"a slow source, a fast one at hand", "hpet", "tsc hpet acpi_pm", slow, Bad, Look, "echo tsc |"},
		{"only slow ones", "acpi_pm", "acpi_pm", slow, Bad, Look, "machine type"},
		{"a fast source and slow all the same", "tsc", "tsc", slow, Bad, OK, "vdso=0"},
		{"a clock that is too coarse", "jiffies", "jiffies", coarse, Unknown, Look, "dmesg"},
		{"no such files", "", "", healthyKernel, OK, Absent, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			texts := map[string]string{dir + "current_clocksource": c.current + "\n", dir + "available_clocksource": c.available + "\n"}
			got := examine(machine(texts), c.k, 0).Clock
			cost, source := row(got.Rows, "cost"), row(got.Rows, "clocksource")
			if cost.State != c.cost || source.State != c.source || !strings.Contains(cost.Advice, c.advice) {
				t.Errorf("%+v\n%+v", cost, source)
			}
			if source.State == Look && source.Advice == "" {
				t.Error("no advice")
			}
		})
	}
}

func TestHostSettings(t *testing.T) {
	lost, unsynchronised := healthyKernel, healthyKernel
	lost.adjtimex = func() (timex, error) { return timex{}, syscall.EPERM }
	unsynchronised.adjtimex = func() (timex, error) { return timex{State: timeError, Status: staUnsync}, nil }
	const (
		cpu = "sys/devices/system/cpu/"
		thp = "sys/kernel/mm/transparent_hugepage/"
	)
	nodes := func(balancing, reclaim string) map[string]string {
		return map[string]string{"sys/devices/system/node/online": "0-1\n", "proc/sys/kernel/numa_balancing": balancing, "proc/sys/vm/zone_reclaim_mode": reclaim}
	}
	seen := func(texts map[string]string) map[string]string {
		texts["proc/self/ns/pid"] = "->" + initPID
		return texts
	}
	const swaps = "Filename Type Size Used Priority\n/swapfile file 2097148 1024 -2\n"
	for _, c := range []struct {
		name  string
		k     kernel
		texts map[string]string
		id    string
		want  State
		value string // a part of it
	}{
		{"a virtual machine scales no frequencies", healthyKernel, nil, "governor", Absent, ""},
		{"performance", healthyKernel, map[string]string{cpu + "cpufreq/policy0/scaling_governor": "performance\n", cpu + "cpufreq/policy1/scaling_governor": "performance\n"}, "governor", OK, "performance"},
		{"one CPU saves power", healthyKernel, map[string]string{cpu + "cpufreq/policy0/scaling_governor": "performance\n", cpu + "cpufreq/policy1/scaling_governor": "powersave\n"}, "governor", Look, "performance, powersave"},
		{"one node", healthyKernel, map[string]string{"sys/devices/system/node/online": "0\n", "proc/sys/kernel/numa_balancing": "1"}, "numa", OK, "one node"},
		{"two nodes, balanced", healthyKernel, nodes("1\n", "0\n"), "numa", Look, "2 nodes"},
		{"two nodes, left alone", healthyKernel, nodes("0\n", "0\n"), "numa", OK, "balancing 0"},
		{"two nodes, reclaiming", healthyKernel, nodes("0\n", "1\n"), "numa", Bad, "zone_reclaim_mode 1"},
		{"no huge pages", healthyKernel, nil, "thp", Absent, ""},
		{"huge pages on request", healthyKernel, map[string]string{thp + "enabled": "always [madvise] never\n", thp + "defrag": "[always] madvise never\n"}, "thp", OK, "madvise"},
		{"huge pages always", healthyKernel, map[string]string{thp + "enabled": "[always] madvise never\n", thp + "defrag": "always [madvise] never\n", thp + "khugepaged/max_ptes_none": "511\n"}, "thp", Look, "always, defrag madvise"},
		{"huge pages always, but not for released memory", healthyKernel, map[string]string{thp + "enabled": "[always] madvise never\n", thp + "khugepaged/max_ptes_none": "0\n"}, "thp", OK, "always"},
		{"huge pages at any price", healthyKernel, map[string]string{thp + "enabled": "[always] madvise never\n", thp + "defrag": "[always] madvise never\n"}, "thp", Bad, "defrag always"},
		{"irqbalance runs", healthyKernel, seen(map[string]string{cpu + "online": "0-3", "proc/9/comm": "irqbalance\n"}), "irqbalance", OK, "running"},
		{"irqbalance does not run", healthyKernel, seen(map[string]string{cpu + "online": "0-3", "proc/9/comm": "bash\n"}), "irqbalance", Look, "not running"},
		{"one CPU needs none", healthyKernel, seen(map[string]string{cpu + "online": "0"}), "irqbalance", OK, "one CPU"},
		{"a container sees no daemons", healthyKernel, map[string]string{cpu + "online": "0-3", "proc/self/ns/pid": "->pid:[4026532000]", "proc/9/comm": "bash\n"}, "irqbalance", Unknown, ""},
		{"synchronised", healthyKernel, seen(map[string]string{"proc/9/comm": "chronyd\n"}), "time-sync", OK, "offset 1.5µs, at most 20µs off, kept by chronyd"},
		{"not synchronised", unsynchronised, nil, "time-sync", Look, "not synchronised"},
		{"not permitted to ask", lost, nil, "time-sync", Unknown, ""},
		{"no swap", healthyKernel, map[string]string{"proc/swaps": "Filename Type Size Used Priority\n"}, "swap", OK, "none"},
		{"swap that is unused", healthyKernel, map[string]string{"proc/swaps": swaps, "proc/meminfo": "SwapTotal: 2097148 kB\nSwapFree: 2097148 kB\n"}, "swap", OK, "0 of 2047 MiB"},
		{"swap in use", healthyKernel, map[string]string{"proc/swaps": swaps, "proc/meminfo": "SwapTotal: 2097148 kB\nSwapFree: 1048576 kB\n"}, "swap", Look, "1023 of 2047 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := row(examine(machine(c.texts), c.k, 0).Host, c.id)
			if x == nil || x.State != c.want || !strings.Contains(x.Value, c.value) {
				t.Fatalf("%+v", x)
			}
			if (x.State == Look || x.State == Bad) != (x.Advice != "") {
				t.Errorf("advice: %+v", x)
			}
		})
	}
	t.Run("memory of the process that is swapped out", func(t *testing.T) {
		texts := map[string]string{"proc/swaps": swaps, "proc/meminfo": "SwapTotal: 2097148 kB\nSwapFree: 1048576 kB\n",
			"proc/7/status": "Tgid:\t7\nCpus_allowed_list:\t0-1\nVmSwap:\t    2048 kB\n"}
		if x := row(examine(machine(texts), healthyKernel, 7).Host, "swap"); x.State != Bad || !strings.Contains(x.Why, "2048 kB") {
			t.Errorf("%+v", x)
		}
	})
}

func TestAProcessThatCannotBeSeen(t *testing.T) {
	for _, c := range []struct {
		name  string
		texts map[string]string
		want  string
	}{
		{"gone", map[string]string{"proc/self/ns/pid": "->" + initPID}, "there is no process 7"},
		{"another namespace", map[string]string{"proc/self/ns/pid": "->pid:[1]"}, "there is no process 7 in this pid namespace"},
		{"hidden", map[string]string{"proc/self/ns/pid": "->" + initPID, "proc/self/mountinfo": "5 1 0:5 / /proc rw - proc proc rw,hidepid=2\n"}, "hides it"},
		{"without a program", map[string]string{"proc/7/status": "Tgid:\t7\nCpus_allowed_list:\t0-1\n"}, "kernel thread"},
		{"with a program that is none", map[string]string{"proc/7/status": "Tgid:\t7\nCpus_allowed_list:\t0-1\n", "proc/7/exe": "\x7fELF nonsense"}, "no Go program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := examine(machine(c.texts), healthyKernel, 7)
			if !strings.Contains(r.Target.Problem, c.want) {
				t.Errorf("%q", r.Target.Problem)
			}
			if len(r.Record) < 5 || len(r.Clock.Rows) < 2 || len(r.Host) < 5 || r.Procs.Rows == nil || (len(r.Procs.Rows) > 0) != (c.texts["proc/7/status"] != "") {
				t.Errorf("the rest does not go on: %+v", r)
			}
		})
	}
	if _, err := Examine(-1); err == nil {
		t.Error("process -1 is examined")
	}
}

// Whatever a file holds, the examination ends with all its parts.
func FuzzAnyTextInAnyFile(f *testing.F) {
	for _, s := range []string{v1Group + v1Mount, dockerMount + dockerGroup, nodeGroup + nodeMount, "1 2 3 /a /b c - cgroup2 d e\n0::/a/../../b\n",
		"Tgid:\t9\nNSpid:\t9\t1\nCpus_allowed_list:\t0-7\n", "GOMAXPROCS=0\x00GODEBUG=containermaxprocs=,=\x00", "\x7fELF\x02\x01\x01"} {
		f.Add(s, uint8(len(s)))
	}
	names := []string{"proc/7/cgroup", "proc/self/mountinfo", "proc/7/status", "proc/7/environ", "proc/7/exe", "proc/7/auxv", "proc/7/maps", "proc/7/mountinfo",
		"proc/self/status", "proc/self/cgroup", "sys/devices/system/node/online", "sys/fs/cgroup/cpu.max", "sys/fs/cgroup/cpu.stat", "proc/swaps", "proc/meminfo"}
	f.Fuzz(func(t *testing.T, text string, which uint8) {
		texts := map[string]string{
			"proc/7/status": "Tgid:\t7\nCpus_allowed_list:\t0-1\n", "proc/7/cgroup": podGroup, "proc/self/mountinfo": podMount, "sys/fs/cgroup/cpu.max": "150000 100000\n",
		}
		texts[names[int(which)%len(names)]] = strings.TrimPrefix(text, "->")
		r := examine(machine(texts), healthyKernel, 7)
		if len(r.Record) == 0 || len(r.Clock.Rows) == 0 || r.Procs.Rows == nil || len(r.Host) == 0 {
			t.Errorf("parts are missing: %+v", r)
		}
	})
}
