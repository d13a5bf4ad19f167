// Command overhead measures what recording a service costs the service: its CPU time per
// request, in short windows without a recorder and with each of several, in turn. Recorders
// are Go's own, which whylate asks for (the execution trace, and the CPU profile beside it), and
// those in the kernel. Beside whylate's scheduling events it runs bpftrace doing the same job
// (the run-queue delay of threads, as a histogram) and perf sched, where they are installed.
//
//	go run ./cmd/overhead -rate 2500 -rounds 50
//	go run ./cmd/overhead -window 1s -rounds 27 -only '^trace'
//
// A trace is cut once a second: windows of one have that, too.
//
// Each set of probes is measured, with what takes their share removed as for anybody.
//
//	go run ./cmd/overhead -attach 1000 -kill 100
//
// begins and ends that many recordings of the service under load with all sets of probes
// instead, and kills that many recorders, to see whether a request is lost or a program is left in the kernel.
//
// All but the trace and the profile need root. The service answers JSON over HTTP, in a process
// of its own; the ratio of a window is that to the ones without a recorder right before and
// after it: windows of a second or more differ by several percent on a shared machine, whatever
// records, and many short ones do not.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	_ "net/http/pprof" // as services have it: without, allocations are not sampled
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/whylate/whylate/capture/kernel"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/load"
)

// runqlat is what bpftrace's own runqlat.bt does. It knows no process of a thread that is
// woken, and so looks at all.
const runqlat = `tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @q[args->pid] = nsecs; }
tracepoint:sched:sched_switch {
	if (args->prev_state == 0) { @q[args->prev_pid] = nsecs; }
	$n = @q[args->next_pid];
	if ($n) { @us = hist((nsecs - $n) / 1000); delete(@q[args->next_pid]); }
}`

// service is what is recorded.
type service struct {
	pid int
	url string // ends with a slash
}

// recorder begins to record a service for a window; stop ends it.
type recorder struct {
	name   string
	settle time.Duration // from start to when it records
	start  func(s service, window time.Duration) (stop func() error, err error)
}

// Another program has to start, and bpftrace to compile.
const at, later = 50 * time.Millisecond, 1500 * time.Millisecond

// none is compared with itself, too: its interval is what cannot be told apart.
const none = "none"

var recorders = []recorder{
	{none, at, func(service, time.Duration) (func() error, error) { return func() error { return nil }, nil }},
	{"trace", at, asked("trace")},
	{"trace and CPU profile", at, asked("profile", "trace")},
	{"sched", at, probes()},
	{"bpftrace runqlat", later, func(service, time.Duration) (func() error, error) { return command("bpftrace", "-e", runqlat) }},
	{"perf sched", later, func(service, time.Duration) (func() error, error) {
		return command("perf", "sched", "record", "-o", os.DevNull)
	}},
	{"clock", at, probes(events.Clock)},
	{"perf trace", later, func(s service, _ time.Duration) (func() error, error) {
		return command("perf", "trace", "-s", "-e", "clock_gettime", "-p", strconv.Itoa(s.pid))
	}},
	{"alloc", at, probes(events.Alloc)},
	{"gc", at, probes(events.GC)},
	{"tcp", at, probes(events.TCP)},
	{"cgo", at, probes(events.Cgo)},
	{"gosched", at, probes(events.Gosched)},
	{"func", at, probes(events.Func)},
	{"bpftrace casgstatus", later, func(s service, _ time.Duration) (func() error, error) {
		return command("bpftrace", "-p", strconv.Itoa(s.pid), "-e", fmt.Sprintf(casgstatus, s.pid, s.pid))
	}},
}

// asked takes what net/http/pprof has under some names, as whylate does. The endpoints take whole
// seconds, and so the recorder ends some time after the window.
func asked(names ...string) func(service, time.Duration) (func() error, error) {
	return func(s service, window time.Duration) (func() error, error) {
		seconds := math.Ceil((window + 2*at).Seconds())
		ended := make(chan error, len(names))
		for _, name := range names {
			go func() { ended <- drain(fmt.Sprintf("%sdebug/pprof/%s?seconds=%.0f", s.url, name, seconds)) }()
		}
		return func() (err error) {
			for range names {
				err = errors.Join(err, <-ended)
			}
			return err
		}, nil
	}
}

