package main

import (
	"os"
	"strconv"
	"strings"
)

// cpuTimes are ticks of all CPUs since the machine was started.
type cpuTimes struct{ all, stolen float64 }

// cpus reads them from /proc/stat; where there is none, nothing was stolen.
func cpus() cpuTimes {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTimes{}
	}
	return parseCPUs(string(b))
}

// parseCPUs reads the line of all CPUs: user, nice, system, idle, iowait, irq, softirq
// and steal, the first eight numbers (proc(5)); what guests use is in user.
func parseCPUs(stat string) (c cpuTimes) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return cpuTimes{}
	}
	for i, s := range f[1:9] {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return cpuTimes{}
		}
		c.all += n
		if i == 7 {
			c.stolen = n
		}
	}
	return c
}

// stolenSince is the part of the CPUs' time that a hypervisor took since before.
func (c cpuTimes) stolenSince(before cpuTimes) float64 {
	if c.all <= before.all {
		return 0
	}
	return (c.stolen - before.stolen) / (c.all - before.all)
}
