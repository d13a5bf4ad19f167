package novdso

import "syscall"

func stackPointer(r *syscall.PtraceRegs) uintptr { return uintptr(r.Rsp) }
