package doctor

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Clock says whether reading the clock is a system call here.
type Clock struct {
	// SinceNS and RawNS are the median costs of time.Since and of a raw
	// clock_gettime system call, Ratio the former divided by the latter; all 0 if
	// the clock is too coarse to tell.
	SinceNS float64 `json:"since_ns"`
	RawNS   float64 `json:"raw_ns"`
	Ratio   float64 `json:"ratio"`
	Rows    []Row   `json:"rows"`
}

// slowRatio separates clocks that are read in the process (vDSO) from those that
// take a system call. Measured on go1.21 and go1.26: 0.14 to 0.15 with the vDSO,
// 0.96 to 1.50 without; the ratio is taken because both costs move alike with the
// machine and its load.
const slowRatio = 0.5

// clock measures this process's clock and reads the machine's clock sources.
func clock(f files, measure func() (since, raw []float64), p *process) Clock {
	var c Clock
	if since, raw := measure(); len(since) > 0 && len(raw) > 0 && median(raw) > 0 && median(since) > 0 {
		c.SinceNS, c.RawNS = median(since), median(raw)
		c.Ratio = c.SinceNS / c.RawNS
	}
	const dir = "sys/devices/system/clocksource/clocksource0/"
	current, available := f.value(dir+"current_clocksource"), f.value(dir+"available_clocksource")
	c.Rows = append(c.Rows, c.cost(current, available, p), source(current, available))
	if p.name != "self" && p.examined() {
		c.Rows = append(c.Rows, vdso(f, p))
	}
	return c
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return s[len(s)/2]
}

func (c *Clock) cost(current, available string, p *process) Row {
	row := Row{ID: "cost", State: OK}
	if c.Ratio == 0 {
		row.State, row.Why = Unknown, "the clock is too coarse to measure what reading it costs"
		row.Advice = sourceAdvice(current, available)
		return row
	}
	row.Value = fmt.Sprintf("time.Since %.0f ns, system call %.0f ns, ratio %.2f", c.SinceNS, c.RawNS, c.Ratio)
	if c.Ratio >= slowRatio {
		row.State = Bad
		row.Why = "every read of the clock is a system call, and time.Now makes two"
		row.Advice = sourceAdvice(current, available)
	} else {
		row.Why = "the clock is read without a system call"
	}
	if p.name != "self" {
		row.Why += "; measured in this process, not in the target"
	}
	return row
}

// fast are the clock sources that the kernel lets processes read without a system
// call, on the architectures that Go supports, if the machine's counter is sound.
var fast = []string{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase", "riscv_clocksource", "stp", "Constant"}

func source(current, available string) Row {
	row := Row{ID: "clocksource", State: OK, Value: current + " of " + strings.Join(strings.Fields(available), ", ")}
	switch {
	case current == "":
		return Row{ID: "clocksource", State: Absent}
	case !slices.Contains(fast, current):
		row.State = Look
		row.Why = "the kernel does not let processes read it without a system call, as far as known; the ratio above decides"
		row.Advice = sourceAdvice(current, available)
	}
	return row
}

func sourceAdvice(current, available string) string {
	for _, s := range fast {
		if s != current && !slices.Contains(fast, current) && slices.Contains(strings.Fields(available), s) {
			return "echo " + s + " | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource; look in dmesg why the kernel left it"
		}
	}
	if slices.Contains(fast, current) {
		return "the clock source is a fast one: look for vdso=0 on the kernel's command line, or for whatever starts processes without a vDSO; else read the clock less often"
	}
	return "look in dmesg for clocksource and tsc; another machine type, or fewer reads of the clock"
}

// atSysinfo is the type of the auxiliary vector's entry that holds the vDSO's
// address (AT_SYSINFO_EHDR of include/uapi/linux/auxvec.h).
const atSysinfo = 33

// vdso looks for the vDSO of the target, which is a hint and no more: the kernel
// shows it also to a process that was started so that it cannot find it.
func vdso(f files, p *process) Row {
	row := Row{ID: "target-vdso", State: Unknown}
	const decides = "only a count of its clock_gettime system calls decides"
	advice := fmt.Sprintf("sudo whylate diagnose %d counts them for a second", p.PID)
	address, ok, err := auxiliary(f, p.name, atSysinfo, binary.NativeEndian)
	switch {
	case err != nil:
		row.Why, row.Advice = "/proc/"+p.name+"/auxv: "+because(err), advice
	case !ok || address == 0:
		row.State, row.Value = Bad, "none"
		row.Why, row.Advice = "the kernel gave it no vDSO: its clock reads are system calls", "look for vdso=0 on the kernel's command line"
	case !strings.Contains(f.value("proc/"+p.name+"/maps"), "[vdso]"):
		row.State, row.Value = Look, "announced, not mapped"
		row.Why, row.Advice = "a hint; "+decides, advice
	default:
		row.State, row.Value, row.Why = OK, "mapped", "a hint; "+decides
	}
	return row
}
