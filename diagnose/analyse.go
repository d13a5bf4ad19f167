// Package diagnose owns the whole way from a target to a diagnosis: it records,
// if the target is alive, and runs the stages of the analysis one after the other.
package diagnose

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/cause"
	_ "github.com/whylate/whylate/cause/all" // the catalogue
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/gotrace/slow"
	"github.com/whylate/whylate/internal/version"
	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/report/detail"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// AnalyseOptions say what the user knows. The zero value is a useful default.
type AnalyseOptions struct {
	// SLO is the latency objective; 0 if there is none.
	SLO time.Duration
	// Baseline is a recording of the same service when it was fine, or nil.
	Baseline *evidence.Incident
	// BaselineName is how reports call it.
	BaselineName string
	// Request, if not nil, defines requests by a function's name.
	Request *regexp.Regexp
	// NoHost ignores the host's evidence: what a recording by URL alone would say.
	NoHost bool
	// NoKernel ignores the kernel's events.
	NoKernel bool
	// Window is about how many bytes of trace are analysed at a time; 0 means 7 MiB of one that is
	// longer than 32 MiB, else all. What is known of them in memory is about ten times as long, with
	// all that a diagnosis needs 15 times, for each of Jobs, beside two generations of the trace.
	Window int64
	// Jobs is how many windows are analysed at the same time, each in memory of its own; 0 means 1.
	// It changes nothing in the diagnosis.
	Jobs int
	// Slow reads traces with the Go team's reader instead of our own.
	Slow bool
	// Check adds the closure of every attributed request to the diagnosis.
	Check bool
	// Detail, if not nil, has the diagnosis say what is known request by request.
	Detail *detail.Options
	// Guards and Timeline switch protections off; tests only.
	Guards   blame.Guards
	Timeline timeline.Options
}

// leftOut says that a member was not looked at, if there is one.
func leftOut(in *evidence.Incident, member string) error {
	if !in.Has(member) {
		return nil
	}
	return errors.New("recorded, and left out of this diagnosis as it was asked for")
}

// ErrNoTrace reports an incident without an execution trace.
var ErrNoTrace = errors.New("the incident holds no execution trace")

// Analyse diagnoses an incident. The incident stays the caller's. A trace that is
// cut or damaged is diagnosed as far as it goes, with Lost set; an incident without
// one is inconclusive.
func Analyse(in *evidence.Incident, o AnalyseOptions) (*report.Diagnosis, error) {
	if !in.Has(evidence.MemberTrace) {
		return withoutTrace(in, o), nil
	}
	return examine(in, o)
}

// A trace of wholeBytes at most is analysed as one, because less is certain of fewer requests: a
// service with 2,000 requests a second writes as much in half a minute. Of a longer one windowBytes
// are at a time, which bounds the memory: what is known of it takes ten times that, and a diagnosis
// half as much again.
const wholeBytes, windowBytes = 32 << 20, 7 << 20

// examine is the way from an incident with a trace to a diagnosis. A trace that is longer than a
// window, or has damage within, is diagnosed part by part.
func examine(in *evidence.Incident, o AnalyseOptions) (*report.Diagnosis, error) {
	begun := time.Now()
	x := &analysis{in: in, o: o}
	if err := x.read(); err != nil {
		return nil, err
	}
	all, read, err := x.trace()
	if err == nil && o.Window == 0 && x.length < wholeBytes && all.thin() { // requests are rare, and long in bytes
		x.o.Window = wholeBytes
		all, read, err = x.trace()
	}
	if err != nil {
		return nil, err
	}
	if all.worst == nil {
		return nil, nothingIn(in, all.lost)
	}
	d := all.overall()
	pauses(d, &in.Manifest)
	lost(d, in, all.lost, read, all.bytes)
	mostlyLost(d, &in.Manifest)
	d.Cost.AnalyseS = time.Since(begun).Seconds()
	return d, nil
}

// trace diagnoses the trace, of which it reads so many bytes.
func (x *analysis) trace() (all traceWindows, read int64, err error) {
	tr, err := openTrace(x.in, x.o)
	if err != nil {
		return all, 0, err
	}
	defer tr.in.Close()
	x.most, x.length = max(attributed/tr.windows, leastAttributed), tr.most
	err = x.windows(tr, &all)
	return all, tr.offset(), err
}

