package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
)

// recordFlags are the flags that say how to record.
type recordFlags struct {
	duration      time.Duration
	maxBytes      byteSize
	headers       []string
	caFile        string
	cert, key     string
	insecure      bool
	noCPUProfile  bool
	allGoroutines bool
	noHost        bool
	noKernel      bool
	probes        []string
	redis         []string
	postgres      []string
}

func (f *recordFlags) register(fs *pflag.FlagSet) {
	f.maxBytes = 256 << 20
	fs.DurationVar(&f.duration, "for", 10*time.Second, "how long to record")
	fs.Var(&f.maxBytes, "max-bytes", "upper bound of the trace; the recording is shortened to respect it")
	fs.StringArrayVar(&f.headers, "header", nil, "`'Name: value'` to send with every request; may be repeated")
	fs.StringVar(&f.caFile, "ca-file", "", "PEM `file` of certificates to trust")
	fs.StringVar(&f.cert, "cert", "", "PEM `file` of the client certificate")
	fs.StringVar(&f.key, "key", "", "PEM `file` of the client certificate's key")
	fs.BoolVar(&f.insecure, "insecure", false, "do not verify the server's certificate")
	fs.BoolVar(&f.noCPUProfile, "no-cpu-profile", false, "do not run the CPU profile during the trace")
	fs.StringArrayVar(&f.redis, "redis", nil, "ask this redis (`host:port`) what it did meanwhile: slow log, latency, counters; may be repeated")
	fs.StringArrayVar(&f.postgres, "postgres", nil, "ask this postgres (`DSN`) what it did meanwhile: pg_stat_statements, waits of sessions; may be repeated")
	fs.StringArrayVar(&f.probes, "probes", nil, "`sets` of probes in the kernel to record beside the scheduling events, instead of clock,tcp: of sched (none beside them), clock, tcp, cgo, cgo-return, alloc, gc, gosched and, last, func=REGEXP (calls of a function, which are the requests if there is no --request)")
	fs.BoolVar(&f.allGoroutines, "all-goroutines", false, "take the goroutine profile above 20,000 goroutines too; it stops the target meanwhile")
}

// registerHost registers the flags that apply to files too.
func (f *recordFlags) registerHost(fs *pflag.FlagSet) {
	fs.BoolVar(&f.noKernel, "no-kernel", false, "leave out the kernel's scheduling events of a local process (eBPF; to record them needs root, or CAP_BPF and CAP_PERFMON)")
	fs.BoolVar(&f.noHost, "no-host", false, "leave out what the machine knows of a local process (threads, cgroup, pressure, scheduling events)")
}

// leastBytes is less than the trace of a second of any service takes.
const leastBytes = 16 << 10

// checkTarget refuses numbers that are no process.
func checkTarget(target string) error {
	if n, err := strconv.Atoi(target); err == nil && n <= 0 {
		return usageError{fmt.Errorf("%s is no process id", target)}
	}
	return nil
}

func (f *recordFlags) options(p *progress) (o diagnose.RecordOptions, err error) {
	t := pprofhttp.Target{CAFile: f.caFile, CertFile: f.cert, KeyFile: f.key, Insecure: f.insecure, Header: http.Header{}}
	for _, h := range f.headers {
		if err := t.AddHeader(h); err != nil {
			return o, usageError{err}
		}
	}
	if err := checkDuration(f.duration); err != nil {
		return o, err
	}
	if f.maxBytes < leastBytes {
		return o, usageError{fmt.Errorf("--max-bytes must be at least %dKiB", leastBytes>>10)}
	}
	if (f.cert == "") != (f.key == "") {
		return o, usageError{errors.New("--cert and --key go together: one of them is missing")}
	}
	sets, re, err := f.sets()
	if err != nil {
		return o, usageError{err}
	}
	deps, err := f.dependencies()
	if err != nil {
		return o, usageError{err}
	}
	return diagnose.RecordOptions{Target: t, NoHost: f.noHost, NoKernel: f.noKernel, Probes: sets, Func: re, Dependencies: deps, Capture: pprofhttp.Options{
		For: f.duration, MaxBytes: int64(f.maxBytes), NoCPUProfile: f.noCPUProfile,
		AllGoroutines: f.allGoroutines, KeepOnCancel: true, Progress: p.show,
	}}, nil
}

