//go:build amd64 || arm64

package kernel

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/capture/symbols"
)

// names gives addresses in a process the names of its functions.
type names struct {
	bin  *symbols.Binary
	bias uint64
	exe  *os.File // probes belong into this one, whatever the process executes later
}

// namesOf reads those of a process. The caller has to close them.
func namesOf(pid int) (_ *names, err error) {
	n := new(names)
	if n.exe, err = os.Open(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
		return nil, err
	}
	if n.bin, err = symbols.OpenFile(n.exe); err == nil {
		n.bias, err = symbols.Bias(pid, n.bin)
	}
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// path is that of the executable for as long as it is open: a process may execute another
// one meanwhile.
func (n *names) path() string { return fmt.Sprintf("/proc/self/fd/%d", n.exe.Fd()) }

func (n *names) close() error { return n.exe.Close() }

// notGo stands for what is in no function of Go.
const notGo = "[not Go]"

// name is the function at an address.
func (n *names) name(pc uint64) string {
	f, ok := n.bin.At(pc - n.bias)
	if !ok {
		return notGo
	}
	return events.Text(f.Name)
}

// stack is that of addresses, of which all but the first one are where a call returns.
// 0 ends it.
func (n *names) stack(pcs []uint64) (s events.Stack) {
	for i, pc := range pcs {
		if pc == 0 || len(s) == events.MaxFrames {
			break
		}
		if i > 0 {
			pc--
		}
		name := n.name(pc)
		if name == notGo && len(s) > 0 && s[len(s)-1] == notGo {
			continue
		}
		s = append(s, name)
	}
	return s
}

// stackOf names a stack by its number in the map plus one; nil if it is not there.
func (n *names) stackOf(stacks *ebpf.Map, number uint64) events.Stack {
	var pcs [frames]uint64
	if number == 0 || stacks.Lookup(uint32(number-1), &pcs) != nil {
		return nil
	}
	return n.stack(pcs[:])
}