// windows diagnoses the sections of a trace, several at a time if that is asked for, and adds them
// up in order.
func (x *analysis) windows(tr *trace, all *traceWindows) error {
	var (
		room  = make(chan struct{}, max(1, x.o.Jobs))
		order = make(chan chan section, cap(room))
		begin = make(chan timeline.Time, 1)
		end   error
	)
	begin <- unknown
	go func() {
		defer close(order)
		for {
			room <- struct{}{}
			parts, err := tr.next(true)
			if err != nil {
				end = err
				return
			}
			before, then, done := begin, make(chan timeline.Time, 1), make(chan section, 1)
			begin = then
			go func() { done <- x.section(parts, before, then) }()
			order <- done
		}
	}()
	var failed error
	for done := range order {
		s := <-done
		if failed == nil {
			failed = s.err
			all.join(&s.traceWindows)
		}
		<-room
	}
	if failed == nil && end != io.EOF {
		failed = end
	}
	return failed
}

// section is what the windows of a section of a trace are.
type section struct {
	traceWindows
	err error
}

// unknown is when a trace begins of which nothing was read.
const unknown timeline.Time = math.MinInt64

// section diagnoses a section of a trace. Before says when the trace begins, and after is told.
func (x *analysis) section(parts *timeline.Parts, before <-chan timeline.Time, after chan<- timeline.Time) (s section) {
	s.origin = unknown
	s.err = eachPart(parts, func(t *timeline.Timeline) error {
		if s.origin == unknown {
			if s.origin = <-before; s.origin == unknown {
				s.origin = t.Start
			}
			after <- s.origin
		}
		s.add(x.window(t, s.origin), t)
		return nil
	})
	if s.lost = parts.Lost(); s.origin == unknown {
		after <- <-before
	}
	return s
}

// eachPart calls do with the timelines of the parts in which anything happens, in order; an error
// of do ends it.
func eachPart(parts *timeline.Parts, do func(*timeline.Timeline) error) error {
	for {
		t, err := parts.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read the trace: %w", err)
		case t.Events == 0 || t.Duration() <= 0:
			continue
		}
		if err := do(t); err != nil {
			return err
		}
	}
}

// divide divides a trace into n windows of about the same length in bytes. One that is short by its
// manifest is a window, unless it is longer than the manifest says. Of what the manifest says nothing,
// as of a packed trace, so much is read that it is known whether it is short; n is 1 then.
func divide(in *evidence.Incident, o AnalyseOptions) (length int64, n int) {
	whole, most := int64(wholeBytes), int64(windowBytes)
	if o.Window > 0 {
		whole, most = o.Window, o.Window
	}
	for _, r := range in.Manifest.Recorded {
		if r.Member != evidence.MemberTrace || r.Bytes <= 0 {
			continue
		}
		if r.Bytes > whole {
			n := (r.Bytes-1)/most + 1
			return (r.Bytes-1)/n + 1, int(n)
		}
		return 2 * whole, 1
	}
	if short(in, whole) {
		return 2 * whole, 1
	}
	return most, 1
}

// short reports whether a trace has at most so many bytes, unpacked.
func short(in *evidence.Incident, most int64) bool {
	r, err := in.Member(evidence.MemberTrace)
	if err != nil {
		return false
	}
	defer r.Close()
	n, err := io.CopyN(io.Discard, r, most+1)
	return err != nil && n <= most // the end, or damage, which reading shows
}

// attributed is how many requests of a trace are attributed, and leastAttributed how many of each
// of its windows, if it has more. A trace of one window has blame's own bound, which is the same.
const attributed, leastAttributed = 20_000, 3_000

// analysis is what is the same for all windows of an incident, of which several may be analysed at
// the same time.
type analysis struct {
	in *evidence.Incident
	o  AnalyseOptions
	// most is how many requests of a window are attributed, length the bytes that one has.
	most   int
	length int64

	hosts     *host.Recording
	watch     *events.Recording
	said      []dependency.Server
	hostErr   error
	watchErr  error
	saidErr   error
	base      *cause.Baseline
	allocated []cause.Allocation
}

