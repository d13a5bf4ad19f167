package doctor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/internal/novdso"
)

// A test binary that is started with this variable prints a report and waits for
// its input to end.
const reportEnv = "WHYLATE_TEST_DOCTOR_PID"

func TestMain(m *testing.M) {
	if s := os.Getenv(reportEnv); s != "" {
		pid, err := strconv.Atoi(s)
		if err == nil {
			var r *Report
			if r, err = Examine(pid); err == nil {
				err = json.NewEncoder(os.Stdout).Encode(r)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A service that says how many Ps it has, sets them if it is told to, and runs
// until its input ends.
const service = `package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
)

func main() {
	if len(os.Args) > 1 {
		n, _ := strconv.Atoi(os.Args[1])
		runtime.GOMAXPROCS(n)
	}
	fmt.Println(runtime.GOMAXPROCS(0))
	io.Copy(io.Discard, os.Stdin)
}
`

// build compiles the service with a go line in go.mod and flags of go build.
func build(t *testing.T, goLine string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": service, "go.mod": "module example.com/service\n\ngo " + goLine + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("go", append(append([]string{"build", "-trimpath", "-o", "service"}, flags...), ".")...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "GOPROXY=off", "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return filepath.Join(dir, "service")
}

// child is a running service.
type child struct {
	pid   int
	procs int // as it says itself
	files files
}

// start runs a program with env added to an environment without GOMAXPROCS and
// GODEBUG. If cpus is not 0 it believes that it may use as many CPUs, and so does
// who examines it; then it can be put into a cgroup, whose folder is group.
func start(t *testing.T, program, group string, cpus int, env []string, arg ...string) child {
	t.Helper()
	c := exec.Command(program, arg...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "GOMAXPROCS=") && !strings.HasPrefix(e, "GODEBUG=") {
			c.Env = append(c.Env, e)
		}
	}
	c.Env = append(c.Env, env...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	t.Cleanup(func() {
		in.Close()
		if c.Process != nil {
			c.Process.Signal(syscall.SIGCONT)
			c.Wait()
		}
	})
	if cpus == 0 {
		err = c.Start()
	} else {
		err = launch(c, func(pid int) error {
			if group != "" {
				if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
					return err
				}
			}
			return fakeCPUs(cpus)(pid)
		})
		need.Feature(t, "ptrace", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the service said nothing: %v", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	// The runtime asks for its CPUs again and again, and is deceived only once.
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s := child{pid: c.Process.Pid, procs: n, files: files{os.DirFS("/")}}
	if cpus > 0 {
		s.files.fs = believe{os.DirFS("/").(fs.ReadLinkFS), fmt.Sprintf("proc/%d/status", s.pid), cpus}
	}
	return s
}

// believe is a file tree in which a process may use more CPUs than it may.
type believe struct {
	fs.ReadLinkFS
	status string
	cpus   int
}

func (b believe) Open(name string) (fs.File, error) {
	if name != b.status {
		return b.ReadLinkFS.Open(name)
	}
	text, err := fs.ReadFile(b.ReadLinkFS, name)
	if err != nil {
		return nil, err
	}
	text = append([]byte(fmt.Sprintf("Cpus_allowed_list:\t0-%d\n", b.cpus-1)), text...)
	return fstest.MapFS{name: {Data: text}}.Open(name)
}

// examined is what doctor says about the Ps of a child; the number has to be what
// the child says.
func (c child) examined(t *testing.T) (*process, Procs) {
	t.Helper()
	p := inspect(c.files, c.pid)
	if p.Problem != "" {
		t.Fatal(p.Problem)
	}
	r := procs(c.files, p)
	if r.GOMAXPROCS != c.procs {
		t.Errorf("GOMAXPROCS is %d, not %d (%v)", c.procs, r.GOMAXPROCS, p.procsErr)
	}
	return p, r
}

func TestTheNumberOfPsIsReadFromARunningProcess(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		read  bool
	}{
		{"with symbols", nil, true},
		{"position-independent", []string{"-buildmode=pie"}, true},
		{"without debug information", []string{"-ldflags=-w"}, true},
		{"a stripped one is computed", []string{"-ldflags=-s -w"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			program := build(t, "1.25", c.flags...)
			_, r := start(t, program, "", 0, []string{"GOMAXPROCS=7"}).examined(t)
			if r.Read != c.read {
				t.Errorf("read from memory: %v", r.Read)
			}
			if !c.read {
				return
			}
			// Only memory knows of this one.
			_, r = start(t, program, "", 0, nil, "11").examined(t)
			if x := row(r.Rows, "set-in-code"); x == nil || x.State != Look {
				t.Errorf("set-in-code: %+v", x)
			}
		})
	}
}

// quotaGroup makes a cgroup with a quota in CPUs, 0 for none, below parent or, if
// that is "", below this process's own.
func quotaGroup(t *testing.T, parent string, cpus float64) string {
	t.Helper()
	g := cgroups(files{os.DirFS("/")}, "self")
	if parent == "" {
		if len(g.list) == 0 {
			need.Feature(t, "cgroup", errors.New(g.hidden))
		}
		parent = g.list[0].Path
	}
	dir := filepath.Join(parent, fmt.Sprintf("whylate-doctor-%d-%d", os.Getpid(), len(parent)))
	need.Feature(t, "cgroup", os.Mkdir(dir, 0o755))
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if cpus == 0 {
		return dir
	}
	file, text := "cpu.cfs_quota_us", fmt.Sprint(int(cpus*1e5))
	if g.version == 2 {
		file, text = "cpu.max", text+" 100000"
	}
	need.Feature(t, "cgroup", os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	return dir
}

// Each trap on a real program, which believes that it may use 48 CPUs: what doctor
// computes has to be what the runtime did.
func TestTheTrapsOfRealPrograms(t *testing.T) {
	now, old := build(t, "1.25"), build(t, "1.24")
	nowStripped, oldStripped := build(t, "1.25", "-ldflags=-s -w"), build(t, "1.24", "-ldflags=-s -w")
	for _, c := range []struct {
		name    string
		old     bool
		quota   float64
		nested  bool // the quota is that of an ancestor
		env     []string
		arg     []string
		procs   int
		verdict State // of gomaxprocs
		trap    string
		state   State
	}{
		{"Go 1.25 takes the quota, rounded up", false, 2.5, false, nil, nil, 3, OK, "", ""},
		{"without a quota it takes all CPUs", false, 0, false, nil, nil, 48, OK, "", ""},
		{"a go line below 1.25", true, 2.5, false, nil, nil, 48, Bad, "go-line", Bad},
		{"a go line below 1.25 without a quota does no harm", true, 0, false, nil, nil, 48, OK, "go-line", OK},
		{"GODEBUG overrides the go line", true, 2.5, false, []string{"GODEBUG=containermaxprocs=1"}, nil, 3, OK, "no-updates", Look},
		{"containermaxprocs=0 in GODEBUG", false, 2.5, false, []string{"GODEBUG=containermaxprocs=0"}, nil, 48, Bad, "godebug", Bad},
		{"updatemaxprocs=0 in GODEBUG", false, 2.5, false, []string{"GODEBUG=gctrace=0,updatemaxprocs=0"}, nil, 3, OK, "no-updates", Look},
		{"a quota on an ancestor only", false, 2.5, true, nil, nil, 48, Bad, "ancestor", Bad},
		{"the floor of 2", false, 0.5, false, nil, nil, 2, OK, "floor", Look},
		{"GOMAXPROCS in the environment", false, 2.5, false, []string{"GOMAXPROCS=16"}, nil, 16, Bad, "environment", Bad},
		{"GOMAXPROCS in the environment, too low without a quota", false, 0, false, []string{"GOMAXPROCS=16"}, nil, 16, Look, "environment", Look},
		{"GOMAXPROCS in the environment that is right", false, 2.5, false, []string{"GOMAXPROCS=3"}, nil, 3, OK, "environment", OK},
		{"GOMAXPROCS in the environment that is no number", false, 2.5, false, []string{"GOMAXPROCS=many"}, nil, 3, OK, "environment", Look},
		{"set in code", false, 2.5, false, nil, []string{"24"}, 24, Bad, "set-in-code", Bad},
	} {
		t.Run(c.name, func(t *testing.T) {
			group := ""
			if c.quota > 0 {
				group = quotaGroup(t, "", c.quota)
			}
			if c.nested {
				group = quotaGroup(t, group, 0)
			}
			program, stripped := now, nowStripped
			if c.old {
				program, stripped = old, oldStripped
			}
			run := func(program string, read bool) {
				s := start(t, program, group, 48, c.env, c.arg...)
				for range 20 { // until the runtime did not ask again before it was stopped
					if p := inspect(s.files, s.pid); s.procs == c.procs && (!read || procs(s.files, p).GOMAXPROCS == c.procs) {
						break
					}
					s = start(t, program, group, 48, c.env, c.arg...)
				}
				if s.procs != c.procs {
					t.Fatalf("the runtime took %d Ps, not %d", s.procs, c.procs)
				}
				p, r := s.examined(t)
				if r.Read != read {
					t.Errorf("read from memory: %v: %v", r.Read, p.procsErr)
				}
				if r.Quota != c.quota {
					t.Errorf("quota %v", r.Quota)
				}
				if x := row(r.Rows, "gomaxprocs"); x.State != c.verdict {
					t.Errorf("%+v", x)
				}
				for _, x := range r.Rows {
					if x.ID != "quota" && x.ID != "gomaxprocs" && x.ID != c.trap {
						t.Errorf("an unexpected trap: %+v", x)
					}
				}
				if x := row(r.Rows, c.trap); c.trap != "" && (x == nil || x.State != c.state) {
					t.Errorf("%s: %+v", c.trap, x)
				}
			}
			run(program, true)
			if len(c.arg) == 0 { // what code did, only memory knows
				run(stripped, false)
			}
		})
	}
}

// again runs this test binary as a program that prints its report.
func again(pid int) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", reportEnv, pid))
	c.Stderr = os.Stderr
	return c
}

func decoded(t *testing.T, out []byte) *Report {
	t.Helper()
	var r Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return &r
}

func TestTheClockIsJudgedByWhatItCosts(t *testing.T) {
	run := func(meddle func(pid int) error) *Report {
		c := again(os.Getpid())
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		need.Feature(t, "ptrace", launch(c, meddle))
		text, err := io.ReadAll(out)
		if err := errors.Join(err, c.Wait()); err != nil {
			t.Fatal(err)
		}
		return decoded(t, text)
	}
	plain := run(func(int) error { return nil })
	hidden := run(novdso.Hide)
	t.Logf("ratio %.2f with the vDSO, %.2f without", plain.Clock.Ratio, hidden.Clock.Ratio)
	if x := row(hidden.Clock.Rows, "cost"); x.State != Bad || x.Advice == "" {
		t.Errorf("without the vDSO: %+v", x)
	}
	if source := row(plain.Clock.Rows, "clocksource"); source.State != OK {
		need.Feature(t, "vdso", fmt.Errorf("the clock source here is %s", source.Value))
	}
	if x := row(plain.Clock.Rows, "cost"); x.State != OK || !strings.Contains(x.Why, "not in the target") {
		t.Errorf("with the vDSO: %+v", x)
	}
	if x := row(plain.Clock.Rows, "target-vdso"); x == nil || x.State != OK || !strings.Contains(x.Why, "hint") {
		t.Errorf("%+v", x)
	}
}

// A user without privileges sees what is open, and why the rest is not.
func TestAnotherUsersProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Feature(t, "root", errors.New("only root can become somebody else"))
	}
	dir, err := os.MkdirTemp("", "whylate-doctor") // unlike t.TempDir's, made open below
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "doctor")
	text, err := os.ReadFile("/proc/self/exe")
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(program, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	s := start(t, build(t, "1.25"), "", 0, nil)
	c := again(s.pid)
	c.Path, c.Dir = program, dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	r := decoded(t, out)
	if r.Target.Problem != "" || len(r.Target.Limits) != 2 {
		t.Errorf("%+v", r.Target)
	}
	if x := row(r.Procs.Rows, "gomaxprocs"); x.State != Unknown || x.Advice == "" {
		t.Errorf("%+v", x)
	}
	if x := row(r.Procs.Rows, "quota"); x.State == Unknown {
		t.Errorf("%+v", x)
	}
	for id, want := range map[string]State{"trace": Yes, "process": Partly, "ebpf": No, "packets": No} {
		if x := row(r.Record, id); x.State != want || want != Yes && x.Advice == "" {
			t.Errorf("%s: %+v", id, x)
		}
	}
}

func TestWhatIsNoGoProgram(t *testing.T) {
	f := files{os.DirFS("/")}
	c := exec.Command("/bin/cat")
	in, err := c.StdinPipe()
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	pid := c.Process.Pid
	if p := inspect(f, pid); p.Problem != fmt.Sprintf("process %d is no Go program: cat", pid) {
		t.Errorf("%q", p.Problem)
	}
	r := examine(f, thisKernel, pid)
	if x := row(r.Procs.Rows, "quota"); x == nil || row(r.Procs.Rows, "gomaxprocs") != nil || len(r.Host) == 0 {
		t.Errorf("the rest does not go on: %+v", r.Procs)
	}
	in.Close()
	c.Wait()
	if p := inspect(f, pid); !strings.HasPrefix(p.Problem, fmt.Sprintf("there is no process %d", pid)) {
		t.Errorf("%q", p.Problem)
	}
	if p := inspect(f, 2); p.Problem != "" && !strings.Contains(p.Problem, "kernel thread") && !strings.Contains(p.Problem, "no process 2") {
		t.Errorf("%q", p.Problem) // process 2 is kthreadd, or in a container anything or nothing
	}
}

func TestAThreadsIDMeansItsProcess(t *testing.T) {
	s := start(t, build(t, "1.25"), "", 0, nil)
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.pid))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("%d threads, %v", len(tasks), err)
	}
	tid, err := strconv.Atoi(tasks[len(tasks)-1].Name())
	if err != nil {
		t.Fatal(err)
	}
	if p := inspect(s.files, tid); p.PID != s.pid || !p.known || len(p.Limits) != 1 {
		t.Errorf("%+v", p.Target)
	}
}
