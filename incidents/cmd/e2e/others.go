package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// mostOthers is the part of the CPUs' time that processes which the driver did not start
// may have during a recording: with nothing else on the machine they have 0.001 to 0.015.
// Work of low priority hardly delays clients that run before everything, but the program
// waits for a CPU behind it, and whylate says so, rightly.
const mostOthers = 0.05

// A task is what /proc/PID/stat says of a process: the CPU time that it has used itself,
// and that of the children that it has waited for, in ticks.
type task struct {
	name          string
	parent        int
	own, children float64
}

// tasks reads all of them; where there is no /proc, there are none.
func tasks() map[int]task {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	all := make(map[int]task, len(files))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		if pid, t, ok := parseTask(string(b)); ok {
			all[pid] = t
		}
	}
	return all
}

// parseTask reads the fields 1, 2, 4 and 14 to 17 (proc_pid_stat(5)); the second, in
// parentheses, may contain anything.
func parseTask(stat string) (pid int, t task, ok bool) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return 0, t, false
	}
	t.name = stat[open+1 : end]
	f := strings.Fields(stat[end+1:])
	if len(f) < 15 {
		return 0, t, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(stat[:open]))
	if err != nil {
		return 0, t, false
	}
	if t.parent, err = strconv.Atoi(f[1]); err != nil {
		return 0, t, false
	}
	for i, to := range []*float64{&t.own, &t.own, &t.children, &t.children} {
		n, err := strconv.ParseFloat(f[11+i], 64)
		if err != nil {
			return 0, t, false
		}
		*to += n
	}
	return pid, t, true
}

// kthreadd is the parent of the kernel's threads, which work for whoever asks.
const kthreadd = "kthreadd"

// others are the tasks but the kernel's threads, one of them, and its descendants.
func others(all map[int]task, ours int) map[int]task {
	left := map[int]task{}
	for pid, t := range all {
		up, of := pid, t
		for n := 0; n < len(all) && up != ours && of.parent != 0; n++ {
			up = of.parent
			of = all[up]
		}
		if up != ours && of.name != kthreadd {
			left[pid] = t
		}
	}
	return left
}

// since is the CPU time that tasks have used since before. What a task has used its parent
// inherits when it has ended, so that the difference of the sums counts those that came
// or went between; but not where nobody waits for it, or nobody who can be seen. Those
// that are there both times have used no less than what they have used themselves.
func since(now, before map[int]task) time.Duration {
	var all, stayed float64
	for pid, t := range now {
		all += t.own + t.children
		if was, ok := before[pid]; ok {
			stayed += max(0, t.own-was.own)
		}
	}
	for _, t := range before {
		all -= t.own + t.children
	}
	return time.Duration(max(all, stayed) * float64(tick))
}

// strangers are the tasks that this process did not start.
func strangers() map[int]task { return others(tasks(), os.Getpid()) }