// drain reads an answer to its end.
func drain(url string) error {
	r, err := http.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, r.Status)
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

// casgstatus is the same job as that of the set gosched.
const casgstatus = `uprobe:/proc/%d/exe:runtime.casgstatus { if (reg("cx") == 1) { @s[reg("ax")] = nsecs; }
	if (reg("bx") == 1 && reg("cx") == 2) { $n = @s[reg("ax")]; if ($n) { @us = hist((nsecs - $n) / 1000); delete(@s[reg("ax")]); } } }
interval:s:3600 { printf("%d"); }`

// all are the sets of probes beside the scheduling events, named is the function for
// events.Func.
var (
	all   = []string{events.Clock, events.Alloc, events.GC, events.TCP, events.Cgo, events.Gosched, events.Func}
	named = regexp.MustCompile(`^main\.answer$`)
)

// probes records the stretches of threads, and sets of probes beside them.
func probes(sets ...string) func(service, time.Duration) (func() error, error) {
	if sets == nil {
		sets = []string{}
	}
	return func(s service, _ time.Duration) (func() error, error) {
		r, err := kernel.Start(s.pid, kernel.Options{W: new(bytes.Buffer), Sets: sets, Func: named})
		if err != nil {
			return nil, err
		}
		return func() error {
			after, err := r.Stop()
			if len(after.Missing) > 0 {
				err = errors.Join(err, fmt.Errorf("not recorded: %+v", after.Missing))
			}
			return err
		}, nil
	}
}

// command starts a program that records until it is interrupted.
func command(name string, args ...string) (stop func() error, err error) {
	c := exec.Command(name, args...)
	if err := c.Start(); err != nil {
		return nil, err
	}
	return func() error {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			return err
		}
		_ = c.Wait() // interrupted: the status says so
		return nil
	}, nil
}

func main() {
	log.SetFlags(0)
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		log.Fatal(serve())
	}
	if len(os.Args) == 3 && os.Args[1] == "record" {
		log.Fatal(record(os.Args[2]))
	}
	rate := flag.Float64("rate", 2500, "requests per second")
	window := flag.Duration("window", 250*time.Millisecond, "length of a window")
	rounds := flag.Int("rounds", 50, "number of windows with each recorder")
	attached := flag.Int("attach", 0, "begin and end that many `recordings` instead")
	killed := flag.Int("kill", 0, "kill that many `recorders` instead")
	only := flag.String("only", "", "a regular `expression` for the recorders to compare with none")
	flag.Parse()
	re, err := regexp.Compile(*only)
	if err != nil {
		log.Fatal(err)
	}
	do := func(s service) error { return compare(s, *rate, *window, *rounds, re) }
	if *attached > 0 || *killed > 0 {
		do = func(s service) error { return attach(s, *rate, *attached, *killed) }
	}
	if err := run(do); err != nil {
		log.Fatal(err)
	}
}

// order is what the service answers.
type order struct {
	ID    int      `json:"id"`
	Lines []string `json:"lines"`
	Total float64  `json:"total"`
}

func serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	o := order{1, []string{"a line of an order", "another one", "and a third"}, 12.5}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { answer(w, o) })
	return http.Serve(l, nil) // and net/http/pprof
}

//go:noinline
func answer(w http.ResponseWriter, o order) {
	priced := make(chan order)
	go func() { x := o; x.Total *= 1.19; priced <- x }()
	_ = json.NewEncoder(w).Encode(<-priced) // the client has gone: nobody to tell
}

// run does something with the service.
func run(do func(service) error) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(self, "serve")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		return err
	}
	return do(service{c.Process.Pid, "http://" + addr + "/"})
}

