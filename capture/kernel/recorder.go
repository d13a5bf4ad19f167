// Package kernel records what the kernel's scheduler does with the threads of a process:
// when each had a CPU, for how long it had none before, and why: it slept in a system
// call, waited for a page that it touched, wanted a CPU that others had, or was stopped
// by a quota. An execution trace of Go sees none of this once a goroutine has its thread.
// And for a moment it counts how often they read the clock by a system call, which they
// should not need. Other sets of probes can be asked for ([Options.Sets]): they count in
// functions of Go's runtime, or of the program, and where TCP sends something again. What is
// recorded is the member kernel.events of an incident; package events reads it.
//
// Small programs run in the kernel (eBPF, Linux on amd64 and arm64): three where threads are
// switched and woken, two for a second at most where system calls begin and end, and those
// of other sets. To load them takes root, or CAP_BPF and CAP_PERFMON, and a kernel that
// describes its types (CONFIG_DEBUG_INFO_BTF), of 5.15 or newer; for functions 6.6, and
// amd64. The process needs no change. Probes in its functions are breakpoints that the
// kernel sets; nothing else of it is touched.
//
// What it costs is bounded. The programs at system calls are removed when they are found to
// have run 200,000 times, for all processes together: some 12 ms of one CPU. Those in
// functions are removed when the ways to them and back have taken 1 % of the process's CPU
// time within five seconds; what one takes is measured before. Both are looked at each 50 ms,
// by a goroutine that does nothing else: what many CPUs do within these comes on top, and
// what they do as long as the recorder itself gets no CPU. Switches of other processes cost a comparison, those of the
// recorded one some hundred ns; the kernel counts it, and After.Programs says it. Events
// go through a buffer of fixed size to a file of bounded size: what does not fit in the
// buffer is counted as lost, and when the file is full the programs are removed at once.
// They live as long as this process has them open: it may be killed at any time.
package kernel

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/whylate/whylate/capture/kernel/events"
)

// ErrUnsupported: it is another operating system, or the kernel or the place lacks
// what is needed. The error that wraps it says what.
var ErrUnsupported = errors.New("scheduling events cannot be recorded here")

// Options bound a recording. The zero value, with W set, is what a diagnosis uses.
type Options struct {
	// W takes kernel.events. It is written to by one goroutine at a time until
	// Recorder.Stop returns.
	W io.Writer
	// MaxBytes bounds the file; 0 means 64 MiB, more than a million stretches.
	MaxBytes int64
	// Buffer is the size in bytes of the buffer between the kernel and the recorder,
	// rounded up to what the kernel can have; 0 means 2 MiB, 42,000 stretches.
	Buffer int

	// Sets are the sets of probes to be recorded beside [events.Sched]; nil means
	// [events.Clock] and [events.TCP]. One that cannot be recorded is said in After.Missing.
	Sets []string

	// Func matches the functions whose calls [events.Func] records, 64 at most.
	Func *regexp.Regexp

	// Each is given every stretch that is written, and Interim, about once in Every, what the
	// bursts have counted so far: both by one goroutine, until Recorder.Stop returns. They
	// may be nil; they must not keep what they are given, and not be slow.
	Each    func(*events.Stretch)
	Interim func(*events.After)
	Every   time.Duration
	// Later: the sets beside [events.Sched] and [events.TCP] begin with Recorder.Begin: what
	// they may take is for a part of a recording only.
	Later bool
	// Stay lets each set stay as long as it takes no more than its share, instead of
	// removing it after some seconds.
	Stay bool

	// clockRuns, share, window and connections replace the constants, for tests.
	clockRuns   uint64
	share       float64
	window      time.Duration
	connections uint32
	// old reads a thread's state as kernels before 5.18 need it, and whether it is
	// throttled as those before 6.18 do; for tests.
	old bool
}

// sets are those beside events.Sched, each once.
func (o *Options) sets() []string {
	if o.Sets == nil {
		return []string{events.Clock, events.TCP}
	}
	list := slices.Clone(o.Sets)
	slices.Sort(list)
	list = slices.Compact(list)
	if slices.Contains(list, events.CgoReturn) { // it counts what the other one does
		list = slices.DeleteFunc(list, func(s string) bool { return s == events.Cgo })
	}
	return list
}
