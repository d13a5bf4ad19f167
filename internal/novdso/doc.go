// Package novdso starts processes that cannot find the vDSO, so that each of their clock
// reads is a system call, as it is everywhere on a machine whose clock source cannot be read
// from user space. It plants a slow clock in one process and touches nothing else.
package novdso
