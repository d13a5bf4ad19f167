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

// maxCode is how long a function may be, in bytes.
const maxCode = 1 << 20

// instructions are those of a function.
func (b *Binary) instructions(f Func) ([]instruction, error) {
	if b.machine != elf.EM_X86_64 {
		return nil, fmt.Errorf("%w: the instructions of %v are not known here", ErrNoSite, b.machine)
	}
	if f.End-f.Entry > maxCode {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrNoSite, f.Name, maxCode)
	}
	code, err := b.code(f)
	if err != nil {
		return nil, err
	}
	var list []instruction
	for at := 0; at < len(code); {
		in, ok := decode(code[at:])
		if !ok { // what follows is not known
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

// decode is the instruction that code begins with.
func decode(code []byte) (x86asm.Inst, bool) {
	switch code[0] {
	case 0xc4, 0xc5, 0x62: // the decoder knows few of these, and gives some a wrong length
		n := vector(code)
		return x86asm.Inst{Len: n}, n > 0 // its Op is none that matters here
	}
	in, err := x86asm.Decode(code, 64)
	return in, err == nil && in.Op != 0 // without, it is but the prefix of one that is not known
}

// vector is how many bytes an instruction of AVX, AVX-512 or BMI has: VEX or EVEX prefix,
// opcode, operand, constant (Intel SDM, volume 2, sections 2.3 and 2.7). GOAMD64=v3 shifts
// numbers with them. None of them jumps, calls or returns. It is 0 for others.
func vector(code []byte) int {
	const longest = 15
	var c [longest]byte
	have := copy(c[:], code)
	var prefix int
	var opcodes byte // the map: 1 is 0F, 2 is 0F38, 3 is 0F3A
	switch {
	case c[0] == 0xc5:
		prefix, opcodes = 2, 1
	case c[0] == 0xc4:
		prefix, opcodes = 3, c[1]&0x1f
	case c[0] == 0x62 && c[1]&0x08 == 0 && c[2]&0x04 != 0:
		prefix, opcodes = 4, c[1]&0x07
	}
	if opcodes < 1 || opcodes > 3 {
		return 0
	}
	op := c[prefix]
	n := prefix + 1
	if opcodes != 1 || op != 0x77 { // VZEROUPPER has no operand
		n += operandBytes(c[n:])
	}
	if opcodes == 3 || opcodes == 1 && (op >= 0x70 && op <= 0x73 || op == 0xc2 || op >= 0xc4 && op <= 0xc6) {
		n++
	}
	if n > have {
		return 0
	}
	return n
}

// operandBytes are those of ModRM, SIB and the displacement.
func operandBytes(code []byte) int {
	mod, rm := code[0]>>6, code[0]&7
	n := 1
	if mod == 3 {
		return n
	}
	base := rm
	if rm == 4 {
		n++
		base = code[1] & 7
	}
	switch {
	case mod == 1:
		return n + 1
	case mod == 2 || base == 5: // without a base, or from the next instruction
		return n + 4
	}
	return n
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
		case x86asm.SYSCALL, x86asm.SYSENTER, x86asm.CALL: // after which there may be two of it
			return 0, fmt.Errorf("%w: %s calls before any", ErrNoSite, f.Name)
		case x86asm.RET, x86asm.JMP, x86asm.HLT, x86asm.INT, x86asm.UD1, x86asm.UD2, x86asm.JRCXZ, x86asm.JECXZ, x86asm.LOOP, x86asm.LOOPE, x86asm.LOOPNE, x86asm.XBEGIN:
			return 0, fmt.Errorf("%w: %s ends or branches before any", ErrNoSite, f.Name)
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

// Returns are the addresses at which a function returns; nil if it may also end by a jump to
// another one, or nobody knows where. A probe is dear there.
func (b *Binary) Returns(f Func) (list []uint64) {
	all, err := b.instructions(f)
	if err != nil {
		return nil
	}
	for _, x := range all {
		switch {
		case x.Op == x86asm.RET:
			list = append(list, x.addr)
		case x.Op != x86asm.CALL && x.target != 0 && (x.target < f.Entry || x.target >= f.End):
			return nil
		}
	}
	return list
}
