package pprofhttp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"

	"github.com/whylate/whylate/evidence"
)

const (
	// maxGoroutines: a goroutine profile stops the world while it walks all
	// stacks. Above this number it is taken only if asked for.
	maxGoroutines = 20_000
	// lead is how long before the trace the CPU profile is requested, or two round
	// trips if that is longer: CPU samples appear in the trace while both run.
	lead = 100 * time.Millisecond
	// lastWords bounds the profiles that are taken after a cancelled trace.
	lastWords = 5 * time.Second
)

// Result sums up a recording; everything else is in the manifest.
type Result struct {
	// Plan is the duration that Probe decided, Asked what the server accepted, and
	// Took how long the trace ran. Asked is shorter than Plan.For if the server's
	// WriteTimeout refused longer ones, Took is shorter than Asked if the trace
	// ended early.
	Plan  Plan
	Asked time.Duration
	Took  time.Duration
	// Bytes is the size of the trace.
	Bytes int64
	// Lost is a sentence that says why the trace ends early; empty if it does not.
	// Of a trace that was cut, the complete generations (about 1 s each) can be read.
	Lost string
	// Advice is what to do about Lost, or empty.
	Advice string
}

// Record records the trace of the planned duration and the profiles around it
// into w, and fills the manifest of w. Other members of w may be written at the
// same time. An error means that there is no trace, or that w failed; a trace
// that ends early is a Result with Lost. If ctx ends while the trace runs, the
// trace is kept if Options.KeepOnCancel is set, else the error is that of ctx.
func (c *Client) Record(ctx context.Context, w *evidence.Writer, plan Plan) (*Result, error) {
	r := &recording{Client: c, w: w, plan: plan}
	if plan.Reason != "" {
		c.note("%s", plan.Reason)
	}
	c.progress(Progress{Phase: PhaseBefore})
	if err := r.profile(ctx, "allocs", evidence.MemberAllocsBefore); err != nil {
		return nil, err
	}
	r.history(ctx)
	cpu, longest := r.startCPU(ctx, plan.For)
	defer cpu.cancel()
	if err := r.trace(ctx, min(plan.For, longest)); err != nil {
		return nil, err
	}
	if r.got.end == endCancelled {
		if !c.options.KeepOnCancel {
			return nil, context.Cause(ctx)
		}
		cpu.cancel()
		var done context.CancelFunc
		ctx, done = context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer done()
	}
	r.explain(ctx)
	c.progress(Progress{Phase: PhaseAfter})
	if err := r.after(ctx); err != nil {
		return nil, err
	}
	if err := r.finishCPU(cpu); err != nil {
		return nil, err
	}
	r.fill()
	return &r.result, nil
}

// recording is the state of one Client.Record.
type recording struct {
	*Client
	w      *evidence.Writer
	plan   Plan
	got    transfer
	gone   bool // the target does not answer any more
	build  build
	count  int   // goroutines after the trace, if known
	cycles int64 // collections before it, if known
	result Result
}

func (r *recording) notRecorded(what, why, command string) {
	r.w.Edit(func(m *evidence.Manifest) {
		m.NotRecorded = append(m.NotRecorded, evidence.NotRecorded{What: what, Why: why, Command: command})
	})
}

// trace records the trace into its member.
func (r *recording) trace(ctx context.Context, d time.Duration) (err error) {
	var bytes atomic.Int64
	stop := r.watch(PhaseTrace, d, &bytes)
	defer stop()
	r.got, err = r.fitTrace(ctx, d, func(d time.Duration) (transfer, error) {
		m, err := r.w.Member(evidence.MemberTrace)
		if err != nil {
			return transfer{}, err
		}
		got, err := r.streamTrace(ctx, d, m, &bytes)
		m.Incomplete(incomplete(got))
		return got, errors.Join(err, m.Close())
	})
	if err != nil {
		return err // names its cause; a prefix would spoil the line to paste
	}
	r.result = Result{Plan: r.plan, Asked: r.got.asked, Took: r.got.took, Bytes: r.got.bytes}
	if r.got.asked < r.plan.For {
		r.note("the server's WriteTimeout refuses recordings of %s: %s were recorded", r.plan.For, r.got.asked)
	}
	return nil
}

// incomplete says why a trace ends early, "" if it does not.
func incomplete(t transfer) string {
	after := t.took.Round(100 * time.Millisecond)
	switch t.end {
	case endBound:
		return fmt.Sprintf("reading stopped after %s at the bound of %s", after, mib(float64(t.bytes)))
	case endLost:
		return fmt.Sprintf("the connection broke after %s of %s", after, t.asked)
	case endCancelled:
		return fmt.Sprintf("the recording was ended after %s of %s", after, t.asked)
	}
	return ""
}

