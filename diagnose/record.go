package diagnose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
)

// RecordOptions say what to record of a live target, and how.
type RecordOptions struct {
	Capture pprofhttp.Options
	// Target holds credentials and TLS settings; its URL is replaced.
	Target pprofhttp.Target
	// NoHost leaves the host's evidence out, that of the kernel included.
	NoHost bool
	// NoKernel leaves the kernel's scheduling events out.
	NoKernel bool
	// Probes are sets of [ProbeSets] to be recorded; nil means the usual ones.
	Probes []string
	// Func matches the functions for the set "func".
	Func *regexp.Regexp
	// Dependencies are asked what they did while the target was recorded.
	Dependencies []dependency.Target
}

// Record records a live target into a new incident at path: the URL of a service
// with net/http/pprof, or the id of a local process. After an error there is no
// file, but after ErrTooEarly there is one if it holds more than the trace. Of a
// process without such an endpoint only the host's evidence is recorded; the
// result is nil then.
func Record(ctx context.Context, target, path string, o RecordOptions) (*pprofhttp.Result, error) {
	w, err := evidence.Create(path)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	result, err := recordInto(ctx, w, target, o)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("interrupted before there was anything to keep: the trace has to run for a second or two (%w)", err)
	}
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if result != nil && result.Took < result.Asked {
		if err := readBack(path, target, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// ErrTooEarly reports a recording that ended before anything of its trace can be read.
var ErrTooEarly = errors.New("nothing that can be diagnosed was recorded")

// readBack returns an error with ErrTooEarly if nothing can be read of a trace that ended
// early. The file goes then, unless it holds more.
func readBack(path, target string, r *pprofhttp.Result) error {
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		return fmt.Errorf("read back the recording: %w", err)
	}
	defer in.Close()
	err = firstInterval(in)
	if err == nil || errors.Is(err, gotrace.ErrNewer) {
		return nil
	}
	why := cmp.Or(r.Lost, fmt.Sprintf("the server ended the trace after %s of %s", r.Took.Round(100*time.Millisecond), r.Asked))
	e := &pprofhttp.Error{
		Cause: fmt.Sprintf("%v: %s, and a trace can be read from about a second on", ErrTooEarly, why),
		Err:   fmt.Errorf("%w: %w", ErrTooEarly, err),
	}
	switch _, isPID := processID(target); {
	case strings.HasPrefix(r.Advice, "--"):
		e.Advice = r.Advice
	case isPID && r.Advice != "": // it is gone, and has another id when it runs again
		e.Target = strings.TrimSuffix(in.Manifest.Target.URL, "/debug/pprof")
	}
	if len(in.Members()) <= 2 { // the manifest and the trace
		return errors.Join(e, in.Close(), os.Remove(path))
	}
	return e
}

// firstInterval reads a trace until time has passed in it.
func firstInterval(in *evidence.Incident) error {
	r, err := in.Member(evidence.MemberTrace)
	if err != nil {
		return err
	}
	defer r.Close()
	tr, err := gotrace.NewReader(r)
	if err != nil {
		return err
	}
	var ev gotrace.Event
	err = tr.Next(&ev)
	for begun := ev.Time; err == nil && ev.Time == begun; {
		err = tr.Next(&ev)
	}
	return err
}

func recordInto(ctx context.Context, w *evidence.Writer, target string, o RecordOptions) (*pprofhttp.Result, error) {
	pid, isPID := processID(target)
	if isPID {
		found, no, err := endpoint(ctx, pid)
		why, advice := no.why(pid)
		switch {
		case err != nil:
			return nil, err
		case found == "" && o.NoHost:
			return nil, &pprofhttp.Error{
				Cause:  why + ", and without the host's evidence nothing is left to record",
				Advice: advice, Err: pprofhttp.ErrNoEndpoint,
			}
		case found == "":
			for _, d := range o.Dependencies {
				notRecorded(w, d.Name(), "not asked: without a trace there are no waits that its figures could explain", advice)
			}
			return nil, hostOnly(ctx, w, pid, &o, why, advice)
		}
		target = found
	}
	o.Target.URL = target
	var sched *kernelRecording
	show := o.Capture.Progress
	o.Capture.Progress = func(p pprofhttp.Progress) {
		if p.Phase == pprofhttp.PhaseTrace { // before there are no requests to explain
			sched.begin()
		}
		if show != nil {
			show(p)
		}
	}
	c, err := pprofhttp.Connect(ctx, o.Target, o.Capture)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	plan, err := c.Probe(ctx)
	if err != nil {
		return nil, err
	}
	if !isPID {
		pid, err = localPID(ctx, c)
	}
	var beside *hostRecording
	switch {
	case o.NoHost:
		err = errNotAsked
	case err == nil:
		beside, err = startHost(ctx, w, pid)
	}
	switch {
	case err != nil && o.Func != nil:
		return nil, noCalls(err)
	case err != nil:
		notRecorded(w, HostEvidence, err.Error(), hostCommand(err, pid))
		notRecorded(w, kernelWord, sameReason, "")
		notProbed(w, &o, sameReason)
	case o.NoKernel:
		notRecorded(w, kernelWord, "not asked for (--no-kernel)", "")
	default:
		if sched, err = startKernel(w, pid, &o); err != nil {
			beside.stop()
			return nil, err
		}
	}
	told := askDependencies(ctx, w, o.Dependencies)
	result, err := c.Record(ctx, w, plan)
	beside.stop() // first: what it says last is the state at the trace's end
	sched.stop()
	told()
	return result, err
}

// HostEvidence is what a manifest calls what the machine knows of the process, if it could not
// be recorded.
const HostEvidence = "host evidence"

// sameReason is why there are no events of the kernel where there is no host evidence.
const sameReason = "for the reason for which there is no host evidence"

// errNotAsked is why there is no host evidence if the user does not want it.
var errNotAsked = errors.New("not asked for (--no-host)")

// hostCommand says how to get the host's evidence; pid is 0 if it is not known.
func hostCommand(err error, pid int) string {
	switch {
	case errors.Is(err, errNotAsked):
		return ""
	case errors.Is(err, errNoCommandLine): // first: it wraps why the socket does not tell
		return `mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)`
	case errors.Is(err, host.ErrUnsupported), errors.Is(err, host.ErrNotLocal), errors.Is(err, errRemote):
		return "run whylate on the machine of the process: whylate diagnose PID"
	case errors.Is(err, host.ErrOtherProcess):
		return "whylate diagnose PID    # where the process itself runs"
	case errors.Is(err, os.ErrPermission) && pid > 0 && os.Geteuid() != 0:
		return fmt.Sprintf("sudo whylate diagnose %d; whylate doctor %d says what may be recorded", pid, pid)
	case errors.Is(err, os.ErrPermission), errors.Is(err, host.ErrNoProcess):
		return "run whylate as the process's user, or as root"
	}
	return ""
}

func notRecorded(w *evidence.Writer, what, why, command string) {
	w.Edit(func(m *evidence.Manifest) {
		m.NotRecorded = append(m.NotRecorded, evidence.NotRecorded{What: what, Why: why, Command: command})
	})
}

// processID reads a target that is the id of a process.
func processID(target string) (int, bool) {
	pid, err := strconv.Atoi(target)
	return pid, err == nil && pid > 0 && target[0] != '+'
}

// What is tried to find the endpoint of a process. A service that has more to do than it can answers late, its
// endpoint too.
const (
	maxTries   = 8
	tryTimeout = 5 * time.Second
	tryNext    = 250 * time.Millisecond // without an answer, until the next one is asked
	maxCmdline = 1 << 20
)

// noEndpoint is what kept a process's net/http/pprof from being found, if it serves it.
type noEndpoint struct {
	elsewhere bool     // it cannot be reached
	silent    []string // addresses that did not answer in time
	refused   []refusal
}

// refusal is an answer that is no command line, and not that there is none.
type refusal struct{ addr, scheme, how string }

// why says why no endpoint was found, and what to do.
func (n *noEndpoint) why(pid int) (why, advice string) {
	if n.elsewhere {
		return fmt.Sprintf("process %d runs in another network namespace, as in a container: its net/http/pprof cannot be reached from here", pid),
			fmt.Sprintf("nsenter --target %d --net whylate diagnose %[1]d    # as root; the process keeps its id", pid)
	}
	why, try := fmt.Sprintf("no listener of process %d serves net/http/pprof", pid), ""
	var but []string
	for _, r := range n.refused {
		but = append(but, r.addr+" "+r.how)
	}
	if len(n.silent) > 0 {
		but = append(but, fmt.Sprintf("within %s %s did not", tryTimeout, strings.Join(n.silent, " and ")))
		try = "http://" + n.silent[0]
	}
	if len(n.refused) > 0 {
		try = n.refused[0].scheme + "://" + n.refused[0].addr
	}
	if try == "" {
		return why, AddEndpoint
	}
	return fmt.Sprintf("%s, as far as they answer: %s", why, strings.Join(but, ", ")),
		fmt.Sprintf("whylate diagnose %s    # with the path, --header or --cert that it asks for, if it serves net/http/pprof; if none does, add: %s", try, AddEndpoint)
}

// refused is what a status says of a listener that may serve net/http/pprof to others.
func refused(addr string, status int, body string) (r refusal, ok bool) {
	switch {
	case status == http.StatusBadRequest && strings.Contains(body, "HTTPS"): // so says Go's server
		return refusal{addr, "https", "speaks TLS"}, true
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status/100 == 3:
		return refusal{addr, "http", fmt.Sprintf("answers %d %s", status, http.StatusText(status))}, true
	}
	return r, false
}

// endpoint returns the URL of a local process's net/http/pprof, "" if it has
// none: its listeners are asked for their command line, once, the likely ones first, each when those before have answered
// or let tryNext pass: what speaks another protocol should not have to hear HTTP. One that does not serve
// it is asked for the rest. If there is none, no says what may have kept it from being found. A process that is no
// Go program and has none is an error.
func endpoint(ctx context.Context, pid int) (url string, no noEndpoint, err error) {
	d, err := host.Describe(pid)
	if err != nil {
		return "", no, err
	}
	addrs, err := host.Listeners(pid)
	no.elsewhere = errors.Is(err, host.ErrElsewhere)
	if errors.Is(err, os.ErrPermission) {
		return "", no, fmt.Errorf("on what process %d listens is not to be seen: run whylate as its user or as root, or give the URL of its net/http/pprof: %w", pid, os.ErrPermission)
	}
	likely(addrs)
	addrs = addrs[:min(maxTries, len(addrs))]
	type answer struct {
		addr    string
		status  int
		cmdline string
		err     error
	}
	asking, stop := context.WithCancel(ctx)
	defer stop() // who has not answered when one is found is not waited for
	answers := make(chan answer, len(addrs))
	var without []string
	next := time.NewTimer(0)
	defer next.Stop()
	for asked, answered := 0, 0; answered < len(addrs); {
		if asked == answered {
			next.Reset(0) // nobody is left to wait for
		}
		select {
		case <-ctx.Done():
			return "", no, ctx.Err()
		case <-next.C:
			if asked == len(addrs) {
				continue
			}
			addr := addrs[asked]
			go func() {
				a := answer{addr: addr}
				a.status, a.cmdline, a.err = askCmdline(asking, addr)
				answers <- a
			}()
			asked++
			next.Reset(tryNext)
		case a := <-answers:
			answered++
			switch {
			case errors.Is(a.err, context.DeadlineExceeded):
				no.silent = append(no.silent, a.addr)
			case a.err != nil:
			case a.status == http.StatusOK && host.Same(pid, a.cmdline, nil) == nil:
				return "http://" + a.addr, no, nil
			case a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed:
				without = append(without, a.addr)
			default:
				if r, ok := refused(a.addr, a.status, a.cmdline); ok {
					no.refused = append(no.refused, r)
				}
			}
		}
	}
	if ctx.Err() != nil {
		return "", no, ctx.Err()
	}
	slices.Sort(no.silent)
	slices.SortFunc(no.refused, func(a, b refusal) int { return strings.Compare(a.addr, b.addr) })
	slices.Sort(without)
	if d.NotGo {
		return "", no, fmt.Errorf("process %d (%s): %w, and does not serve net/http/pprof", pid, d.Target.Program, ErrNotGo)
	}
	for _, addr := range without {
		ok, err := traces(ctx, pid, addr)
		if ok || err != nil {
			return "http://" + addr, no, err
		}
	}
	return "", no, nil
}

// likely brings addresses into the order in which they are asked: first the ports that net/http/pprof is usually
// given, 6060 and those behind it.
func likely(addrs []string) {
	usual := func(addr string) int {
		if _, port, err := net.SplitHostPort(addr); err == nil && len(port) == 4 && strings.HasPrefix(port, "606") {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(addrs, func(a, b string) int { return cmp.Compare(usual(a), usual(b)) })
}

// askCmdline asks a listener for the command line behind it. A redirect is not followed: what it
// leads to need not be the process's.
func askCmdline(ctx context.Context, addr string) (status int, cmdline string, err error) {
	client := &http.Client{
		Timeout:       tryTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/debug/pprof/cmdline", nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxCmdline))
	return resp.StatusCode, string(body), err
}

// traces tells whether an address at which a process listens serves traces that this process
// wrote. It is asked only if no other process holds the socket: a trace is no small thing to ask of
// somebody who was not named. The error is that of ctx, or that another trace is running.
func traces(ctx context.Context, pid int, addr string) (bool, error) {
	if only, err := host.OnlyListenerPID(addr); err != nil || only != pid {
		return false, nil
	}
	c, err := pprofhttp.Connect(ctx, pprofhttp.Target{URL: "http://" + addr}, pprofhttp.Options{Timeout: tryTimeout})
	if err == nil {
		defer c.Close()
		err = wrote(ctx, pid, c)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if errors.Is(err, pprofhttp.ErrTracing) {
		return false, err
	}
	return err == nil, nil
}

// ErrNotGo reports a target that is a process and no Go program.
var ErrNotGo = errors.New("is no Go program, or one without build information")

// errNoCommandLine: a mux of its own need not have all of net/http/pprof, and its traces do not
// say who wrote them.
var errNoCommandLine = errors.New("the endpoint does not serve its command line: whether the local process that listens there is the target is unknown")

var errRemote = errors.New("where the target runs is not known")

// localPID returns the process behind an endpoint on this machine, if it is the
// one that answers: a local port may be kubectl's, ssh's or a proxy's.
func localPID(ctx context.Context, c *pprofhttp.Client) (int, error) {
	u, err := url.Parse(c.URL())
	if err != nil {
		return 0, errRemote
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, u.Hostname())
	if err != nil {
		return 0, errRemote
	}
	why := errRemote
	for _, ip := range ips {
		pid, err := host.ListenerPID(net.JoinHostPort(ip.String(), port))
		if errors.Is(err, host.ErrNotLocal) {
			why = err
			continue
		}
		if err != nil {
			return 0, err
		}
		if len(c.Cmdline) == 0 {
			return localWriter(ctx, c, net.JoinHostPort(ip.String(), port))
		}
		return pid, host.Same(pid, strings.Join(c.Cmdline, "\x00"), nil)
	}
	return 0, why
}

// hostRecording is the host's evidence being recorded beside a trace.
type hostRecording struct {
	w    *evidence.Writer
	pid  int
	mem  *evidence.MemberWriter
	rec  *host.Recorder
	desc host.Description
}

func startHost(ctx context.Context, w *evidence.Writer, pid int) (*hostRecording, error) {
	desc, err := host.Describe(pid)
	if err != nil {
		return nil, err
	}
	mem, err := w.Member(evidence.MemberHost)
	if err != nil {
		return nil, err
	}
	rec, err := host.Start(ctx, pid, host.Options{W: mem})
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	return &hostRecording{w, pid, mem, rec, desc}, nil
}

// stop ends the recording and enters what it knows in the manifest. What fails is
// noted there: a trace without the host's evidence is worth keeping.
func (h *hostRecording) stop() {
	if h == nil {
		return
	}
	after, err := h.rec.Stop()
	h.mem.Incomplete(after.Ended)
	if err = errors.Join(err, h.mem.Close()); err != nil {
		notRecorded(h.w, HostEvidence, err.Error(), "")
	}
	h.w.Edit(func(m *evidence.Manifest) {
		describe(m, h.desc)
		for _, x := range append(h.desc.Static.Missing, after.Missing...) {
			m.NotRecorded = append(m.NotRecorded, evidence.NotRecorded{What: word(x.What), Why: x.Why, Command: x.Command})
		}
		m.Cost.Host = hostCost(after)
		if after.ThreadsRead < after.Threads {
			m.NotRecorded = append(m.NotRecorded, evidence.NotRecorded{
				What: "some threads' waiting for a CPU",
				Why:  fmt.Sprintf("%d of %d threads were read: to read the others too would have taken more than a hundredth of a CPU; a longer recording reads more", after.ThreadsRead, after.Threads),
			})
		}
		if after.Ended != "" {
			m.Notes = append(m.Notes, "Recording the host ended early: "+after.Ended)
		}
	})
}

// hostCost is what the manifest says about the recorder of the host's evidence.
func hostCost(a host.After) evidence.HostCost {
	c := evidence.HostCost{
		CPUSeconds: float64(a.CPUNS) / 1e9, Samples: a.Samples,
		Threads: a.Threads, ThreadsRead: a.ThreadsRead,
	}
	if a.Samples > 1 {
		c.MeanPeriodNS = a.WallNS / int64(a.Samples-1)
	}
	return c
}

// words are what a reader calls the fields of host.jsonl.
var words = map[string]string{
	"io_delay_ns": "delays by block I/O", host.MissingDelays: "threads' waiting for a CPU", "voluntary, involuntary": "context switches",
	"net": "network counters", "groups": "cgroups", "groups.usage_ns": "the cgroup's CPU use", "ancestors": "cgroups above the process's", "children_ns": "CPU time of child processes", "peers": "the peers on this machine",
	"memory.pss, memory.anon_huge_pages": "memory by pages",
	"nspid":                              "pid namespaces", "cpus": "CPUs", "allowed": "CPU affinity", "stdout, stderr": "kinds of stdout and stderr", "env": "Go settings in the environment",
}

func word(field string) string { return cmp.Or(words[field], field) }

// describe fills what the trace's endpoint did not tell.
func describe(m *evidence.Manifest, d host.Description) {
	t, was := d.Target, m.Target
	t.Kind, t.URL, t.TraceFormat, t.Goroutines = was.Kind, was.URL, was.TraceFormat, was.Goroutines
	if t.Go == "" {
		t.Go = was.Go
	}
	if len(t.Modules) == 0 {
		t.Modules, t.ModulesFrom, t.Main = was.Modules, was.ModulesFrom, was.Main
	}
	if t.Program == "" {
		t.Program = was.Program
	}
	if t.GOMAXPROCS == 0 {
		t.GOMAXPROCS = was.GOMAXPROCS
	}
	m.Target, m.Host = t, d.Host
}

// hostOnly records the host's and the kernel's evidence of a process without an endpoint, and says why it has
// none, and what to do.
func hostOnly(ctx context.Context, w *evidence.Writer, pid int, o *RecordOptions, why, advice string) error {
	h, err := startHost(ctx, w, pid)
	if err != nil {
		return err
	}
	var sched *kernelRecording
	if !o.NoKernel {
		if sched, err = startKernel(w, pid, o); err != nil {
			h.stop()
			return err
		}
		sched.begin()
	}
	begun := time.Now()
	select {
	case <-time.After(o.Capture.For):
	case <-ctx.Done():
	}
	h.stop()
	sched.stop()
	w.Edit(func(m *evidence.Manifest) { m.Target.Kind, m.DurationNS = "pid", time.Since(begun).Nanoseconds() })
	notRecorded(w, "trace", why, advice)
	return nil
}

// AddEndpoint is the Go that gives a program the endpoint from which traces are
// recorded.
const AddEndpoint = `import _ "net/http/pprof" and go http.ListenAndServe("localhost:6060", nil)`
