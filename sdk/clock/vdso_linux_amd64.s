#include "textflag.h"
#include "funcdata.h"

// func readClock(fn uintptr, id int64) int64
//
// The kernel's code runs on the stack of the goroutine. There the prologue of this function,
// which is no NOSPLIT one, leaves at least 800 bytes below SP (StackGuard - StackSmall of
// the runtime); depth measures how much of it the kernel takes. Nothing of the runtime looks
// at this stack meanwhile: the goroutine is not at a safe point in a function it does not
// know, and signals have a stack of their own. SP has to be a multiple of 16 before the call;
// PUSHQ and POPQ, unlike AND, tell an unwinder where it is.
TEXT ·readClock(SB), 0, $16-24
	NO_LOCAL_POINTERS
	MOVQ fn+0(FP), AX
	MOVQ id+8(FP), DI
	LEAQ 0(SP), SI
	TESTQ $8, SP
	JNZ odd
	CALL AX
	JMP done
odd:
	PUSHQ AX
	CALL AX
	POPQ CX
done:
	TESTL AX, AX
	JNZ failed
	MOVQ 0(SP), AX
	IMULQ $1000000000, AX
	ADDQ 8(SP), AX
	MOVQ AX, ret+16(FP)
	RET
failed:
	MOVQ $-1, ret+16(FP)
	RET

// func readCoarse() (sec, nsec int64)
//
// As readClock does for monotonicCoarse, without a look at the result: find has seen that the
// kernel knows this clock. The prologue of Coarse has made the room: 24 bytes less of it.
TEXT ·readCoarse(SB), NOSPLIT, $0-16
	NO_LOCAL_POINTERS
	MOVQ ·coarse(SB), AX
	MOVL $6, DI
	LEAQ sec+0(FP), SI
	TESTQ $8, SP
	JNZ odd
	CALL AX
	RET
odd:
	PUSHQ AX
	CALL AX
	POPQ CX
	RET

// func depth(fn uintptr, id int64) int64
//
// Calls the kernel's code with 4096 bytes painted below it, and returns how many of them,
// counted from the call, were not as before.
TEXT ·depth(SB), 0, $4160-24
	NO_LOCAL_POINTERS
	MOVQ SP, DI
	MOVQ $0x5ca1ab1e0ddba115, AX
	MOVQ $512, CX
	CLD
	REP; STOSQ
	MOVQ fn+0(FP), AX
	MOVQ id+8(FP), DI
	LEAQ 4128(SP), SI
	MOVQ SP, R12 // the kernel's code keeps R12
	LEAQ 4096(SP), R13
	ANDQ $~15, R13
	MOVQ R13, SP
	CALL AX
	MOVQ R12, SP
	MOVQ $0x5ca1ab1e0ddba115, AX
	MOVQ SP, DI
	MOVQ $512, CX
	REP; SCASQ // REPE, as it is called before SCASQ
	SUBQ $8, DI
	SUBQ DI, R13
	MOVQ R13, ret+16(FP)
	RET