// read reads what stands beside the trace.
func (x *analysis) read() error {
	in, o := x.in, x.o
	if o.NoHost {
		x.hostErr = leftOut(in, evidence.MemberHost)
	} else {
		x.hosts, x.hostErr = readHost(in)
	}
	if o.NoHost || o.NoKernel {
		x.watchErr = leftOut(in, evidence.MemberKernel)
	} else {
		x.watch, x.watchErr = readKernel(in)
	}
	if x.watch != nil && x.hosts != nil {
		x.watch = x.watch.Robbed(ran(x.hosts))
	}
	x.said, x.saidErr = dependencies(in)
	x.allocated = allocated(in)
	if o.Baseline == nil {
		return nil
	}
	if err := x.baseline(); err != nil {
		return &fs.PathError{Op: "read the baseline", Path: o.BaselineName, Err: err}
	}
	return nil
}

// baseline reads what typical requests took when the service was fine. Of a trace of several
// windows it is the one with the most requests.
func (x *analysis) baseline() error {
	o, in := x.o, x.o.Baseline
	if !in.Has(evidence.MemberTrace) {
		return ErrNoTrace
	}
	most := -1
	_, err := Timelines(in, o, func(t *timeline.Timeline) error {
		then, _ := kernelEvents(in, t) // what cannot be used is as if it were not there
		f := request.Find(t, requestOptions(then, &o))
		n := 0
		for _, r := range f.Roles {
			n = max(n, r.Count)
		}
		if n > most {
			most, x.base = n, cause.Typical(blame.Attribute(t, f, blame.Options{}))
		}
		return nil
	})
	return err
}

// window diagnoses a part of the trace.
func (x *analysis) window(t *timeline.Timeline, origin timeline.Time) *report.Diagnosis {
	o, m := x.o, &x.in.Manifest
	hosts, hostErr, watch, watchErr := x.hosts, x.hostErr, x.watch, x.watchErr
	if hosts != nil {
		if hostErr = ofProcess(hosts, t); hostErr != nil {
			hosts = nil
		}
	}
	if watch != nil {
		if watchErr = usable(watch, t); watchErr != nil {
			watch = nil
		}
	}
	by := requestOptions(watch, &o)
	f := request.Find(t, by)
	a := blame.Attribute(t, f, blame.Options{MaxRequests: x.most, Guards: o.Guards, Watch: watch})
	set := cause.Settings{SLO: int64(o.SLO), Allocated: x.allocated, Host: hosts, Dependencies: x.said, Target: m.Target, Own: own(m, t, origin),
		Baseline: x.base}
	if x.base != nil {
		set.BaselineName = o.BaselineName
	}
	if watch != nil {
		set.Kernel = *watch.After
	}
	v := cause.Judge(a, set)

	d := described(m)
	d.DurationNS, d.Target.GOMAXPROCS = int64(t.Until-t.Start), t.GOMAXPROCS
	d.Verdict, d.Reason, d.Sentence = v.Verdict, v.Reason, v.Sentence
	d.ExcessNS, d.Mix.Share, d.UnresolvedShare = int64(v.Tail.Excess), v.Mix, v.Unresolved
	d.Findings, d.ConsistentWith, d.RuledOut, d.Unnamed = v.Findings, v.Consistent, v.RuledOut, v.Unnamed
	d.Requests = requests(a, v)
	if d.Started.IsZero() && t.Wall != 0 {
		d.Started = time.Unix(0, t.Wall-int64(t.WallAt-origin)).UTC()
	}
	if d.Target.Go == "" {
		d.Target.Go = t.Version
	}
	endpoint, asks := a.Endpoint(v.MixEndpoint)
	d.Mix.Endpoint, d.Mix.Asks = endpoint, a.Sites[asks].Func
	if l := v.Level; l != nil {
		d.Level = &report.Level{MedianNS: l.Median, WaitShare: l.WaitShare, Against: l.Against, ExcessNS: int64(l.Excess), OtherShare: l.Other}
	}
	if x.saidErr != nil {
		d.NotRecorded = append(d.NotRecorded, report.NotRecorded{What: "dependencies", Why: x.saidErr.Error()})
	}
	if hostErr != nil {
		d.NotRecorded = append(d.NotRecorded, report.NotRecorded{What: HostEvidence, Why: hostErr.Error()})
	}
	if watchErr != nil {
		d.NotRecorded = append(d.NotRecorded, report.NotRecorded{What: kernelWord, Why: watchErr.Error()})
	}
	if watch != nil {
		d.Kernel = counted(watch, int64(t.Start), int64(t.Until))
	}
	notes(d, a, v, len(by.Calls) > 0)
	x.noteBaseline(d, v)
	noteCalls(d, watch, watchErr, &o)
	stolen(d, hosts)
	onlyHealthChecks(d, f)
	if o.Check {
		c := a.Check()
		d.Check = &report.Check{Requests: c.Requests, WorstNS: c.WorstNS, MaxDepth: a.Depth}
	}
	if o.Detail != nil {
		d.Detail = detail.New(a, v, hosts, *o.Detail)
	}
	return d
}