// compare measures what each of the recorders costs the service: under one load, windows
// with each, and windows without any before and after each of them.
func compare(s service, rate float64, window time.Duration, rounds int, only *regexp.Regexp) error {
	use := slices.DeleteFunc(slices.Clone(recorders), func(r recorder) bool {
		program, _, _ := strings.Cut(r.name, " ")
		_, err := exec.LookPath(program)
		missing := err != nil && (program == "perf" || program == "bpftrace")
		if missing {
			fmt.Printf("%s is not installed: left out\n", r.name)
		}
		return missing || only != nil && !only.MatchString(r.name) && r.name != none
	})
	l := loaded(s.url, rate)
	ratios, costs := map[string][]float64{}, map[string][]float64{}
	before, err := l.measure(s, window, recorders[0])
	for range rounds {
		for _, i := range rand.Perm(len(use)) {
			var with, after float64
			if err == nil {
				with, err = l.measure(s, window, use[i])
			}
			if err == nil {
				after, err = l.measure(s, window, recorders[0])
			}
			if err != nil {
				return errors.Join(fmt.Errorf("%s: %w", use[i].name, err), l.stop())
			}
			costs[use[i].name] = append(costs[use[i].name], with)
			ratios[use[i].name] = append(ratios[use[i].name], 2*with/(before+after))
			before = after
		}
	}
	fmt.Printf("%-22s %14s   %s\n", "recorder", "us per request", "ratio to the windows before and after (95 % interval)")
	for _, r := range use {
		_, us, _ := centre(costs[r.name])
		from, m, to := centre(ratios[r.name])
		fmt.Printf("%-22s %14.1f   %.3f (%.3f to %.3f)\n", r.name, us, m, from, to)
	}
	return l.stop()
}

// busy is a service under load.
type busy struct {
	answered atomic.Int64
	cancel   func()
	ended    chan error
}

// loaded begins to send requests. The caller has to stop it.
func loaded(url string, rate float64) *busy {
	ctx, cancel := context.WithCancel(context.Background())
	l := &busy{cancel: cancel, ended: make(chan error, 1)}
	go func() {
		_, err := load.Run(ctx, load.Config{
			Targets: []load.Target{{URL: url}}, Rate: rate, Duration: longest,
			Done: func(time.Time, time.Duration, time.Duration) { l.answered.Add(1) },
		})
		if ctx.Err() != nil {
			err = nil // it was to end
		}
		l.ended <- err
	}()
	return l
}

func (l *busy) stop() error {
	l.cancel()
	return <-l.ended
}

// longest bounds the load.
const longest = time.Hour

// measure returns the CPU time of a process per request, in microseconds, with a recorder.
func (l *busy) measure(s service, window time.Duration, with recorder) (us float64, err error) {
	stop, err := with.start(s, window)
	if err != nil {
		return 0, err
	}
	time.Sleep(with.settle)
	from, failed := cpu(s.pid)
	n := l.answered.Load()
	time.Sleep(window)
	to, err := cpu(s.pid)
	n = l.answered.Load() - n
	if err := errors.Join(failed, err, stop()); err != nil {
		return 0, err
	}
	select {
	case err := <-l.ended:
		l.ended <- err
		return 0, fmt.Errorf("the load has ended: %w", err)
	default:
	}
	if n == 0 {
		return 0, errors.New("no request was answered")
	}
	return float64(to-from) / float64(n) / 1e3, nil
}

// cpu is the CPU time of a process's threads, in nanoseconds.
func cpu(pid int) (ns int64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(string(b), " ")
		v, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, err
		}
		ns += v
	}
	return ns, nil
}

// centre is the median of the means of all pairs of xs (Hodges and Lehmann), between what a
// signed-rank test at 5 % does not tell from it (Hollander and Wolfe, Nonparametric Statistical
// Methods, section 3.3, for large numbers; with few it is all that was seen).
func centre(xs []float64) (from, m, to float64) {
	var means []float64
	for i := range xs {
		for j := range i + 1 {
			means = append(means, (xs[i]+xs[j])/2)
		}
	}
	slices.Sort(means)
	n, all := float64(len(xs)), len(means)
	k := int(n*(n+1)/4 - 1.96*math.Sqrt(n*(n+1)*(2*n+1)/24))
	k = min(max(k, 0), all-1)
	return means[k], (means[(all-1)/2] + means[all/2]) / 2, means[all-1-k]
}