// sets reads --probes: the sets of probes, and the functions of func=REGEXP.
func (f *recordFlags) sets() (list []string, re *regexp.Regexp, err error) {
	if len(f.probes) > 0 {
		list = []string{}
	}
	if slices.Contains(f.probes, "") {
		return nil, nil, errors.New("--probes names no set")
	}
	if len(f.probes) > 0 && (f.noKernel || f.noHost) {
		return nil, nil, errors.New("--probes asks for probes in the kernel, --no-kernel and --no-host for none")
	}
	known := diagnose.ProbeSets()
	for _, p := range splitSets(f.probes) {
		name, expr, isFunc := strings.Cut(p, "=")
		switch {
		case p == events.Sched: // always there: it asks for no other one
			continue
		case !slices.Contains(known, name) || isFunc != (name == events.Func):
			return nil, nil, fmt.Errorf("--probes: there is no set %q; there are sched, %s", p, strings.Replace(strings.Join(known, ", "), events.Func, "func=REGEXP", 1))
		case isFunc && re != nil:
			return nil, nil, errors.New("--probes: func= may be given once: func='A|B' matches either")
		case isFunc && swallowed(expr, known) != "":
			sets := swallowed(expr, known)
			return nil, nil, fmt.Errorf("--probes: func= takes all that follows it, so %s goes before it: --probes %s,%s", sets, sets, strings.TrimSuffix(p, ","+sets))
		case isFunc && expr == "":
			return nil, nil, errors.New("--probes: func= needs a regular expression")
		case isFunc:
			if re, err = expression(expr); err != nil {
				return nil, nil, fmt.Errorf("--probes: %w", err)
			}
		}
		list = append(list, name)
	}
	return list, re, nil
}

// swallowed are the sets of probes that somebody who wrote a regular expression meant by its
// end, "" if none.
func swallowed(expr string, known []string) (sets string) {
	for {
		i := strings.LastIndexByte(expr, ',')
		if i < 0 || !slices.Contains(known, expr[i+1:]) && expr[i+1:] != events.Sched {
			return sets
		}
		sets = strings.TrimSuffix(expr[i+1:]+","+sets, ",")
		expr = expr[:i]
	}
}

// splitSets splits what was given to --probes at commas, but not a regular expression: func=
// comes last.
func splitSets(given []string) (list []string) {
	for _, s := range given {
		for s != "" {
			set, rest, _ := strings.Cut(s, ",")
			if strings.HasPrefix(s, events.Func+"=") {
				set, rest = s, ""
			}
			list, s = append(list, set), rest
		}
	}
	return list
}

// dependencies reads who is to be asked; errors hold no part of what was given, it may
// be a password.
func (f *recordFlags) dependencies() (out []dependency.Target, err error) {
	if n := len(f.redis) + len(f.postgres); n > dependency.MaxServers {
		return nil, fmt.Errorf("--redis and --postgres may be given %d times together, not %d", dependency.MaxServers, n)
	}
	for _, kind := range []struct {
		flag  string
		given []string
		read  func(string) (dependency.Target, error)
	}{{"redis", f.redis, dependency.NewRedis}, {"postgres", f.postgres, dependency.NewPostgres}} {
		for _, addr := range kind.given {
			t, err := kind.read(addr)
			if err != nil {
				return nil, fmt.Errorf("--%s: %w", kind.flag, err)
			}
			out = append(out, t)
		}
	}
	return out, nil
}