// described is what an incident's manifest says of a diagnosis.
func described(m *evidence.Manifest) *report.Diagnosis {
	d := &report.Diagnosis{
		Schema: report.Schema, Tool: version.String(),
		Started: m.Started, DurationNS: m.DurationNS,
		Target: report.Target{
			Kind: m.Target.Kind, URL: m.Target.URL, File: m.Target.File, PID: m.Target.PID,
			Go: m.Target.Go, GOMAXPROCS: m.Target.GOMAXPROCS,
		},
		Notes: append([]string(nil), m.Notes...),
		Cost:  report.Cost{RecordCPU: ofDuration(m, m.Cost.CPUSeconds), ProbeCPU: ofDuration(m, m.Cost.Kernel.ProbeSeconds), Asked: asked(m)},
	}
	for _, n := range m.NotRecorded {
		d.NotRecorded = append(d.NotRecorded, report.NotRecorded{What: n.What, Why: n.Why, Command: n.Command})
	}
	for _, r := range m.Recorded {
		if r.Member == evidence.MemberTrace && !d.Started.IsZero() && r.StartedNS > 0 && r.StartedNS <= m.DurationNS {
			d.Started = d.Started.Add(time.Duration(r.StartedNS)) // whylate began earlier, to connect and to probe
			break
		}
	}
	return d
}

// withoutTrace is the diagnosis of an incident that holds no execution trace:
// nothing is known of its requests.
func withoutTrace(in *evidence.Incident, o AnalyseOptions) *report.Diagnosis {
	d := described(&in.Manifest)
	if !o.NoHost && !o.NoKernel {
		switch rec, err := readKernel(in); {
		case err != nil:
			d.NotRecorded = append(d.NotRecorded, report.NotRecorded{What: kernelWord, Why: err.Error()})
		case rec != nil:
			d.Kernel = counted(rec, rec.Header.StartNS, max(rec.Header.StartNS, rec.After.EndNS))
		}
	}
	d.Lost.Detail = incomplete(in, evidence.MemberHost)
	d.Verdict, d.Reason = report.VerdictInconclusive, "no-trace"
	d.Sentence = "No execution trace was recorded, so nothing is known of the requests: "
	const what = "trace"
	i := slices.IndexFunc(d.NotRecorded, func(n report.NotRecorded) bool { return n.What == what })
	if i >= 0 && d.NotRecorded[i].Command != AddEndpoint {
		d.Sentence += d.NotRecorded[i].Why + "."
	} else {
		d.Sentence += "add net/http/pprof to the program, two lines of Go, and record again."
	}
	if i < 0 {
		d.NotRecorded = append(d.NotRecorded, report.NotRecorded{What: what, Why: "the incident holds none", Command: AddEndpoint})
	}
	return d
}

// nothingIn says why a trace has nothing that can be diagnosed.
func nothingIn(in *evidence.Incident, lost *gotrace.CorruptError) error {
	if why := incomplete(in, evidence.MemberTrace); why != "" {
		return fmt.Errorf("%w: %s", ErrTooEarly, why)
	}
	if lost == nil {
		lost = &gotrace.CorruptError{Offset: traceHeader, Err: fmt.Errorf("nothing stands behind its header: %w", io.ErrUnexpectedEOF)}
	}
	return fmt.Errorf("read the trace: %w", lost)
}

// traceHeader is the length of a trace's header, in bytes.
const traceHeader = 16

// trace is that of an incident, section by section.
type trace struct {
	split   *gotrace.Splitter // nil if the Go team's reader reads it, of which there is one section
	slow    *slow.Reader
	in      io.Closer
	o       timeline.Options
	done    bool  // there is no other section
	most    int64 // about how many bytes a window has
	windows int   // there will be so many, about
}

