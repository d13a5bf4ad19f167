package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// mostOthers is the part of the CPUs' time that processes which the driver did not start
// may have during a recording. Work of low priority hardly delays clients that run before
// everything, but the program waits for a CPU behind it, and whylate says so, rightly.
const mostOthers = 0.05

// used is from /proc/PID/stat: the CPU time of a process, and of those of its children that
// it has waited for, in ticks.
type used struct {
	parent int
	ticks  float64
}

// processes reads all of them; where there is no /proc, there are none.
func processes() map[int]used {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	all := make(map[int]used, len(files))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		if pid, p, ok := parseProcess(string(b)); ok {
			all[pid] = p
		}
	}
	return all
}

// parseProcess reads the fields 1, 4 and 14 to 17 (proc_pid_stat(5)); the second, in
// parentheses, may contain anything.
func parseProcess(stat string) (pid int, p used, ok bool) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return 0, p, false
	}
	f := strings.Fields(stat[end+1:])
	if len(f) < 15 {
		return 0, p, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(stat[:open]))
	if err != nil {
		return 0, p, false
	}
	if p.parent, err = strconv.Atoi(f[1]); err != nil {
		return 0, p, false
	}
	for _, s := range f[11:15] {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, p, false
		}
		p.ticks += n
	}
	return pid, p, true
}

// kthreadd is the parent of the kernel's threads, which work for whoever asks.
const kthreadd = 2

// others is the CPU time of all processes but the kernel's threads, one of them, and its
// descendants. What a process has used its parent inherits when it has ended, so that
// the difference of two such sums misses nobody who has come or gone between.
func others(all map[int]used, ours int) time.Duration {
	var ticks float64
	for pid, p := range all {
		up := pid
		for n := 0; n < len(all) && up > 0 && up != ours && up != kthreadd; n++ {
			up = all[up].parent
		}
		if up != ours && up != kthreadd {
			ticks += p.ticks
		}
	}
	return time.Duration(ticks * float64(tick))
}

// othersTime is what the processes that this one did not start have used until now.
func othersTime() time.Duration { return others(processes(), os.Getpid()) }
