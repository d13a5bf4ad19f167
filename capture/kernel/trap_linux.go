//go:build amd64 || arm64

package kernel

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/symbols"
)

// trapped is a function to put a probe into: it has a frame, as those have that are
// watched.
//
//go:noinline
func trapped(n int) int { return inner(n) + 1 }

//go:noinline
func inner(n int) int { return n ^ 1 }

// traps are how many ns of CPU time it takes a thread of this machine to go to the kernel
// and back for a probe in a function: where the instruction is one that the kernel
// emulates, and where it lets it run for itself, as at the end of a function.
type traps struct{ cheap, dear float64 }

// errFirstThread: kernels before 6.10 without a later correction let a probe that is for one
// process run for its first thread only.
var errFirstThread = errors.New("this kernel lets probes in functions run in the first thread of a process only: it takes Linux 6.10, or a later release of 6.6")

// trapsMeasured is what was found out; errors are not kept, they may be of the moment.
var trapsMeasured struct {
	sync.Mutex
	*traps
}

// trapCosts measures it, the first time, with a function of this program, in some ten ms. The
// error is errFirstThread if that is so.
func trapCosts() (traps, error) {
	m := &trapsMeasured
	m.Lock()
	defer m.Unlock()
	if m.traps == nil {
		t, err := measureTraps()
		if err != nil {
			return t, err
		}
		m.traps = &t
	}
	return *m.traps, nil
}

// leastTrap is what a way to the kernel and back takes at least, in ns, whatever a clock says
// that counts ticks.
const leastTrap = 200

func measureTraps() (t traps, err error) {
	const self = "/proc/self/exe"
	b, err := symbols.Open(self)
	if err != nil {
		return t, err
	}
	f, err := function(b, "github.com/whylate/whylate/capture/kernel.trapped")
	if err != nil {
		return t, err
	}
	enter, err := b.Enter(f)
	if err != nil {
		return t, err
	}
	returns := b.Returns(f)
	if len(returns) == 0 {
		return t, fmt.Errorf("%s does not return", f.Name)
	}
	var o trapObjects
	if err := loadTrapObjects(&o, nil); err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	exe, err := link.OpenExecutable(self)
	if err != nil {
		return t, err
	}
	without := callCost()
	var hits uint64
	for _, x := range []struct {
		addr uint64
		cost *float64
	}{{enter, &t.cheap}, {returns[0], &t.dear}} {
		offset, ok := b.Offset(x.addr)
		if !ok {
			return t, fmt.Errorf("%#x is not in the executable", x.addr)
		}
		l, err := exe.UprobeMulti(nil, o.WhylateTrap, &link.UprobeMultiOptions{Addresses: []uint64{offset}, PID: uint32(os.Getpid())})
		if err != nil {
			return t, err
		}
		*x.cost = max(callCost()-without, leastTrap)
		if err := l.Close(); err != nil {
			return t, err
		}
	}
	if err := o.Hits.Get(&hits); err != nil {
		return t, err
	}
	if hits == 0 {
		return t, errFirstThread
	}
	return t, nil
}

// callCost is the CPU time of one call of trapped in another thread than the first one, the
// least of some measurements.
func callCost() (ns float64) {
	const calls, times = 200, 4
	inAnotherThread(func() {
		for range times {
			from := threadCPU()
			n := 0
			for range calls {
				n = trapped(n)
			}
			if x := float64(threadCPU()-from) / calls; ns == 0 || x < ns {
				ns = x
			}
		}
	})
	return ns
}

// inAnotherThread does something in a thread that is not the first one of the process.
func inAnotherThread(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if unix.Gettid() == os.Getpid() {
			inAnotherThread(do) // this one is taken
		} else {
			do()
		}
	}()
	<-done
}
