package doctor

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// settings judges what of the machine's configuration matters for latency.
func settings(f files, k kernel, p *process) []Row {
	names := processNames(f)
	return []Row{
		governor(f),
		numa(f),
		hugePages(f),
		interrupts(f, names),
		synchronised(k, names),
		swap(f, p),
	}
}

// governor is about frequency scaling: how soon a CPU is fast again after idling.
func governor(f files) Row {
	row := Row{ID: "governor", State: OK}
	policies, _ := fs.Glob(f.fs, "sys/devices/system/cpu/cpufreq/policy*")
	var governors, preferences []string
	for _, dir := range policies {
		if v := f.value(dir + "/scaling_governor"); v != "" {
			governors = append(governors, v)
		}
		if v := f.value(dir + "/energy_performance_preference"); v != "" {
			preferences = append(preferences, v)
		}
	}
	if len(governors) == 0 {
		return Row{ID: "governor", State: Absent, Why: "the machine does not scale frequencies, or a hypervisor does it out of sight"}
	}
	row.Value = distinct(governors)
	steady := row.Value == "performance"
	if len(preferences) > 0 {
		row.Value += ", preference " + distinct(preferences)
	}
	if !steady {
		row.State = Look
		row.Why = "a CPU that idled runs slowly at first: requests after a pause take longer"
		row.Advice = "sudo cpupower frequency-set -g performance, A/B"
	}
	return row
}

// numa is about several memory nodes (Documentation/admin-guide/sysctl/kernel.rst
// and vm.rst): balancing unmaps pages to see who uses them, and each such page
// costs a fault; zone reclaim frees near memory before it takes far memory.
func numa(f files) Row {
	nodes := listLen(f.value("sys/devices/system/node/online"))
	if nodes <= 1 {
		return Row{ID: "numa", State: OK, Value: "one node"}
	}
	balancing, reclaim := f.value("proc/sys/kernel/numa_balancing"), f.value("proc/sys/vm/zone_reclaim_mode")
	row := Row{ID: "numa", State: OK, Value: fmt.Sprintf("%d nodes, balancing %s, zone_reclaim_mode %s", nodes, orNone(balancing), orNone(reclaim))}
	switch {
	case reclaim != "" && reclaim != "0":
		row.State = Bad
		row.Why = "an allocation may stop to free memory of its own node although another has some"
		row.Advice = "sudo sysctl vm.zone_reclaim_mode=0"
	case balancing != "" && balancing != "0":
		row.State = Look
		row.Why = "the kernel takes page faults on purpose and moves pages under the running service"
		row.Advice = "bind it to one node (numactl --cpunodebind=0 --membind=0), or sysctl kernel.numa_balancing=0, A/B"
	}
	return row
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// hugePages is about transparent huge pages; what Go's guide to its garbage
// collector says of them is at go.dev/doc/gc-guide#Linux_transparent_huge_pages.
func hugePages(f files) Row {
	const dir = "sys/kernel/mm/transparent_hugepage/"
	enabled, defrag := option(f.value(dir+"enabled")), option(f.value(dir+"defrag"))
	if enabled == "" {
		return Row{ID: "thp", State: Absent}
	}
	row := Row{ID: "thp", State: OK, Value: enabled + ", defrag " + orNone(defrag)}
	switch {
	case enabled == "always" && defrag == "always":
		row.State = Bad
		row.Why = "a page fault may stop to move memory about until a huge page is free"
		row.Advice = "echo madvise | sudo tee /" + dir + "defrag"
	case enabled == "always" && f.value(dir+"khugepaged/max_ptes_none") != "0":
		row.State = Look
		row.Why = "khugepaged gives memory back to the heap that Go has released: resident memory grows"
		row.Advice = "echo 0 | sudo tee /" + dir + "khugepaged/max_ptes_none, or madvise in enabled, A/B"
	}
	return row
}

// maxProcesses bounds the processes whose names are read: the default of pid_max.
const maxProcesses = 1 << 15

// processNames returns the names of the processes that can be seen, nil if those
// of the machine cannot be seen from here.
func processNames(f files) map[string]bool {
	entries, err := fs.ReadDir(f.fs, "proc")
	if err != nil || f.link("proc/self/ns/pid") != initPID || hidepid(f) != "" {
		return nil
	}
	names := make(map[string]bool)
	for i, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil && i < maxProcesses {
			names[f.value("proc/"+e.Name()+"/comm")] = true
		}
	}
	return names
}