// checkDuration and checkOutput check --for and -o.
func checkDuration(d time.Duration) error {
	if d < time.Second || d > 5*time.Minute {
		return usageError{fmt.Errorf("--for must lie between 1s and 5m, not %s", d)}
	}
	return nil
}

func checkOutput(o string, formats ...string) error {
	if !slices.Contains(formats, o) {
		last := len(formats) - 1
		return usageError{fmt.Errorf("-o must be %s or %s, not %q", strings.Join(formats[:last], ", "), formats[last], o)}
	}
	return nil
}

// byteSize is a flag like 64MiB.
type byteSize int64

func (b *byteSize) String() string { return fmt.Sprintf("%dMiB", int64(*b)>>20) }
func (b *byteSize) Type() string   { return "size" }

func (b *byteSize) Set(s string) error {
	units := []struct {
		suffix string
		factor int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"", 1}}
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n <= 0 || n > (1<<44)/u.factor {
			return fmt.Errorf("%q is no size such as 64MiB", s)
		}
		*b = byteSize(n * u.factor)
		return nil
	}
	return nil
}

func newDiagnose() *cobra.Command {
	var flags analyseFlags
	var baseline, output, save string
	var check bool
	live := pflag.NewFlagSet("live", pflag.ContinueOnError) // the flags that only a live target has a use for
	flags.rec.register(live)
	live.StringVar(&save, "save", "", "keep the recording in this `file`")
	cmd := &cobra.Command{
		Use:   "diagnose TARGET | RECORDING...",
		Short: "Say why requests are late",
		Long: `Record TARGET, if it is alive, and say why its slow requests are late.

TARGET is the URL of a service with net/http/pprof (http://host:port[/prefix]),
the id of a local process that has one, or a file: an incident (*.whylate) or a
Go execution trace. If the process runs on this machine, what the machine knows
of it is recorded too: whether its threads got a CPU (as root also when, and what had it), its cgroup's quota, pressure.
To find the endpoint of a process, the addresses at which it listens get one or two HTTP requests, one after the other, ports from 6060
to 6069 first, until one has it; a URL asks no other, which is better where something that is not HTTP listens as well.

Several files, or a folder of them (*.whylate, *.trace, *.out), are diagnosed one after the
other, in the memory of one. For each service it is then the worst recording that is explained,
with the verdicts of the others beside it. The exit code is 3 if one has a cause, else 1 if one
cannot be read, else 4 if one is inconclusive.

--redis and --postgres ask a dependency for its own figures before and after: whether
it was slow itself, or the time is between. No data is written there, nothing reset.
docs/dependencies.md says what rights that needs.
Passwords: REDISCLI_AUTH, PGPASSWORD or ~/.pgpass, rather than on the command line.

Without --for, a recording that holds too few requests is made again, longer.`,
		Args: args(1, "TARGET"),
		RunE: func(cmd *cobra.Command, a []string) error {
			many, err := several(a)
			if err != nil {
				return err
			}
			if many || diagnose.IsFile(a[0]) {
				if err := noneSet(live, a[0]); err != nil {
					return err
				}
				heedSignals()
			}
			if err := checkTarget(a[0]); err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr())
			record, err := flags.rec.options(p)
			if err != nil {
				return err
			}
			if err := checkOutput(output, "text", "json", "html"); err != nil {
				return err
			}
			analyse, err := flags.options()
			if err != nil {
				return err
			}
			analyse.Check = check
			if output == "html" && isTerminal(cmd.OutOrStdout()) {
				return usageError{errors.New("a page is nothing for a terminal: -o html > FILE.html, or whylate show FILE.whylate")}
			}
			o := diagnose.Options{
				RecordOptions: record, Save: save, Fixed: cmd.Flags().Changed("for"),
				Analysing: func() { p.say("analysing") },
				Analyse:   analyse,
			}
			if output == "html" {
				o.Analyse.Detail = &report.PageDetail
			}
			if baseline != "" {
				if err := wantFile(cmd, baseline); err != nil {
					return err
				}
				in, err := evidence.Open(baseline, evidence.Options{MaxTrace: diagnose.MaxTrace})
				if err != nil {
					return err
				}
				defer in.Close()
				o.Analyse.Baseline, o.Analyse.BaselineName = in, baseline
			}
			if many {
				return diagnoseFiles(cmd, a, o.Analyse, output, p)
			}
			d, err := diagnose.Run(cmd.Context(), a[0], o)
			p.clear()
			if err != nil {
				return withRest(err, save)
			}
			if d.Lost.Bytes > 0 || d.Lost.Detail != "" {
				complain(cmd.ErrOrStderr(), lost(cmd, d))
			}
			if err := print(cmd.OutOrStdout(), d, output, next(cmd, d)); err != nil {
				return err
			}
			if output == "text" && save == "" && !diagnose.IsFile(a[0]) {
				p.say("the recording was not kept: --save FILE keeps it, for whylate show, and as a --baseline")
			}
			return verdictExit(d)
		},
	}
	fs := cmd.Flags()
	fs.AddFlagSet(live)
	flags.register(fs, "")
	fs.StringVar(&baseline, "baseline", "", "recording (`file`) of the same service when it was fine")
	fs.StringVarP(&output, "output", "o", "text", "text, json or html")
	fs.BoolVar(&check, "check", false, "verify that the leaves of every request add up to its duration")
	return cmd
}