// openTrace opens the trace of an incident, which is the caller's to close.
func openTrace(in *evidence.Incident, o AnalyseOptions) (*trace, error) {
	r, err := in.Member(evidence.MemberTrace)
	if err != nil {
		return nil, fmt.Errorf("open the trace: %w", err)
	}
	t := &trace{in: r, o: o.Timeline}
	t.most, t.windows = divide(in, o)
	if o.Slow {
		t.slow, err = slow.NewReader(r)
	} else {
		t.split, err = gotrace.Split(r, t.most)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return t, nil
}

// next returns the parts of the next section, [io.EOF] behind the last one.
func (t *trace) next(across bool) (*timeline.Parts, error) {
	if t.split == nil {
		if t.done {
			return nil, io.EOF
		}
		t.done = true
		return timeline.NewParts(t.slow, t.o), nil
	}
	s, err := t.split.Next()
	if err != nil {
		return nil, err
	}
	return timeline.PartsOf(s, t.o, across, t.most), nil
}

// offset is how many bytes were read.
func (t *trace) offset() int64 {
	if t.split == nil {
		return t.slow.Offset()
	}
	return t.split.Offset()
}

// Timelines calls do with the timeline of each part of an incident's trace, in order; an error of
// do ends it. It returns the first damage of the trace, nil if there is none. A trace of which
// nothing can be read is an error.
func Timelines(in *evidence.Incident, o AnalyseOptions, do func(*timeline.Timeline) error) (*gotrace.CorruptError, error) {
	if !in.Has(evidence.MemberTrace) {
		return nil, ErrNoTrace
	}
	tr, err := openTrace(in, o)
	if err != nil {
		return nil, err
	}
	defer tr.in.Close()
	var lost *gotrace.CorruptError
	some := false
	for {
		parts, err := tr.next(false)
		if err == io.EOF && !some {
			err = nothingIn(in, lost)
		} else if err == io.EOF {
			return lost, nil
		}
		if err == nil {
			err = eachPart(parts, func(t *timeline.Timeline) error {
				some = true
				return do(t)
			})
			lost = cmp.Or(lost, parts.Lost())
		}
		if err != nil {
			return lost, err
		}
	}
}

// requests describes how requests were found and how long they took.
func requests(a *blame.Attribution, v *cause.Verdict) report.Requests {
	f := a.Found()
	out := report.Requests{Clock: "server, from runnable to answer written"}
	if v.Role == nil {
		out.Perhaps, _ = f.Perhaps()
	}
	for i, r := range f.Roles {
		c := report.Class{Class: r.Name, Count: r.Count}
		if v.Role != nil && i == v.Role.Role {
			if out.FoundBy = r.Name; f.Consumer != "" {
				out.FoundBy += " " + f.Consumer
			}
			c.P99NS = everyone(a, v).Quantile(0.99)
		}
		out.Classes = append(out.Classes, c)
	}
	for _, c := range f.Outgoing {
		out.Classes = append(out.Classes, report.Class{Class: "outgoing: " + c.Name, Count: c.Count})
	}
	for _, c := range f.Excluded {
		out.Excluded = append(out.Excluded, report.Class{Class: c.Name, Count: c.Count})
	}
	p := v.Role
	if p == nil || p.Len() == 0 {
		return out
	}
	all := everyone(a, v)
	out.InFlight, out.OldestNS = all.InFlight()
	out.Count = int(all.N) - out.InFlight
	out.P50NS, out.P90NS, out.P99NS, out.P999NS, out.MaxNS = all.Quantile(0.5), all.Quantile(0.9), all.Quantile(0.99), all.Quantile(0.999), all.Quantile(1)
	tail, mid := p.Tail(), p.Typical()
	out.Tail = report.Band{Count: int(tail.Count), Episodes: v.Tail.Episodes, MeanNS: int64(tail.Mean)}
	out.Typical = report.Band{Count: int(mid.Count), MeanNS: int64(mid.Mean)}
	out.ArrivalNS = int64(a.Arrival(p.Requests(tail)))
	out.Endpoints = endpoints(f, all.Latencies())
	return out
}

// endpoints describes the latency of several endpoints.
func endpoints(f *request.Found, all []blame.Latency) (out []report.Endpoint) {
	if len(all) < 2 {
		return nil
	}
	for _, l := range all[:min(len(all), report.MaxEndpoints)] {
		out = append(out, report.Endpoint{
			Endpoint: f.Endpoints[l.Endpoint], Count: int(l.N), Slow: int(l.Slow), Presumed: int(l.Unseen),
			P50NS: l.P50, P99NS: l.P99, MaxNS: l.Max,
		})
	}
	return out
}

// everyone is all requests of the role that was judged, whichever endpoints of it were.
func everyone(a *blame.Attribution, v *cause.Verdict) *blame.Population {
	if v.Only < 0 && len(v.Slower) == 0 && v.Clients == 0 {
		return v.Role
	}
	return a.Population(v.Role.Role)
}

// notes adds what a reader must know to trust the numbers.
func notes(d *report.Diagnosis, a *blame.Attribution, v *cause.Verdict, calls bool) {
	t, f := a.Timeline(), a.Found()
	if f.LargestShare > 0 && f.LargestShare < 0.6 {
		d.Notes = append(d.Notes, fmt.Sprintf("The largest class has only %.0f %% of what looks like requests: say with --request func=REGEXP which function is one.", 100*f.LargestShare))
	}
	if v.Role != nil && v.Role.Role < len(f.Roles) && f.Roles[v.Role.Role].Shape == request.Function && !f.Roles[v.Role.Role].Taken() && !calls {
		d.Notes = append(d.Notes, "Of the function's calls only those count in which something was recorded (a wait, a system call, a preemption): fast ones are missing, so percentiles are too high.")
	}
	if f.Consumer != "" {
		d.Notes = append(d.Notes, fmt.Sprintf("Nothing was found that serves requests: those are the calls of %s, for which goroutines take work from others. If something else is one, say so: --request func=REGEXP.", f.Consumer))
	}
	if v.Clients > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("Bands and shares leave out %d requests that waited for their own clients for most of their time.", v.Clients))
	}
	var slower []string
	for _, e := range v.Slower {
		slower = append(slower, cause.EndpointName(a, e))
	}
	switch {
	case v.Only >= 0 && slices.Contains(v.Slower, v.Only):
		d.Notes = append(d.Notes, fmt.Sprintf("Bands and shares are those of %s alone, to which the slowest requests belong.", cause.EndpointName(a, v.Only)))
	case v.Only >= 0:
		d.Notes = append(d.Notes, fmt.Sprintf("Bands and shares are those of %s alone. The slowest requests are %s: if they are not slow on purpose, say what is too slow: --slo 50ms.", cause.EndpointName(a, v.Only), strings.Join(slower, ", ")))
	case len(slower) > 0:
		d.Notes = append(d.Notes, fmt.Sprintf("Bands and shares leave out %s, which the slowest requests are: if they are not slow on purpose, say what is too slow: --slo 50ms.", strings.Join(slower, ", ")))
	}
	switch {
	case v.OtherEndpoint > 0:
		d.Notes = append(d.Notes, fmt.Sprintf("The slow requests are another endpoint (%.0f %% of what they take longer): shares are of their whole time, not of their excess.", 100*v.OtherEndpoint))
	case v.Whole:
		d.Notes = append(d.Notes, "Every request is slow (p99 is less than 2.5 x p50): shares are of the slow requests' whole time, not of their excess.")
	}
	if v.Role != nil {
		if more := cause.Grows(a, v.Role); len(more) > 0 && !slices.ContainsFunc(v.Findings, func(x cause.Finding) bool {
			return x.Where != nil && more[0].Where != nil && *x.Where == *more[0].Where
		}) {
			d.Notes = append(d.Notes, more[0].Told(a))
		}
	}
	if len(t.Samples) == 0 {
		d.Notes = append(d.Notes, "The trace holds no CPU samples: whether running goroutines were on a CPU is unknown.")
	}
	var silent timeline.Time
	for _, s := range t.Silences {
		silent += s.End - s.Start
	}
	if silent > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("The process was silent for %.0f ms in %d stretches although it had work: the operating system stopped it.", float64(silent)/1e6, len(t.Silences)))
	}
	if d.Requests.ArrivalNS > 1e6 {
		d.Notes = append(d.Notes, fmt.Sprintf("Slow requests were probably late by another %.1f ms before the runtime saw them; that is not in these numbers.", float64(d.Requests.ArrivalNS)/1e6))
	}
}

