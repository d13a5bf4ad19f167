//go:build amd64 || arm64

package kernel

import (
	"github.com/cilium/ebpf"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/capture/symbols"
)

// names gives addresses in a process the names of its functions.
type names struct {
	bin  *symbols.Binary
	bias uint64
}

// namesOf reads those of a process.
func namesOf(pid int) (*names, error) {
	bin, err := symbols.Open(executable(pid))
	if err != nil {
		return nil, err
	}
	bias, err := symbols.Bias(pid, bin)
	if err != nil {
		return nil, err
	}
	return &names{bin, bias}, nil
}

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
