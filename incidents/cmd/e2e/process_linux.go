package main

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// The signal of endWithUs is sent when the thread that started the process ends,
// so that main must stay on the thread that lives as long as we do.
func init() { runtime.LockOSThread() }

// endWithUs makes a process end when this one does, for whatever reason.
func endWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// memory is where Linux has a file system in memory (shm_overview(7)), and roomy what a
// program's files may need there: containers often have 64 MB.
const memory, roomy = "/dev/shm", 2 << 30

// memoryFolder makes a folder in memory; "" where that is missing or small.
func memoryFolder() string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Bavail < roomy/uint64(max(1, fs.Bsize)) {
		return ""
	}
	dir, err := os.MkdirTemp(memory, "e2e-")
	if err != nil {
		return ""
	}
	return dir
}

// closeOnExec marks every descriptor beyond the standard streams: Go marks what
// it opens itself, but not what a shell or a supervisor left open for us.
func closeOnExec() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