// noteBaseline says if a baseline is of another program, or was of no use.
func (x *analysis) noteBaseline(d *report.Diagnosis, v *cause.Verdict) {
	if x.base == nil {
		return
	}
	if here, there := x.in.Manifest.Target.Program, x.o.Baseline.Manifest.Target.Program; here != "" && there != "" && here != there {
		d.Notes = append(d.Notes, fmt.Sprintf("The baseline is a recording of another program, %s.", there))
	}
	if v.Level == nil && v.Only < 0 && d.Verdict != report.VerdictHealthy {
		d.Notes = append(d.Notes, "The baseline was not needed: it says what is usual where every request is slow, and slow requests are compared with typical ones of this recording.")
	}
}

// StolenNoted is the part of the CPUs' time above which a reader must know that
// the hypervisor took it: the tail is the slowest 1.5 % of the requests. Of 153
// recordings of healthy services on a noisy guest all 79 with less were found
// healthy, but only 33 of 74 with more.
const StolenNoted = 0.015

// stolen says that the machine was not the target's alone.
func stolen(d *report.Diagnosis, rec *host.Recording) {
	if rec == nil {
		return
	}
	u := rec.Over([]host.Span{rec.Span()})
	if d.StolenShare = u.Stolen(); d.StolenShare > StolenNoted {
		whose := "machine's"
		if u.Confined {
			whose = "target's"
		}
		d.Notes = append(d.Notes, fmt.Sprintf("The hypervisor took %.1f %% of the %s CPUs for others during the recording: a verdict may say more of that than of the service. Record again on a calm machine.", 100*d.StolenShare, whose))
	}
}

