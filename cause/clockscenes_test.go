package cause_test

import (
	"testing"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline/timelinetest"
)

var (
	clock  = []string{"runtime.nanotime1", "time.now", "time.Now", "main.stamp", "main.serve"}
	code   = []string{"main.scale", "main.serve"}
	kernel = []string{"internal/runtime/syscall.Syscall6", "syscall.RawSyscall6", "main.scan", "main.serve"}
)

// computing is a service whose every tenth request computes for 10 ms in each of
// some stacks.
func computing(stacks ...[]string) scene {
	return scene{procs: 2, in: every(10, func(p *play) {
		for _, s := range stacks {
			p.pass(5 * ms)
			p.b.Sample(serving, p.stack(s...))
			p.pass(5 * ms)
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			p.runs(serving, 0)
		}
	})}
}

// onHost is the evidence of a host on which the process spends a part of its CPU
// time in the kernel.
func onHost(system float64) cause.Settings {
	r := &host.Recording{Static: host.Static{TickNS: 10 * ms}}
	for at := int64(0); at <= 10_000*ms; at += 100 * ms {
		used := float64(at)
		r.Samples = append(r.Samples, host.Sample{
			MonoNS: int64(timelinetest.Epoch) + at,
			UserNS: int64(used * (1 - system)), SystemNS: int64(used * system),
		})
	}
	return cause.Settings{Host: r}
}

// called is what the kernel counts of so many calls while the scene lasts.
func called(set cause.Settings, calls, each int64) cause.Settings {
	from := int64(timelinetest.Epoch)
	set.Kernel.Readings = &events.Readings{FromNS: from, ToNS: from + 10_000*ms, Calls: calls, NS: calls * each, MaxNS: each}
	return set
}

// unknownFirst adds calls of which the stack is not known, more than of any other.
func unknownFirst(set cause.Settings) cause.Settings {
	r := set.Kernel.Readings
	r.Callers = append([]events.Caller{{N: 1000}}, r.Callers...)
	return set
}

// briefly ends the counting before the first request is sampled.
func briefly(set cause.Settings) cause.Settings {
	set.Kernel.Readings.ToNS = set.Kernel.Readings.FromNS + 100*ms
	return set
}

// few is a service of which one in fifty requests computes for 10 ms, at one of some stacks in turn.
func few(stacks ...[]string) scene {
	n := 0
	return scene{procs: 2, in: every(50, func(p *play) {
		n++
		p.pass(5 * ms)
		p.b.Sample(serving, p.stack(stacks[n%len(stacks)]...))
		p.pass(5 * ms)
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.runs(serving, 0)
	})}
}

// from says who made the calls that the kernel counted.
func from(set cause.Settings, stack ...string) cause.Settings {
	set.Kernel.Readings.Callers = []events.Caller{{N: 100, Stack: stack}}
	return set
}

// inChild is a service that serves each request in a child, which computes for 40 ms of a tenth of them, at a stack.
func inChild(at []string) scene {
	return timely(func(*play) {}, func(p *play, child gotrace.GoID, slow bool) {
		for range 4 {
			if slow {
				p.pass(5 * ms)
				p.b.Sample(child, p.stack(at...))
				p.pass(5 * ms)
				p.do(p.b.Yields(child, "preempted", p.stack("main.show")))
				p.runs(child, 1)
			}
		}
	})
}

