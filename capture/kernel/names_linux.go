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
	if len(pcs) > 0 && pcs[0] != 0 {
		s = append(s, n.name(pcs[0]))
		s = n.called(s, pcs[1:])
	}
	return s
}

// called is a stack with what called it: addresses to which calls return.
func (n *names) called(s events.Stack, pcs []uint64) events.Stack {
	for _, pc := range pcs {
		if pc == 0 || len(s) == events.MaxFrames {
			break
		}
		name := n.name(pc - 1)
		if name == notGo && len(s) > 0 && s[len(s)-1] == notGo {
			continue
		}
		s = append(s, name)
	}
	return s
}

// withoutInnermost is WITHOUT_INNERMOST in bpf/stacks.h.
const withoutInnermost = 1 << 32

// stackOf names a stack by what stack_of in bpf/stacks.h says; nil if it is not there.
// Innermost is the function of the probe, "" if it is not known.
func (n *names) stackOf(stacks *ebpf.Map, number uint64, innermost string) (s events.Stack) {
	var pcs [frames]uint64
	if number == 0 || stacks.Lookup(uint32(number)-1, &pcs) != nil {
		return nil
	}
	if number&withoutInnermost == 0 {
		return n.stack(pcs[:])
	}
	if innermost != "" {
		s = append(s, innermost)
	}
	return n.called(s, pcs[:])
}