// interrupts is about who serves the devices.
func interrupts(f files, names map[string]bool) Row {
	row := Row{ID: "irqbalance", State: OK}
	switch {
	case listLen(f.value("sys/devices/system/cpu/online")) == 1:
		row.Value = "one CPU: nothing to balance"
	case names == nil:
		row.State, row.Why = Unknown, "the machine's processes cannot be seen from here"
	case names["irqbalance"]:
		row.Value = "running"
	default:
		row.State, row.Value = Look, "not running"
		row.Why = "the interrupts of a busy device may all land on one CPU, beside the service"
		row.Advice = "compare the columns of /proc/interrupts; spread them by irqbalance or smp_affinity"
	}
	return row
}

// timeDaemons are those that keep the wall clock.
var timeDaemons = []string{"chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys"}

// synchronised is about the wall clock. Go measures durations on the monotonic
// clock, so this matters for times compared between machines only.
func synchronised(k kernel, names map[string]bool) Row {
	row := Row{ID: "time-sync", State: OK}
	t, err := k.adjtimex()
	if err != nil {
		return Row{ID: "time-sync", State: Unknown, Why: "adjtimex: " + because(err)}
	}
	var daemons []string
	for _, d := range timeDaemons {
		if names[d] {
			daemons = append(daemons, d)
		}
	}
	offset := time.Duration(t.Offset) * time.Microsecond
	if t.Status&staNano != 0 {
		offset = time.Duration(t.Offset)
	}
	row.Value = fmt.Sprintf("offset %s, at most %s off", offset, (time.Duration(t.MaxErrorUS) * time.Microsecond).Round(time.Microsecond))
	if len(daemons) > 0 {
		row.Value += ", kept by " + strings.Join(daemons, ", ")
	}
	if t.State == timeError || t.Status&staUnsync != 0 {
		row.State, row.Value = Look, strings.Join(append([]string{"not synchronised"}, daemons...), ", ")
		row.Why = "durations are right all the same, but times of different machines cannot be compared"
		row.Advice = "chronyc tracking; install chrony if nothing keeps the clock"
	}
	return row
}

// swap is about memory that has to come back from a disk.
func swap(f files, p *process) Row {
	lines := strings.Split(f.value("proc/swaps"), "\n")
	if len(lines) < 2 {
		return Row{ID: "swap", State: OK, Value: "none"}
	}
	mem := fields(f.value("proc/meminfo"))
	total, free := kilobytes(mem["SwapTotal"]), kilobytes(mem["SwapFree"])
	own := int64(0)
	if p.name != "self" {
		own = kilobytes(fields(f.value("proc/" + p.name + "/status"))["VmSwap"])
	}
	row := Row{ID: "swap", State: OK, Value: fmt.Sprintf("%d of %d MiB used, swappiness %s", (total-free)>>10, total>>10, orNone(f.value("proc/sys/vm/swappiness")))}
	switch {
	case own > 0:
		row.State = Bad
		row.Why = fmt.Sprintf("%d kB of the process are swapped out: touching them, as the garbage collector does, waits for a disk", own)
		row.Advice = "lower GOMEMLIMIT or give it memory; MemorySwapMax=0 or swapoff"
	case total > free && p.examined() && p.name != "self":
		row.Why = "some memory of this machine is swapped out, but none of the process's"
	case total > free:
		row.State = Look
		row.Why = "some memory of this machine is swapped out; the garbage collector touches all of the heap"
		row.Advice = "whylate doctor PID says whether it is the service's"
	}
	return row
}

// kilobytes reads "12 kB" of /proc.
func kilobytes(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(s, " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