// noticed is how long a stop must have been to be mentioned, in nanoseconds.
const noticed = 1e6

// pauses says what the target remembers of the time before the recording.
func pauses(d *report.Diagnosis, m *evidence.Manifest) {
	p := m.Pauses
	if p == nil || p.Stops == 0 || p.LongestNS < noticed && p.Forced == 0 {
		return
	}
	text := fmt.Sprintf("Before the recording the collector stopped the world %d times since %s, for %.1f ms at most (at %s)", p.Stops,
		clock(p.FirstWallNS), float64(p.LongestNS)/1e6, clock(p.LongestWallNS))
	if p.Forced > 0 {
		text += fmt.Sprintf("; the program itself asked for %d of its %d collections", p.Forced, p.Cycles)
	}
	d.Notes = append(d.Notes, text+".")
}

func clock(wall int64) string { return time.Unix(0, wall).UTC().Format("15:04:05 UTC") }

// incomplete is why the recording of a member ended early, "" if it did not.
func incomplete(in *evidence.Incident, member string) (why string) {
	for _, r := range in.Manifest.Recorded {
		if r.Member == member && r.Incomplete != "" {
			why = r.Incomplete
		}
	}
	return why
}

// lost says what of the trace could not be read, of which so many bytes were good.
func lost(d *report.Diagnosis, in *evidence.Incident, first *gotrace.CorruptError, read, good int64) {
	d.Lost.Detail = incomplete(in, evidence.MemberTrace)
	if first == nil {
		return
	}
	var size int64
	for _, r := range in.Manifest.Recorded {
		if r.Member == evidence.MemberTrace {
			size = r.Bytes
		}
	}
	d.Lost.Bytes = max(size, read) - good
	if d.Lost.Detail == "" {
		d.Lost.Detail = first.Error()
		d.Lost.Advice = CopyAgain(in.Path)
	}
}

// CopyAgain is how to find out whether a file was damaged on its way.
func CopyAgain(path string) string {
	return "sha256sum " + pprofhttp.Shell(cmp.Or(path, "FILE")) + "    # is it the same where it was recorded? If not, copy it again"
}

// mostlyLost takes back that a service is healthy of which most of the recording is lost: it
// may have ended.
func mostlyLost(d *report.Diagnosis, m *evidence.Manifest) {
	if d.Verdict != report.VerdictHealthy || d.Lost.Detail == "" || 2*d.DurationNS >= m.DurationNS {
		return
	}
	d.Verdict, d.Reason = report.VerdictInconclusive, "lost"
	d.Sentence = fmt.Sprintf("There is nothing to explain in the %d requests of %.1f s, and the rest of %.1f s is lost: %s.", d.Requests.Count, float64(d.DurationNS)/1e9, float64(m.DurationNS)/1e9, d.Lost.Detail)
}

// ofDuration is CPU time as a ratio of the recording.
func ofDuration(m *evidence.Manifest, seconds float64) float64 {
	if m.DurationNS <= 0 {
		return 0
	}
	return seconds / (float64(m.DurationNS) / 1e9)
}