// explain finds out whether a connection that broke means that the target is
// gone, and says what can be done about a trace that ends early.
func (r *recording) explain(ctx context.Context) {
	r.result.Lost = incomplete(r.got)
	switch r.got.end {
	case endWhole:
		if early := r.got.asked - r.got.took; early > r.got.asked/10 {
			r.note("the server ended the trace after %s instead of %s: a time limit in its middleware?", r.got.took.Round(100*time.Millisecond), r.got.asked)
		}
		return
	case endBound:
		r.result.Advice = "--max-bytes " + strconv.FormatInt(max(2*r.options.MaxBytes>>20, 1), 10) + "MiB"
	case endLost:
		switch alive := r.alive(ctx); {
		case alive && r.restarted(ctx):
			r.gone = true
			r.result.Lost += "; the target has been restarted: who answers now is another process"
			r.result.Advice = adviceEnded
		case alive:
			r.result.Lost += "; the target is alive: its WriteTimeout or a proxy cuts long answers"
			r.result.Advice = "--for " + max(r.got.took.Truncate(time.Second)-time.Second, time.Second).String()
		default:
			r.gone = true
			r.result.Lost += "; the target does not answer any more"
			r.result.Advice = adviceListen
		}
	}
	r.w.Edit(func(m *evidence.Manifest) { // the member has ended by now, and did not know the rest
		for i := range m.Recorded {
			if m.Recorded[i].Member == evidence.MemberTrace {
				m.Recorded[i].Incomplete = r.result.Lost
			}
		}
	})
}

// alive asks for the cheapest answers until one comes; an error status is one, but for those with which a proxy says that
// it has none.
func (r *recording) alive(ctx context.Context) bool {
	_, err := r.fetch(ctx, "cmdline", nil, maxPage, r.options.Timeout)
	return !errors.Is(err, ErrUnreachable) && !errors.Is(err, errNobody) && !errors.Is(err, context.DeadlineExceeded)
}

// cpuProfile is a CPU profile that is being taken.
type cpuProfile struct {
	began  time.Duration // offset in the incident
	cancel context.CancelFunc
	done   chan struct{} // closed when data and err are set
	data   []byte
	err    error
}

// startCPU starts the CPU profile so that it covers a trace of d which begins
// when startCPU returns. A server that refuses the duration because of its
// WriteTimeout refuses the trace's too: longest is what it accepts.
func (r *recording) startCPU(ctx context.Context, d time.Duration) (cpu *cpuProfile, longest time.Duration) {
	if r.options.NoCPUProfile {
		off := &cpuProfile{cancel: func() {}, err: errors.New("turned off"), done: make(chan struct{})}
		close(off.done)
		return off, d
	}
	ahead := max(lead, 2*r.rtt)
	seconds := int(math.Ceil((d + ahead).Seconds())) // the endpoint takes whole seconds
	for {
		cpu = r.requestCPU(ctx, seconds)
		if pause := time.NewTimer(ahead); !cpu.ended(pause) {
			return cpu, d
		}
		if !errors.Is(cpu.err, errWriteTimeout) || seconds == 1 {
			return cpu, d
		}
		cpu.cancel()
		seconds = max(seconds*4/5, 1) // shorten, in whole seconds
		d = min(d, time.Duration(seconds)*time.Second)
	}
}

