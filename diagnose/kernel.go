package diagnose

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// kernelWord is what a reader calls kernel.events.
const kernelWord = "scheduling events"

// probes are what a reader calls sets of probes.
var probes = map[string]string{
	events.Sched:     kernelWord,
	events.Clock:     "system calls that read the clock",
	events.Cgo:       "calls into C",
	events.CgoReturn: "calls into C and the ways back",
	events.Alloc:     "sampled allocations",
	events.Func:      "calls of the function",
	events.GC:        "cycles of the garbage collector",
	events.TCP:       "what connections send again",
	events.Gosched:   "waits of runnable goroutines",
}

// ProbeSets are the sets of probes in the kernel that can be asked for, beside that which
// is always there: [events.Sched].
func ProbeSets() []string {
	list := slices.Sorted(maps.Keys(probes))
	return slices.DeleteFunc(list, func(s string) bool { return s == events.Sched })
}

// kernelRecording is the kernel's scheduling events being recorded beside a trace.
type kernelRecording struct {
	w   *evidence.Writer
	mem *evidence.MemberWriter
	rec *kernel.Recorder
}

// startKernel begins to record the scheduling events of a process; other probes begin with
// begin. What cannot be recorded is entered in the manifest, and the result is nil; that
// the calls of a function cannot be is an error, for then nobody knows what a request is.
func startKernel(w *evidence.Writer, pid int, o *RecordOptions) (*kernelRecording, error) {
	mem, err := w.Member(evidence.MemberKernel)
	if err != nil {
		return nil, fmt.Errorf("record scheduling events: %w", err)
	}
	rec, err := kernel.Start(pid, kernel.Options{W: mem, Sets: o.Probes, Func: o.Func, Later: true})
	if err != nil {
		err = errors.Join(err, mem.Close()) // empty, so it leaves nothing
		if o.Func != nil {
			return nil, noCalls(err)
		}
		notRecorded(w, kernelWord, err.Error(), kernelCommand(err, pid, o))
		notProbed(w, o, err.Error())
		return nil, nil
	}
	k := &kernelRecording{w, mem, rec}
	for _, m := range rec.Missing() {
		if m.Probes == events.Func {
			_, err := rec.Stop()
			return nil, errors.Join(noCalls(errors.New(m.Why)), err, mem.Close())
		}
	}
	return k, nil
}

// noCalls says that the calls of a function that is to be a request cannot be recorded.
func noCalls(err error) error {
	return fmt.Errorf("--probes func= cannot be recorded: %w", err)
}

// begin begins the probes that are not there all the time.
func (k *kernelRecording) begin() {
	if k != nil {
		k.rec.Begin()
	}
}

// kernelCommand says how to get the scheduling events.
func kernelCommand(err error, pid int, o *RecordOptions) string {
	if !errors.Is(err, os.ErrPermission) || os.Geteuid() == 0 {
		return ""
	}
	var list []string
	for _, set := range o.Probes {
		if set == events.Func {
			set += "=" + o.Func.String()
		}
		list = append(list, set)
	}
	command := fmt.Sprintf("sudo whylate diagnose %d", pid)
	if sets := strings.Join(list, ","); sets != "" {
		command += " --probes '" + strings.ReplaceAll(sets, "'", `'\''`) + "'"
	}
	return command
}

// notProbed says of each set that was asked for that it was not recorded, and why.
func notProbed(w *evidence.Writer, o *RecordOptions, why string) {
	for _, set := range o.Probes {
		notRecorded(w, probes[set], why, "")
	}
}

// stop ends the recording and enters what it took in the manifest.
func (k *kernelRecording) stop() {
	if k == nil {
		return
	}
	after, err := k.rec.Stop()
	if err = errors.Join(err, k.mem.Close()); err != nil {
		notRecorded(k.w, kernelWord, err.Error(), "")
	}
	if err == nil && len(after.Programs) == 0 {
		notRecorded(k.w, "what the probes in the kernel took", "the kernel measures them for root, or with CAP_SYS_ADMIN, only", "")
	}
	k.w.Edit(func(m *evidence.Manifest) {
		m.Cost.Kernel = kernelCost(after)
		for _, x := range after.Missing {
			m.NotRecorded = append(m.NotRecorded, evidence.NotRecorded{What: probes[x.Probes], Why: x.Why})
		}
		if after.Full {
			m.NotRecorded = append(m.NotRecorded, evidence.NotRecorded{What: "some " + kernelWord, Why: "the bound in bytes was reached before the recording ended", Command: "--for with a shorter time"})
		}
	})
}

