package host

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/internal/need"
)

// childEnv makes the test binary one of the processes below: a word and its arguments.
const childEnv = "WHYLATE_HOST_TEST_CHILD"

// The main thread outlives the goroutine that is locked to it, so no other one than
// main may be.
func init() {
	if os.Getenv(childEnv) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if args := strings.Fields(os.Getenv(childEnv)); len(args) > 0 {
		roles[args[0]](args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// roles are the processes that tests look at. They say on stdout how far they are, one line
// for each step, and wait for a line on stdin between the steps.
var roles = map[string]func(args []string){
	"sleep":  sleepInThreads,
	"spin":   spinInThreads,
	"block":  blockInVfork,
	"listen": listenOn,
	"look":   lookAt,
	"record": recordOther,
	"bind":   bindThreads,
	"parent": parentOf,
	"burn":   burnCPU,
	"answer": answerCalls,
	"call":   callPeer,
}

var stdin = bufio.NewReader(os.Stdin)

// lookAt says whether permission is what it takes to know on what a process listens, and
// who listens on an address.
func lookAt(args []string) {
	pid, _ := strconv.Atoi(args[0])
	_, whereErr := Listeners(pid)
	_, whoErr := ListenerPID(args[1])
	say("%v %v", errors.Is(whereErr, os.ErrPermission), errors.Is(whoErr, os.ErrPermission))
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func await() {
	if _, err := stdin.ReadString('\n'); err != nil {
		os.Exit(0)
	}
}

// sleepInThreads has some threads that sleep, and says their ids.
func sleepInThreads(args []string) {
	n, _ := strconv.Atoi(args[0])
	debug.SetMaxThreads(n + 1000)
	ids := make(chan int)
	for range n {
		go func() {
			runtime.LockOSThread()
			ids <- unix.Gettid()
			for {
				t := unix.NsecToTimespec(int64(time.Hour))
				_ = unix.Nanosleep(&t, nil)
			}
		}()
	}
	var said []string
	for range n {
		said = append(said, strconv.Itoa(<-ids))
	}
	say("%s", strings.Join(said, " "))
	await()
}

// oneCPU is the first CPU that the process may use.
func oneCPU() (one unix.CPUSet) {
	var mask unix.CPUSet
	_ = unix.SchedGetaffinity(0, &mask)
	for cpu := 0; one.Count() == 0; cpu++ {
		if mask.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	return one
}

// spinInThreads has some threads that use so many ms of CPU time each, on one CPU together, and
// then end. It says how much CPU time the process used meanwhile.
func spinInThreads(args []string) {
	n, _ := strconv.Atoi(args[0])
	ms, _ := strconv.Atoi(args[1])
	one := oneCPU()
	var ready, done sync.WaitGroup
	begin := make(chan bool)
	ids := make(chan int, n)
	for range n {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
			_ = unix.SchedSetaffinity(0, &one)
			ids <- unix.Gettid()
			ready.Done()
			<-begin
			for from := threadCPU(); threadCPU()-from < int64(ms)*1e6; {
			}
		}()
	}
	ready.Wait()
	say("ready")
	await()
	from, _ := processCPU(os.Getpid())
	close(begin)
	done.Wait()
	to, _ := processCPU(os.Getpid())
	for range n { // the thread ends some time after its goroutine
		for id := <-ids; exists(fmt.Sprintf("/proc/self/task/%d", id)); {
			runtime.Gosched()
		}
	}
	say("%d", to-from)
	await()
}

// blockInVfork has a thread in uninterruptible sleep: it waits for a child made by
// vfork, which waits for a pipe. It says the thread's id.
func blockInVfork([]string) {
	debug.SetGCPercent(-1) // the thread keeps its P and does not stop for the collector
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], 0); err != nil {
		panic(err)
	}
	ids := make(chan int)
	go func() {
		runtime.LockOSThread()
		ids <- unix.Gettid()
		vforkUntilRead(pipe[0], pipe[1])
		ids <- 0
	}()
	say("%d", <-ids)
	await()
	_, _ = unix.Write(pipe[1], []byte{0})
	<-ids
	say("awake")
	await()
}

//go:norace
func vforkUntilRead(from, other int) {
	var b [1]byte
	pid, _, _ := syscall.RawSyscall6(unix.SYS_CLONE, unix.CLONE_VFORK|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 {
		return
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(other), 0, 0)
	_, _, _ = syscall.RawSyscall(unix.SYS_READ, uintptr(from), uintptr(addr(&b)), 1)
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// listenOn listens on TCP addresses and says them.
func listenOn(args []string) {
	var said []string
	for _, a := range args {
		network, address, _ := strings.Cut(a, "/")
		l, err := net.Listen(network, address)
		if err != nil {
			say("%v", err)
			os.Exit(1)
		}
		defer l.Close()
		said = append(said, l.Addr().String())
	}
	say("%s", strings.Join(said, " "))
	await()
}

// bindThreads binds its main thread, or all of its threads, to the first CPU that they may use, and waits.
func bindThreads(args []string) {
	var mask unix.CPUSet
	_ = unix.SchedGetaffinity(0, &mask)
	one := oneCPU()
	ids := []int{os.Getpid()}
	for range 2 * strings.Count(args[0], "all") { // one may begin meanwhile
		tasks, _ := os.ReadDir("/proc/self/task")
		for _, task := range tasks {
			id, _ := strconv.Atoi(task.Name())
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		_ = unix.SchedSetaffinity(id, &one)
	}
	say("%d", mask.Count())
	await()
}

// parentOf starts a child that burns so many ms of CPU time, says its id and how much CPU time it has
// used when it is done with that, then waits for it to end and says so.
func parentOf(args []string) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"=burn "+args[0])
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	await()
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	say("%d %s", cmd.Process.Pid, strings.TrimSpace(line))
	await()
	in.Close()
	_ = cmd.Wait()
	say("over")
	await()
}

// burnCPU uses so many ms of CPU time and says how many ns it used until then; it ends with its stdin.
func burnCPU(args []string) {
	ms, _ := strconv.Atoi(args[0])
	for threadCPU() < int64(ms)*1e6 {
	}
	used, _ := processCPU(os.Getpid())
	say("%d", used)
	await()
}

func listenAt(address string) net.Listener {
	l, err := net.Listen("tcp", address)
	if err != nil {
		say("%v", err)
		os.Exit(1)
	}
	return l
}

// answerCalls accepts a connection at an address, and says both. Then some threads use so many ms of CPU
// time each, on one CPU together, and it says how long all its threads ran and waited for a CPU meanwhile, in ns.
func answerCalls(args []string) {
	two := []net.Listener{listenAt(args[0]), listenAt(args[0])}
	say("%s %s", two[0].Addr(), two[1].Addr())
	for _, l := range two {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
	}
	say("accepted")
	await()
	n, _ := strconv.Atoi(args[1])
	ms, _ := strconv.Atoi(args[2])
	one := oneCPU()
	ran, waited := schedstats()
	var done sync.WaitGroup
	for range n {
		done.Add(1)
		go func() {
			runtime.LockOSThread() // and never ends
			_ = unix.SchedSetaffinity(0, &one)
			for from := threadCPU(); threadCPU()-from < int64(ms)*1e6; {
			}
			done.Done()
			select {}
		}()
	}
	done.Wait()
	nowRan, nowWaited := schedstats()
	say("%d %d", nowRan-ran, nowWaited-waited)
	await()
}

// schedstats sums up the counters of the own threads.
func schedstats() (ran, waited int64) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		var v [2]int64
		numbers(text, v[:])
		ran, waited = ran+v[0], waited+v[1]
	}
	return ran, waited
}

// callPeer is connected to addresses, and to itself, and accepts a client at an address, which it says.
func callPeer(args []string) {
	l := listenAt("127.0.0.1:0")
	for _, a := range append(args, l.Addr().String()) {
		c, err := net.Dial("tcp", a)
		if err != nil {
			say("%v", err)
			return
		}
		defer c.Close()
	}
	say("%s", l.Addr())
	for range 2 {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
	}
	say("accepted")
	await()
}

// recordOther records a process and says the file.
func recordOther(args []string) {
	pid, _ := strconv.Atoi(args[0])
	var file bytes.Buffer
	r, err := Start(context.Background(), pid, Options{W: &file})
	if err != nil {
		say("%v", err)
		return
	}
	if _, err := r.Stop(); err != nil {
		say("%v", err)
		return
	}
	fmt.Print(&file)
}

// child is a running child process.
type child struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	pid int
}

