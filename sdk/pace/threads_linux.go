package pace

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Policies of sched(7), and PRIO_PROCESS of setpriority(2), by which Linux means a thread.
const (
	schedOther  = 0
	schedIdle   = 5
	ofThread    = 0
	lowestNice  = 19
	resetOnFork = 0x40000000
	threadClock = 3 // CLOCK_THREAD_CPUTIME_ID
)

// threads lowers threads: to nice 19, or to SCHED_IDLE.
type threads struct{ nice bool }

// thread is one that was lowered, and what it was before.
type thread struct {
	id     atomic.Int32 // 0: it was not lowered
	policy int
	nice   int
}

// try lowers a thread that is not used for anything else.
func (l threads) try() error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		if onMainThread() {
			again := make(chan error)
			go func() {
				runtime.LockOSThread()
				again <- l.lower(new(thread))
			}()
			result <- <-again
			runtime.UnlockOSThread()
			return
		}
		result <- l.lower(new(thread))
	}()
	return <-result
}

// lower lowers the calling thread, to which its goroutine has to be locked.
func (l threads) lower(t *thread) error {
	policy, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("sched_getscheduler: %w", errno)
	}
	t.policy = int(policy) &^ resetOnFork
	raw, err := syscall.Getpriority(ofThread, 0)
	if err != nil {
		return fmt.Errorf("getpriority: %w", err)
	}
	t.nice = 20 - raw // the system call returns 1 to 40
	if l.nice {
		if err := syscall.Setpriority(ofThread, 0, lowestNice); err != nil {
			return fmt.Errorf("setpriority: %w", err)
		}
	} else if err := setPolicy(0, schedIdle); err != nil {
		return fmt.Errorf("sched_setscheduler: %w", err)
	}
	t.id.Store(int32(syscall.Gettid()))
	return nil
}

// raise undoes lower, from any thread, while the lowered one exists. Without privileges the kernel forbids it.
func (l threads) raise(t *thread) error {
	id := int(t.id.Load())
	switch {
	case id == 0:
		return nil
	case l.nice:
		if err := syscall.Setpriority(ofThread, id, t.nice); err != nil {
			return fmt.Errorf("setpriority: %w", err)
		}
	default:
		if err := setPolicy(id, t.policy); err != nil {
			return fmt.Errorf("sched_setscheduler: %w", err)
		}
	}
	return nil
}

func setPolicy(id, policy int) error {
	var priority int32 // of the policies here it has to be 0
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(id), uintptr(policy), uintptr(unsafe.Pointer(&priority)))
	if errno != 0 {
		return errno
	}
	return nil
}

// onMainThread reports whether the calling thread is the one that the process began with.
func onMainThread() bool { return syscall.Gettid() == syscall.Getpid() }

func (t *thread) lowered() bool { return t.id.Load() != 0 }

// cpu is the CPU time of the calling thread in ns if it is t, and otherwise the time that it was given.
func (t *thread) cpu(now int64) int64 {
	if !t.lowered() {
		return now
	}
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return now
	}
	return ts.Nano()
}

// sleeps reports whether a lowered thread wants no CPU: it waits for a lock, a channel or a system call. known is
// false for one that was not lowered.
func (t *thread) sleeps() (sleeps, known bool) {
	id := t.id.Load()
	if id == 0 {
		return false, false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", id))
	if err != nil {
		return false, false
	}
	// The name before the state may hold anything.
	_, state, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return ok && len(state) > 0 && (state[0] == 'S' || state[0] == 'D'), ok && len(state) > 0
}
