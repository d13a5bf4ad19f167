package symbols

import (
	"debug/elf"
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"
)

// ErrNoSite: a function has no instruction of the kind that was asked for.
var ErrNoSite = errors.New("no place for a probe")

// instruction is one of a function.
type instruction struct {
	x86asm.Inst
	addr   uint64
	target uint64 // of a jump or call to an address that is known, else 0
	cheap  bool   // Linux does what it does instead of letting it run for itself
}

// instructions are those of a function.
func (b *Binary) instructions(f Func) ([]instruction, error) {
	if b.machine != elf.EM_X86_64 {
		return nil, fmt.Errorf("%w: the instructions of %v are not known here", ErrNoSite, b.machine)
	}
	code, err := b.code(f)
	if err != nil {
		return nil, err
	}
	var list []instruction
	for at := 0; at < len(code); {
		in, err := x86asm.Decode(code[at:], 64)
		if err != nil { // newer than the decoder: what follows is not known
			return nil, fmt.Errorf("%w: %s has an instruction that is not known, at %#x", ErrNoSite, f.Name, f.Entry+uint64(at))
		}
		x := instruction{Inst: in, addr: f.Entry + uint64(at), cheap: emulated(code[at : at+in.Len])}
		if rel, ok := in.Args[0].(x86asm.Rel); ok {
			x.target = x.addr + uint64(in.Len) + uint64(int64(rel))
		}
		list = append(list, x)
		at += in.Len
	}
	return list, nil
}

// emulated tells whether Linux does itself what an instruction does, when there is a probe
// (arch/x86/kernel/uprobes.c: branch_setup_xol_ops, push_setup_xol_ops): to let it run and
// come back takes as long again, and under a hypervisor twenty times as long.
func emulated(code []byte) bool {
	switch op := code[0]; {
	case op >= 0x50 && op <= 0x57, op == 0x41 && len(code) == 2 && code[1] >= 0x50 && code[1] <= 0x57: // PUSH
		return true
	case op >= 0x70 && op <= 0x7f, op == 0xeb, op == 0xe9, op == 0xe8, op == 0x90: // Jcc, JMP, CALL, NOP
		return true
	case op == 0x0f && len(code) > 1 && (code[1] >= 0x80 && code[1] <= 0x8f || code[1] == 0x1f): // Jcc, NOP
		return true
	}
	return false
}

// Enter is an address that is executed once for each call of a function, early, and where
// a probe is cheap: the first instruction that Linux emulates behind the check whether the
// stack is large enough, which may send the function back to its beginning. Where that is
// the function's Entry, nothing has happened before.
func (b *Binary) Enter(f Func) (uint64, error) {
	list, err := b.instructions(f)
	if err != nil {
		return 0, err
	}
	more := b.moreStack(list)
	site := uint64(0)
	for _, x := range list {
		if x.target != 0 && more[x.target] {
			continue // the check
		}
		if x.cheap {
			site = x.addr
			break
		}
		switch x.Op {
		case x86asm.RET, x86asm.JMP, x86asm.INT, x86asm.UD1, x86asm.UD2:
			return 0, fmt.Errorf("%w: %s ends before any", ErrNoSite, f.Name)
		}
	}
	if site == 0 {
		return 0, fmt.Errorf("%w: %s has none", ErrNoSite, f.Name)
	}
	// A loop that comes back here, or before it, would be many calls.
	growing := false
	for _, x := range list {
		growing = growing || more[x.addr]
		if x.Op != x86asm.CALL && x.target >= f.Entry && x.target <= site && x.target != 0 && !(growing && x.target == f.Entry) {
			return 0, fmt.Errorf("%w: %s comes back to its beginning", ErrNoSite, f.Name)
		}
	}
	return site, nil
}

// moreStack are where a function goes if its stack is too small: it saves registers, calls
// the runtime, and begins again.
func (b *Binary) moreStack(list []instruction) map[uint64]bool {
	grow := map[uint64]bool{}
	from := 0 // where what leads straight to this instruction begins
	targets := map[uint64]bool{}
	for _, x := range list {
		if x.Op != x86asm.CALL && x.target != 0 {
			targets[x.target] = true
		}
	}
	for i, x := range list {
		switch {
		case x.Op == x86asm.CALL && x.target != 0:
			callee, ok := b.At(x.target)
			if ok && callee.Entry == x.target && isMoreStack(callee.Name) {
				for _, y := range list[from : i+1] {
					if targets[y.addr] {
						grow[y.addr] = true
					}
				}
			}
			from = i + 1
		case x.Op == x86asm.RET, x.target != 0, x.Op == x86asm.JMP, x.Op == x86asm.UD2, x.Op == x86asm.INT:
			from = i + 1
		}
	}
	return grow
}

func isMoreStack(name string) bool {
	switch name {
	case "runtime.morestack", "runtime.morestack_noctxt", "runtime.morestackc":
		return true
	}
	return false
}

// CallsTo are the addresses at which a function calls another one.
func (b *Binary) CallsTo(f Func, callee string) (list []uint64) {
	to, ok := b.Func(callee)
	if !ok {
		return nil
	}
	all, err := b.instructions(f)
	if err != nil {
		return nil
	}
	for _, x := range all {
		if x.Op == x86asm.CALL && x.target == to.Entry && x.cheap {
			list = append(list, x.addr)
		}
	}
	return list
}

// Returns are the addresses at which a function returns. A probe is dear there.
func (b *Binary) Returns(f Func) (list []uint64) {
	all, err := b.instructions(f)
	if err != nil {
		return nil
	}
	for _, x := range all {
		if x.Op == x86asm.RET {
			list = append(list, x.addr)
		}
	}
	return list
}