// several reports whether the arguments are recordings, or folders of them, that are diagnosed
// together.
func several(a []string) (bool, error) {
	if len(a) == 1 {
		info, err := os.Stat(a[0])
		return err == nil && info.IsDir(), nil
	}
	for _, path := range a {
		if !diagnose.IsFile(path) {
			return false, usageError{fmt.Errorf("of several targets each must be a file; %s is none\n%s", clean(path), list(path))}
		}
	}
	return true, nil
}

// diagnoseFiles diagnoses recordings and prints what they say of each service.
func diagnoseFiles(cmd *cobra.Command, paths []string, o diagnose.AnalyseOptions, output string, p *progress) error {
	files, err := diagnose.Recordings(paths)
	if err != nil {
		return err
	}
	var failed error
	services := diagnose.Files(files, o, func(file string, d *report.Diagnosis, err error) {
		p.clear()
		if err != nil {
			if failed = err; len(files) > 1 {
				complain(cmd.ErrOrStderr(), happened(err))
			}
			return
		}
		if d.Lost.Bytes > 0 || d.Lost.Detail != "" {
			complain(cmd.ErrOrStderr(), file+": "+lost(cmd, d))
		}
	})
	switch {
	case len(services) == 0 && len(files) == 1:
		return failed
	case len(services) == 0: // each has been said
		return exitError(exitFailure)
	}
	if output == "html" && len(services) > 1 {
		return usageError{fmt.Errorf("a page is of one service, these recordings are of %d", len(services))}
	}
	exit := error(nil)
	if failed != nil { // what is not known is not healthy
		exit = exitError(exitFailure)
	}
	for i, s := range services {
		if i > 0 && output == "text" {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		if err := print(cmd.OutOrStdout(), s.Diagnosis, output, ""); err != nil {
			return err
		}
		// A cause of one service is more than that nothing is known of another, or of a recording.
		if e := verdictExit(s.Diagnosis); exit == nil || e == exitError(exitCause) {
			exit = e
		}
	}
	return exit
}

// noneSet returns a usage error if one of the flags of live was given for a file.
func noneSet(live *pflag.FlagSet, file string) error {
	var err error
	live.VisitAll(func(f *pflag.Flag) {
		if f.Changed && err == nil {
			err = usageError{fmt.Errorf("--%s only applies to a live target; %s is a file", f.Name, file)}
		}
	})
	return err
}

// requestFunc parses func=REGEXP.
func requestFunc(s string) (*regexp.Regexp, error) {
	expr, ok := strings.CutPrefix(s, "func=")
	if !ok {
		return nil, fmt.Errorf("--request must be func=REGEXP, not %q", s)
	}
	if expr == "" {
		return nil, errors.New("--request: func= needs a regular expression")
	}
	re, err := expression(expr)
	if err != nil {
		return nil, fmt.Errorf("--request: %w", err)
	}
	return re, nil
}

// expression compiles a regular expression; the error says what is wrong with it.
func expression(expr string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(expr)
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("%q is no regular expression: %s", expr, bad.Code)
	}
	return re, err
}