var clockScenes = []told{
	{name: "a child reads the clock, which is a system call", scene: inChild(clock[:4]), set: called(cause.Settings{}, 3_000_000, 350), finding: "slow-clock", where: "main.stamp"},
	{name: "a child computes, where to read the clock is a system call", scene: inChild(code[:1]), set: called(cause.Settings{}, 3_000_000, 350), finding: "expensive-request", where: "main.scale"},
	{name: "the clock is a system call", scene: computing(clock, clock, clock, clock), set: onHost(0.6), finding: "slow-clock", where: "main.stamp"},
	{name: "the clock is read, and nobody knows where", scene: computing(clock, clock, clock, clock), alike: []string{"slow-clock", "expensive-request"}},
	{name: "the clock is read very often, without the kernel", scene: computing(clock, clock, clock, clock), set: onHost(0.05), finding: "expensive-request"},
	{name: "half of it reads the clock", scene: computing(clock, code, clock, code), set: onHost(0.4), finding: "slow-clock", where: "main.stamp", share: 0.5, second: "expensive-request"},
	{name: "a seventh of it reads the clock", scene: computing(clock, code, code, code, code, code, code), set: onHost(0.6), finding: "expensive-request", where: "main.scale"},
	{name: "a seventh of it reads the clock, and nobody knows where", scene: computing(clock, code, code, code, code, code, code), finding: "expensive-request", where: "main.scale"},
	{name: "other system calls explain the kernel's time", scene: computing(clock, kernel, kernel, code), set: onHost(0.5), finding: "expensive-request", where: "main.scan"},
	{name: "the kernel counts the readings", scene: computing(clock, clock, clock, clock), set: called(cause.Settings{}, 3_000_000, 350), finding: "slow-clock", where: "main.stamp"},
	{name: "the kernel counts none", scene: computing(clock, clock, clock, clock), set: called(onHost(0.6), 0, 0), finding: "expensive-request"},
	{name: "the kernel counts those of somebody who calls it himself", scene: computing(clock, clock, clock, clock), set: called(onHost(0.05), 1000, 350), finding: "expensive-request"},
	{name: "the kernel counts the readings, and other calls would explain its time", scene: computing(clock, kernel, kernel, clock), set: called(onHost(0.5), 2_000_000, 350), finding: "slow-clock", where: "main.stamp", second: "expensive-request"},
	{name: "the kernel counts the readings, of which there are too few", scene: computing(clock, code, code, code, code, code, code), set: called(cause.Settings{}, 500_000, 350), finding: "expensive-request", where: "main.scale"},
	{name: "the kernel counts when nobody is sampled, and it is the runtime that calls", scene: computing(clock, clock), set: from(briefly(called(cause.Settings{}, 180_000, 120)), "time.now", "time.Now", "main.stamp"), finding: "slow-clock", where: "main.stamp"},
	{name: "the kernel counts when nobody is sampled, and it is somebody who calls himself", scene: computing(clock, clock), set: from(briefly(called(onHost(0.05), 180_000, 120)), "syscall.RawSyscall", "main.tick"), finding: "expensive-request"},
	{name: "the kernel counts when nobody is sampled, and most of it is of a stack that is not known", scene: computing(clock, clock), set: unknownFirst(from(briefly(called(cause.Settings{}, 180_000, 120)), "time.now", "main.stamp")), finding: "slow-clock", where: "main.stamp"},
	{name: "few samples, which all read the clock", scene: few(clock), set: called(cause.Settings{}, 3_000_000, 350), finding: "slow-clock", where: "main.stamp"},
	{name: "few samples, half of which read the clock", scene: few(clock, code), set: called(cause.Settings{}, 3_000_000, 350), alike: []string{"expensive-request", "page-faults", "quota-too-low", "gomaxprocs-over-quota", "host-contention"}},
	{name: "other system calls do not explain the kernel's time", scene: computing(clock, clock, kernel, kernel), set: onHost(0.9), finding: "slow-clock", where: "main.stamp", second: "expensive-request"},
}

func TestASlowClockIsToldFromCodeThatComputes(t *testing.T) { tell(t, clockScenes) }

// The runtime's way into the kernel has had three names since go1.22.
func TestWhereTheRuntimeEntersTheKernelIsKnown(t *testing.T) {
	for f, want := range map[string]bool{
		"runtime/internal/syscall.Syscall6":         true, // go1.22
		"internal/runtime/syscall.Syscall6":         true, // go1.23
		"internal/runtime/syscall/linux.Syscall6":   true, // go1.26
		"syscall.RawSyscall6":                       true,
		"internal/poll.(*FD).Write":                 false,
		"example.com/runtime/syscall/linux.Perform": false,
	} {
		if got := cause.EntersKernel(f); got != want {
			t.Errorf("%s: %v", f, got)
		}
	}
}
