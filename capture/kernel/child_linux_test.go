//go:build amd64 || arm64

package kernel

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/internal/need"
)

// childEnv makes the test binary one of the processes below: a word and its arguments.
const childEnv = "WHYLATE_KERNEL_TEST_CHILD"

// What a child starts in another goroutine is in another thread than the main one.
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

// roles are the processes that tests look at. They say on stdout how far they are, one
// line for each step, and wait for a line on stdin between the steps.
var roles = map[string]func(args []string){
	"burn":   burn,
	"fault":  fault,
	"sync":   syncFile,
	"pong":   pong,
	"clock":  readClock,
	"record": recordOther,
	"check":  func([]string) { say("%v", Check()) },
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// await waits for a line, in the calling thread.
func await() {
	var b [1]byte
	if n, _ := unix.Read(0, b[:]); n != 1 {
		os.Exit(0)
	}
}

// burn says the id of a thread, which uses so many ms of CPU time after the second line,
// and sleeps for one ms after each of so many. In a group of that directory it then says from
// when to when it did, and for how long the group was throttled at both instants.
func burn(args []string) {
	ms, _ := strconv.Atoi(args[0])
	each, _ := strconv.Atoi(args[1])
	go func() {
		runtime.LockOSThread()
		say("%d", unix.Gettid())
		await()
		say("awake")
		await()
		var began, ended instant
		if len(args) > 2 {
			began = throttledAt(args[2])
		}
		nap := unix.NsecToTimespec(1e6)
		for from, awake := threadCPU(), threadCPU(); threadCPU()-from < int64(ms)*1e6; {
			n := 0
			for i := range 500_000 { // in user space, for most of the time
				n += i ^ n
			}
			sink += n
			if threadCPU()-awake > int64(each)*1e6 {
				_ = unix.Nanosleep(&nap, nil)
				awake = threadCPU()
			}
		}
		if len(args) > 2 {
			ended = throttledAt(args[2])
		}
		say("done")
		if len(args) > 2 {
			say("%d %d %d %d", began.ns, ended.ns, began.throttledNS, ended.throttledNS)
		}
		await()
		os.Exit(0)
	}()
	select {}
}

// instant is one by CLOCK_MONOTONIC, and the kernel's count of a group's throttled time at it.
type instant struct{ ns, throttledNS int64 }

// throttledAt takes the count when nothing came between the clock and it, as it is counted when
// the group goes on: the calling thread was not throttled meanwhile.
func throttledAt(dir string) (i instant) {
	for {
		i.ns = monotonic()
		n, err := throttledNS(dir)
		if err != nil {
			say("%v", err)
			os.Exit(1)
		}
		i.throttledNS = n
		if monotonic()-i.ns < 1e6 {
			return i
		}
	}
}

var sink int

// fault touches every page of a file that is on the disk only, until it has slept 100 times
// for one, and says how many were read from the disk and how often it slept by the kernel's
// counts.
func fault(args []string) {
	const pages = 200
	page := os.Getpagesize()
	f, err := os.Create(args[0])
	check(err)
	_, err = f.Write(make([]byte, pages*page))
	check(err)
	check(f.Sync())
	say("%d", unix.Gettid())
	await()
	var read, slept int64
	for range 200 {
		check(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		b, err := unix.Mmap(int(f.Fd()), 0, pages*page, unix.PROT_READ, unix.MAP_SHARED)
		check(err)
		check(unix.Madvise(b, unix.MADV_RANDOM)) // one page at a time
		before := threadUsage()
		for i := 0; i < len(b); i += page {
			sink += int(b[i])
		}
		after := threadUsage()
		check(unix.Munmap(b))
		read, slept = read+after.Majflt-before.Majflt, slept+after.Nvcsw-before.Nvcsw
		if slept >= 100 {
			break
		}
	}
	say("%d %d", read, slept)
	await()
}

// threadUsage is what the kernel counted of the calling thread. The runtime may not stop the
// goroutine on its way into the system call or out of it.
//
//go:nosplit
func threadUsage() (u unix.Rusage) {
	_, _, e := unix.RawSyscall(unix.SYS_GETRUSAGE, unix.RUSAGE_THREAD, uintptr(unsafe.Pointer(&u)), 0)
	if e != 0 {
		panic(e)
	}
	return u
}

// syncFile writes to a file and waits for the disk, so many times.
func syncFile(args []string) {
	times, _ := strconv.Atoi(args[1])
	f, err := os.Create(args[0])
	check(err)
	say("%d", unix.Gettid())
	await()
	for range times {
		_, err := unix.Write(int(f.Fd()), make([]byte, 4096))
		check(err)
		check(unix.Fsync(int(f.Fd())))
	}
	say("done")
	await()
}

// pong has two threads that wake each other so many times, and says their ids.
func pong(args []string) {
	times, _ := strconv.Atoi(args[0])
	var there, back [2]int
	check(unix.Pipe(there[:]))
	check(unix.Pipe(back[:]))
	begin := make(chan bool)
	ids := make(chan int)
	var done, last sync.WaitGroup
	done.Add(2)
	last.Add(1)
	player := func(in, out int, first bool) {
		runtime.LockOSThread()
		ids <- unix.Gettid()
		<-begin
		ball := []byte{1}
		for range times {
			if first {
				_, _ = unix.Write(out, ball)
			}
			_, _ = unix.Read(in, ball)
			if !first {
				_, _ = unix.Write(out, ball)
			}
		}
		done.Done()
		last.Wait()
	}
	go player(back[0], there[1], true)
	go player(there[0], back[1], false)
	say("%d %d", <-ids, <-ids)
	await()
	close(begin)
	done.Wait()
	say("done")
	await()
}

// readClock reads the clock so many times after the first line, by a system call or as
// programs do.
func readClock(args []string) {
	n, _ := strconv.Atoi(args[1])
	say("ready")
	await()
	for range n {
		if args[0] == "call" {
			var ts unix.Timespec
			check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
		} else {
			_ = time.Now()
		}
	}
	say("done")
	await()
}

// recordOther records another process until it is killed.
func recordOther(args []string) {
	pid, _ := strconv.Atoi(args[0])
	_, err := Start(pid, Options{W: io.Discard})
	say("%v", err)
	await()
}

func check(err error) {
	if err != nil {
		say("%v", err)
		os.Exit(1)
	}
}

// child is a process of a test.
type child struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// spawn begins a role; on one CPU, if cpu is not negative.
func spawn(t testing.TB, cpu int, attr *syscall.SysProcAttr, role ...string) *child {
	t.Helper()
	return spawnBy(t, (*exec.Cmd).Start, cpu, attr, role...)
}

// spawnBy is spawn, with what starts the process.
func spawnBy(t testing.TB, start func(*exec.Cmd) error, cpu int, attr *syscall.SysProcAttr, role ...string) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(role, " "))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	fatal(t, err)
	out, err := cmd.StdoutPipe()
	fatal(t, err)
	if cpu >= 0 { // children have the affinity of the thread that begins them
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var all, one unix.CPUSet
		fatal(t, unix.SchedGetaffinity(0, &all))
		one.Set(cpu)
		fatal(t, unix.SchedSetaffinity(0, &one))
		defer unix.SchedSetaffinity(0, &all)
	}
	fatal(t, start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &child{t, cmd, in, bufio.NewReader(out)}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// line is the next line of the child.
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
	line := c.line()
	for _, f := range strings.Fields(line) {
		n, err := strconv.Atoi(f)
		if err != nil {
			c.t.Fatalf("the child said %q", line)
		}
		list = append(list, n)
	}
	return list
}

// next lets the child take its next step.
func (c *child) next() {
	c.t.Helper()
	_, err := io.WriteString(c.in, "\n")
	fatal(c.t, err)
}

// counts are the kernel's own of a thread.
type counts struct {
	runNS, delayNS         int64 // on a CPU, and ready for one
	stolenNS               int64 // what the hypervisor took from the last CPU
	voluntary, involuntary int64 // switches
}

// asleep waits until a thread sleeps and returns its counts, which then do not change.
func (c *child) asleep(tid int) counts {
	c.t.Helper()
	dir := fmt.Sprintf("/proc/%d/task/%d/", c.pid(), tid)
	read := func() (sleeps bool, n counts) {
		status, err := os.ReadFile(dir + "status")
		fatal(c.t, err)
		stat, err := os.ReadFile(dir + "schedstat")
		fatal(c.t, err)
		for line := range strings.Lines(string(status)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			switch key {
			case "State":
				sleeps = strings.HasPrefix(value, "S")
			case "voluntary_ctxt_switches":
				n.voluntary, _ = strconv.ParseInt(value, 10, 64)
			case "nonvoluntary_ctxt_switches":
				n.involuntary, _ = strconv.ParseInt(value, 10, 64)
			}
		}
		f := strings.Fields(string(stat))
		n.runNS, _ = strconv.ParseInt(f[0], 10, 64)
		n.delayNS, _ = strconv.ParseInt(f[1], 10, 64)
		return sleeps, n
	}
	var last counts
	eventually(c.t, "the thread sleeps", func() bool {
		sleeps, now := read()
		same := sleeps && now == last
		last = now
		return same
	})
	return last
}

// eventually looks again and again until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var checkOnce = sync.OnceValue(Check)

func needEBPF(t testing.TB) {
	t.Helper()
	need.Feature(t, "ebpf", checkOnce())
}