// print writes a diagnosis; next is the command to run next, or "".
func print(w io.Writer, d *report.Diagnosis, output, next string) error {
	switch output {
	case "json":
		return report.JSON(w, d)
	case "html":
		return report.HTML(w, d)
	}
	o := terminalOptions(w)
	o.Next = next
	return report.Terminal(w, d, o)
}

// missed is what a recording that was just made lacks of what this machine could have told of
// the process, and what would help: who records should hear of it before the process is gone.
func missed(file string) (list []evidence.NotRecorded) {
	in, err := evidence.Open(file, evidence.Options{})
	if err != nil {
		return nil // whoever reads it will say so
	}
	defer in.Close()
	for _, x := range in.Manifest.NotRecorded {
		if x.What == diagnose.HostEvidence && x.Command != "" {
			list = append(list, x)
		}
	}
	return list
}

// fileSize is a number of bytes for a person.
func fileSize(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

func newRecord() *cobra.Command {
	var rec recordFlags
	var save string
	cmd := &cobra.Command{
		Use:   "record TARGET",
		Short: "Only record; diagnose the file later, or elsewhere",
		Long: `Record TARGET, the URL of a service with net/http/pprof or the id of a local
process that has one, into an incident file.
The file needs nothing else: record in the pod, diagnose on the laptop.

--redis and --postgres ask a dependency for its own figures before and after: whether
it was slow itself, or the time is between. No data is written there, nothing reset.
docs/dependencies.md says what rights that needs.
Passwords: REDISCLI_AUTH, PGPASSWORD or ~/.pgpass, rather than on the command line.`,
		Args: args(1, "TARGET"),
		RunE: func(cmd *cobra.Command, a []string) error {
			if err := checkTarget(a[0]); err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr())
			record, err := rec.options(p)
			if err != nil {
				return err
			}
			if diagnose.IsFile(a[0]) {
				return usageError{fmt.Errorf("%s is a file; record wants the URL or the process id of a live service", a[0])}
			}
			if save == "" {
				save = time.Now().Format("whylate-20060102-150405") + ".whylate"
			}
			r, err := diagnose.Record(cmd.Context(), a[0], save, record)
			p.clear()
			if err != nil {
				return withRest(err, save)
			}
			if r == nil {
				complain(cmd.ErrOrStderr(), "found no net/http/pprof of the process: only what the machine knows of it was recorded\n"+diagnose.AddEndpoint)
				r = &pprofhttp.Result{Took: record.Capture.For}
			}
			if r.Lost != "" {
				complain(cmd.ErrOrStderr(), strings.TrimSuffix(r.Lost+"\n"+addition(cmd, r.Advice), "\n"))
			}
			for _, x := range missed(save) {
				complain(cmd.ErrOrStderr(), strings.TrimSuffix("not recorded: "+x.What+": "+x.Why+"\n"+x.Command, "\n"))
			}
			size := int64(0)
			if st, err := os.Stat(save); err == nil {
				size = st.Size()
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %.1f s, %s\nwhylate diagnose %s\n", save, r.Took.Seconds(), fileSize(size), pprofhttp.Shell(save))
			return nil
		},
	}
	rec.register(cmd.Flags())
	rec.registerHost(cmd.Flags())
	cmd.Flags().StringVar(&save, "save", "", "the incident `file`; default whylate-TIME.whylate")
	return cmd
}