// ended waits for the timer, and reports whether the profile ended before.
func (p *cpuProfile) ended(timer *time.Timer) bool {
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

func (r *recording) requestCPU(ctx context.Context, seconds int) *cpuProfile {
	ctx, cancel := context.WithCancel(ctx)
	p := &cpuProfile{began: r.w.Since(), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		wait := time.Duration(seconds)*time.Second + r.stall()
		p.data, p.err = r.fetch(ctx, "profile", url.Values{"seconds": {strconv.Itoa(seconds)}}, maxProfile, wait)
	}()
	return p
}

// finishCPU waits for the CPU profile and puts it into the incident.
func (r *recording) finishCPU(cpu *cpuProfile) error {
	<-cpu.done
	if cpu.err == nil {
		var p *profile.Profile
		if p, cpu.err = parseProfile(cpu.data); cpu.err == nil {
			r.build.learn(p)
			return r.put(evidence.MemberCPU, cpu.began, cpu.data)
		}
	}
	why, command := missing(cpu.err)
	switch {
	case r.options.NoCPUProfile:
	case errors.Is(cpu.err, errProfiling):
		why = "somebody else takes a CPU profile of this process; its samples are in the trace"
		command = "run the command again when that profile has ended (a continuous profiler?)"
	case errors.Is(cpu.err, errWriteTimeout):
		why = "the server's WriteTimeout refuses a CPU profile of 1 s or more"
		command = "srv.WriteTimeout = 30 * time.Second"
	case errors.Is(cpu.err, context.Canceled):
		why, command = "the recording was ended before the CPU profile", ""
	case errors.Is(cpu.err, errNotFound):
		command = register("profile")
	}
	r.notRecorded("CPU profile", why, command)
	return nil
}

// after takes the profiles that must not be taken while the trace runs. The
// goroutine profile is the last: it stops the world.
func (r *recording) after(ctx context.Context) error {
	if err := r.profile(ctx, "allocs", evidence.MemberAllocsAfter); err != nil {
		return err
	}
	if err := r.profile(ctx, "mutex", evidence.MemberMutex); err != nil {
		return err
	}
	if err := r.profile(ctx, "block", evidence.MemberBlock); err != nil {
		return err
	}
	if why, command := r.tooManyGoroutines(ctx); why != "" {
		r.notRecorded("goroutine profile", why, command)
		return nil
	}
	return r.profile(ctx, "goroutine", evidence.MemberGoroutine)
}

// tooManyGoroutines says why the goroutine profile must not be taken, "" if it
// may. The index page shows their number without stopping anything.
func (r *recording) tooManyGoroutines(ctx context.Context) (why, command string) {
	if r.gone {
		return "", ""
	}
	r.count = -1
	page, err := r.fetch(ctx, "", nil, maxPage, r.options.Timeout)
	if err == nil {
		r.count = goroutineCount(page)
	}
	const opt = "--all-goroutines"
	switch {
	case r.options.AllGoroutines:
		return "", ""
	case r.count < 0:
		return "the number of goroutines is not known: the endpoint has no index page", register("")
	case r.count > maxGoroutines:
		return fmt.Sprintf("the target has %d goroutines, and the profile stops it while all stacks are read", r.count), opt
	}
	return "", ""
}

// profile takes one profile into its member. That it cannot be had is no error:
// it goes into the manifest.
func (r *recording) profile(ctx context.Context, name, member string) error {
	what := name + " profile"
	switch member {
	case evidence.MemberAllocsBefore:
		what += " before the trace"
	case evidence.MemberAllocsAfter:
		what += " after the trace"
	}
	if r.gone {
		r.notRecorded(what, "the target does not answer any more", "")
		return nil
	}
	began := r.w.Since()
	data, err := r.fetch(ctx, name, nil, maxProfile, r.stall())
	if cause := context.Cause(ctx); err != nil && cause != nil && member == evidence.MemberAllocsBefore {
		return cause // nothing has been recorded yet that could be kept
	}
	if errors.Is(err, errNotFound) {
		r.notRecorded(what, "it is not served at "+r.URL()+"/"+name, register(name))
		return nil
	}
	var p *profile.Profile
	if err == nil {
		p, err = parseProfile(data)
	}
	if err != nil {
		why, command := missing(err)
		r.notRecorded(what, why, command)
		return nil
	}
	if len(p.Sample) == 0 && (name == "mutex" || name == "block") {
		r.notRecorded(what, "the profile is empty: the target does not sample it", enable[name])
		return nil
	}
	r.build.learn(p)
	return r.put(member, began, data)
}

// enable is the line of Go that turns a profile on, with rates whose cost is
// not noticed: every 100th contention, and one sample per ms blocked.
var enable = map[string]string{
	"mutex": "runtime.SetMutexProfileFraction(100)",
	"block": "runtime.SetBlockProfileRate(1_000_000)",
}

// register is the line of Go that serves a profile on a mux of one's own.
func register(name string) string {
	switch name {
	case "":
		return `mux.HandleFunc("/debug/pprof/", pprof.Index)`
	case "profile":
		return `mux.HandleFunc("/debug/pprof/profile", pprof.Profile)`
	}
	return fmt.Sprintf(`mux.Handle("/debug/pprof/%s", pprof.Handler(%q))`, name, name)
}

// missing splits an error into the manifest's why and command.
func missing(err error) (why, command string) {
	var e *Error
	if errors.As(err, &e) {
		return e.Cause, e.Advice
	}
	return firstLine([]byte(err.Error())), ""
}

// put writes a member that was requested at the offset began.
func (r *recording) put(member string, began time.Duration, data []byte) error {
	m, err := r.w.Member(member)
	if err != nil {
		return err
	}
	m.Started(began)
	_, err = m.Write(data)
	return errors.Join(err, m.Close())
}

// fill enters the target, the notes and the cost in the manifest.
func (r *recording) fill() {
	r.w.Edit(func(m *evidence.Manifest) {
		m.DurationNS = r.got.took.Nanoseconds()
		if r.got.end == endWhole {
			m.DurationNS = min(r.got.took, r.got.asked).Nanoseconds()
		}
		m.Target.Kind, m.Target.URL, m.Target.TraceFormat = "pprof", r.URL(), r.got.format
		if len(r.Cmdline) > 0 {
			m.Target.Program = r.Cmdline[0]
		}
		r.build.fill(&m.Target)
		m.Target.Goroutines = max(r.count, 0)
		m.Notes = append(m.Notes, r.notes...)
		m.Cost.Requests += int(r.requests.Swap(0))
		m.Cost.CPUSeconds += (cpuTime() - r.cpuStart).Seconds()
	})
	r.notes, r.cpuStart = nil, cpuTime() // a second recording has its own
}