// kernelCost is what the manifest says of the recorder.
func kernelCost(a events.After) evidence.KernelCost {
	c := evidence.KernelCost{CPUSeconds: float64(a.CPUNS) / 1e9, Events: a.Stretches, Lost: a.Lost}
	for _, p := range a.Programs {
		c.ProbeRuns += p.Runs
		c.ProbeSeconds += time.Duration(p.NS).Seconds()
	}
	if len(a.Programs) == 0 { // a part would look like all of it
		return c
	}
	for _, b := range a.Bursts() { // the ways to the programs and back are not the programs'
		c.ProbeSeconds += time.Duration(float64(b.Hits) * float64(b.HitNS)).Seconds()
	}
	return c
}

// mostLost is the part of the stretches that may be lost, for the rest to be used: what a
// thread did in one that is missing is not known, and counts as computing.
const mostLost = 0.01

// unusable is why the scheduling events of an incident are not looked at, although they can
// be read; calls are those of functions that were recorded with them, nil without.
type unusable struct {
	why   string
	calls *events.Calls
}

func (u *unusable) Error() string { return u.why }

// kernelEvents returns the scheduling events of an incident; nil without any, with a
// reason if there are some that cannot be used.
func kernelEvents(in *evidence.Incident, t *timeline.Timeline) (*events.Recording, error) {
	rec, err := readKernel(in)
	if rec == nil || err != nil {
		return nil, err
	}
	if err := usable(rec, t); err != nil {
		return nil, err
	}
	return rec, nil
}

// usable says why the kernel's events tell nothing about a timeline; nil if they do.
func usable(rec *events.Recording, t *timeline.Timeline) error {
	no := func(format string, args ...any) error {
		return &unusable{fmt.Sprintf(format, args...), rec.After.Func}
	}
	switch a := rec.After; {
	case a.Full && a.EndNS < int64(t.End):
		return no("they end before the recording does: the bound in bytes was reached")
	case float64(a.Lost) > mostLost*float64(a.Stretches):
		return no("%d of %d were lost", a.Lost, a.Lost+a.Stretches)
	case rec.Header.StartNS > int64(t.Start) || a.EndNS < int64(t.End):
		return no("they were not taken all the time while the trace ran")
	}
	n := 0
	for _, id := range t.Threads {
		if rec.Knows(int(id)) {
			n++
		}
	}
	if float64(n) < sameThreads*float64(len(t.Threads)) {
		return no("only %d of the trace's %d threads belong to process %d", n, len(t.Threads), rec.Header.PID)
	}
	return nil
}

// readKernel reads the scheduling events of an incident; nil without any.
func readKernel(in *evidence.Incident) (*events.Recording, error) {
	if !in.Has(evidence.MemberKernel) {
		return nil, nil
	}
	r, err := in.Member(evidence.MemberKernel)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	rec, err := events.Read(r)
	if err == nil && rec.After == nil {
		err = errors.New("the file was cut")
	}
	if err != nil {
		return nil, err
	}
	return rec, nil
}

// mapColumns is how many columns the map of waits for a CPU has.
const mapColumns = 60

// counted is what the report shows of what probes counted, and of the waits for a CPU from
// one instant to another.
func counted(r *events.Recording, from, to int64) *report.Kernel {
	a := r.After
	return &report.Kernel{
		RunQueue: r.RunQueue(from, to, mapColumns),
		Clock:    a.Readings, Cgo: a.Cgo, Alloc: a.Allocs, GC: a.GC, Gosched: a.Waits, TCP: a.TCP, Func: a.Func, FuncTimes: callTimes(r.Calls),
	}
}

