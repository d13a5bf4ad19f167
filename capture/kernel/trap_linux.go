//go:build amd64 || arm64

package kernel

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/cilium/ebpf/link"

	"github.com/whylate/whylate/capture/symbols"
)

// trapped is a function to put a probe into: it has a frame, as those have that are
// watched.
//
//go:noinline
func trapped(n int) int { return inner(n) + 1 }

//go:noinline
func inner(n int) int { return n ^ 1 }

// trapCost is how many ns of CPU time it takes a thread of this machine to go to the
// kernel and back for a probe in a function, where the instruction is one that the kernel
// emulates. It is measured once, with a function of this program, in 4 ms.
var trapCost = sync.OnceValues(func() (ns float64, err error) {
	const self = "/proc/self/exe"
	b, err := symbols.Open(self)
	if err != nil {
		return 0, err
	}
	sites, err := inside(b, "github.com/whylate/whylate/capture/kernel.trapped")
	if err != nil {
		return 0, err
	}
	offset, ok := b.Offset(sites[0])
	if !ok {
		return 0, fmt.Errorf("%#x is not in the executable", sites[0])
	}
	var o trapObjects
	if err := loadTrapObjects(&o, nil); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	exe, err := link.OpenExecutable(self)
	if err != nil {
		return 0, err
	}
	without := callCost()
	l, err := exe.UprobeMulti(nil, o.WhylateTrap, &link.UprobeMultiOptions{Addresses: []uint64{offset}, PID: uint32(os.Getpid())})
	if err != nil {
		return 0, err
	}
	with := callCost()
	return max(with-without, 1), l.Close()
})

// callCost is the CPU time of one call of trapped, the least of some measurements.
func callCost() (ns float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const calls, times = 500, 4
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
	return ns
}