// start runs a child. Change may change the command before.
func start(t testing.TB, what string, change func(*exec.Cmd)) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0], "child", "of a test"}
	cmd.Env = append(os.Environ(), childEnv+"="+what, "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	if change != nil {
		change(cmd)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t, cmd, in, bufio.NewReader(out), cmd.Process.Pid}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return c
}

// line waits for the next line that the child says.
func (c *child) line() string {
	c.t.Helper()
	s, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("the child said %q, then: %v", s, err)
	}
	return strings.TrimSpace(s)
}

// ints are the numbers in the next line.
func (c *child) ints() []int {
	c.t.Helper()
	var list []int
	for _, f := range strings.Fields(c.line()) {
		n, err := strconv.Atoi(f)
		if err != nil {
			c.t.Fatal(err)
		}
		list = append(list, n)
	}
	return list
}

// next lets the child take its next step.
func (c *child) next() {
	c.t.Helper()
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		c.t.Fatal(err)
	}
}

// needs skips a test for lack of a feature, or fails it where the feature is required.
func needs(t testing.TB, feature string, ok bool, why string) {
	t.Helper()
	if !ok {
		need.Feature(t, feature, errors.New(why))
	}
}

// recording is a recording into memory.
type recordingOf struct {
	t    testing.TB
	r    *Recorder
	file bytes.Buffer
}

func record(t testing.TB, pid int) *recordingOf {
	t.Helper()
	rec := &recordingOf{t: t}
	var err error
	if rec.r, err = Start(context.Background(), pid, Options{W: &rec.file}); err != nil {
		t.Fatal(err)
	}
	return rec
}

// stop ends the recording and reads it back.
func (rec *recordingOf) stop() *Recording {
	rec.t.Helper()
	after, err := rec.r.Stop()
	if err != nil {
		rec.t.Fatal(err)
	}
	got, err := Read(&rec.file)
	if err != nil {
		rec.t.Fatal(err)
	}
	if got.After == nil || got.After.CPUNS != after.CPUNS {
		rec.t.Fatalf("the file ends with %+v, Stop says %+v", got.After, after)
	}
	return got
}

func missing(list []Missing, what string) bool {
	return slices.ContainsFunc(list, func(m Missing) bool { return strings.Contains(m.What, what) })
}