// callTimes sums up calls of functions; nil if none ended.
func callTimes(calls []events.Call) *report.CallTimes {
	var took []int64
	var t report.CallTimes
	for _, c := range calls {
		if c.Open {
			t.Open++
			t.OldestNS = max(t.OldestNS, c.To-c.From)
		} else {
			took = append(took, c.To-c.From)
		}
	}
	if len(took) == 0 {
		return nil
	}
	slices.Sort(took)
	at := func(part float64) int64 { return took[min(int(part*float64(len(took))), len(took)-1)] }
	t.Ended, t.P50NS, t.P90NS, t.P99NS, t.MaxNS = len(took), at(0.5), at(0.9), at(0.99), took[len(took)-1]
	return &t
}

// requestOptions say what a request is: calls of a function that probes recorded, unless
// the user says otherwise.
func requestOptions(r *events.Recording, o *AnalyseOptions) request.Options {
	by := request.Options{Func: o.Request}
	if r != nil && r.After.Func != nil && o.Request == nil {
		by.Calls, by.Functions = r.Calls, r.After.Func.Functions
	}
	return by
}

// most is the part of the calls, and of the time, that has to be there for nothing to be late
// in them to mean something.
const most = 0.9

// noteCalls says what of the calls is missing.
func noteCalls(d *report.Diagnosis, r *events.Recording, unused error, o *AnalyseOptions) {
	note := func(format string, args ...any) { d.Notes = append(d.Notes, fmt.Sprintf(format, args...)) }
	names := func(f *events.Calls) string { return strings.Join(f.Functions[:min(len(f.Functions), 3)], ", ") }
	var no *unusable
	if errors.As(unused, &no) && no.calls != nil && o.Request == nil {
		note("The recorded calls of %s cannot be used, for the kernel's scheduling events cannot: requests were found as without.", names(no.calls))
	}
	if r == nil || r.After.Func == nil {
		return
	}
	f := r.After.Func
	seconds := float64(f.ToNS-f.FromNS) / 1e9
	if o.Request != nil {
		note("The recorded calls of %s are left out: --request says what a request is.", names(f))
		return
	}
	const share = "then the probes had taken their share of the CPU. Name a function that is called less often (docs/probes.md)."
	switch {
	case f.Calls == 0:
		note("There were no calls of %s while there were probes in it: requests were found as without.", names(f))
	case d.Requests.Count+d.Requests.InFlight == 0 && f.Short:
		note("None of the %d calls of %s lies within the trace: they are of %.2f s only, %s", f.Calls, names(f), seconds, share)
	case d.Requests.Count+d.Requests.InFlight == 0:
		note("None of the %d calls of %s lies within the trace.", f.Calls, names(f))
	case f.Short:
		note("Requests are the calls of %s in the first %.1f s only: %s What was under way then counts as in flight.", names(f), seconds, share)
	}
	if f.Lost > 0 {
		note("%d calls of %s were lost: there was no room for them.", f.Lost, names(f))
	}
	switch {
	case f.Calls == 0 || d.Verdict != report.VerdictHealthy:
	case f.Short:
		inconclusive(d, fmt.Sprintf("these are of %.1f s only: %s", seconds, share), names(f))
	case float64(f.Calls) < most*float64(f.Calls+f.Lost):
		inconclusive(d, fmt.Sprintf("%d more were lost: there was no room for them.", f.Lost), names(f))
	case float64(f.ToNS-f.FromNS) < most*float64(d.DurationNS):
		inconclusive(d, fmt.Sprintf("these are of %.1f s only.", seconds), names(f))
	}
}

// inconclusive takes back that nothing is late.
func inconclusive(d *report.Diagnosis, but, names string) {
	d.Verdict, d.Reason = report.VerdictInconclusive, "few-requests"
	d.Sentence = fmt.Sprintf("There is nothing to explain in the %d calls of %s that were recorded, but %s", d.Requests.Count, names, but)
}

// ran is what the kernel counts of the process while it is recorded: where its CPU time was read.
func ran(r *host.Recording) (list []events.Ran) {
	for i := range r.Samples {
		s := &r.Samples[i]
		if n := len(list); n == 0 || s.RunNS != list[n-1].NS {
			list = append(list, events.Ran{AtNS: s.MonoNS, TookNS: s.TookNS, NS: s.RunNS, StolenNS: s.Machine.StealNS, TickNS: r.Static.TickNS})
		}
	}
	return list
}
