package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/whylate/whylate/internal/novdso"
	"github.com/whylate/whylate/load"
)

const (
	// startTimeout bounds the start of one child: calibration and the largest
	// heap take about a second on a busy machine.
	startTimeout = 30 * time.Second
	// stopTimeout is how long a child may take to leave by itself.
	stopTimeout = 5 * time.Second
	// keptStderr bounds what is kept of a child's standard error.
	keptStderr = 8 << 10
)

// ErrNotPossible reports a scenario whose need this machine does not meet: a
// right, a file system, a feature of the kernel.
var ErrNotPossible = errors.New("not possible here")

// RunOptions changes a run; the zero value is the scenario as planted.
type RunOptions struct {
	// Duration is how long the load lasts; 0 means 15 s.
	Duration time.Duration
	// Rate replaces the scenario's rate; 0 keeps it.
	Rate float64
	// Seed determines the intended times of the requests.
	Seed uint64
}

// Running is a scenario under load. Its methods are safe for concurrent use.
type Running struct {
	Scenario Scenario
	AppURL   string // base URL of the service
	PprofURL string // base URL of its net/http/pprof, without /debug/pprof
	PID      int    // of the service

	cancel   context.CancelFunc
	children []*child
	undo     []func() error // after the children have ended
	done     chan struct{}  // closed when the load is over
	result   load.Result
	err      error
	stop     sync.Once
	stopErr  error
}

// Run starts the scenario's processes, waits until the service answers, and
// puts it under load from this process. It returns while the load goes on; the
// caller must call Stop. The children leave when ctx is done and when this
// process ends for whatever reason. The error is ErrNotPossible when the machine
// lacks what the scenario needs.
func Run(ctx context.Context, s Scenario, o RunOptions) (*Running, error) {
	if o.Duration == 0 {
		o.Duration = 15 * time.Second
	}
	if o.Rate == 0 {
		o.Rate = s.Rate
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &Running{Scenario: s, cancel: cancel, done: make(chan struct{})}
	if err := r.start(ctx); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("demo: %s: %w", s.Name, err), r.end())
	}
	go func() {
		defer close(r.done)
		r.result, r.err = load.Run(ctx, r.load(o))
		if errors.Is(r.err, load.ErrTargetDown) {
			r.err = errors.Join(r.err, r.casualties())
		}
	}()
	return r, nil
}

func (r *Running) start(ctx context.Context) error {
	closeOnExec()
	var args []string
	for _, p := range r.Scenario.Peers {
		c, err := r.helper(ctx, peerName, p)
		if err != nil {
			return fmt.Errorf("peer %s: %w", p.Name, err)
		}
		args = append(args, p.Name+"="+p.scheme()+c.app)
	}
	service, err := r.service()
	if err != nil {
		return err
	}
	service.args = args
	c, err := r.spawn(ctx, service)
	if err != nil {
		return err
	}
	r.AppURL, r.PprofURL, r.PID = "http://"+c.app, "http://"+c.admin, c.cmd.Process.Pid
	if err := r.answers(ctx); err != nil {
		return err
	}
	return r.surround(ctx)
}

// service is the process of the scenario, put where it belongs.
func (r *Running) service() (process, error) {
	s := r.Scenario
	p := process{name: s.Name, env: s.Env, reader: s.Reader}
	if s.NoVDSO {
		p.start = func(c *exec.Cmd) error {
			if err := novdso.Start(c); err != nil {
				return fmt.Errorf("%w: %w", ErrNotPossible, err)
			}
			return nil
		}
	}
	if s.Quota == 0 {
		return p, nil
	}
	dir, err := newGroup(s.Quota)
	if err != nil {
		return p, fmt.Errorf("%w: a CPU quota: %w", ErrNotPossible, err)
	}
	r.undo = append(r.undo, func() error { return removeGroup(dir) })
	p.env = append(slices.Clone(s.Env), groupEnv+"="+dir)
	return p, nil
}

// surround starts the neighbours.
func (r *Running) surround(ctx context.Context) error {
	n := r.Scenario.Neighbours
	if n.Every == 0 {
		return nil
	}
	for range runtime.NumCPU() {
		if _, err := r.helper(ctx, neighbourName, n); err != nil {
			return fmt.Errorf("neighbour: %w", err)
		}
	}
	return nil
}

// helper starts a process beside the service, with its settings as argument.
func (r *Running) helper(ctx context.Context, name string, settings any) (*child, error) {
	arg, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	return r.spawn(ctx, process{name: name, env: []string{"GOMAXPROCS=1"}, args: []string{string(arg)}})
}

// answers waits for one good response of every endpoint.
func (r *Running) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, e := range r.Scenario.Endpoints {
		req, err := http.NewRequestWithContext(ctx, e.method(), r.AppURL+e.Path, bytes.NewReader(e.body()))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s: status %s: %w", e.method(), e.Path, resp.Status, err)
		}
	}
	return nil
}

func (e Endpoint) method() string {
	if e.Body > 0 {
		return http.MethodPost
	}
	return http.MethodGet
}

func (e Endpoint) body() []byte { return bytes.Repeat([]byte{'x'}, e.Body) }

// drain is how long the last requests may take: what a scenario makes late takes seconds
// on a slow machine, and an answer is one whenever it comes.
const drain = 10 * time.Second

func (r *Running) load(o RunOptions) load.Config {
	c := load.Config{
		Rate: o.Rate, Duration: o.Duration, Seed: o.Seed,
		Bursts: load.Bursts(r.Scenario.Bursts),
		Drain:  drain,
	}
	for _, e := range r.Scenario.Endpoints {
		t := load.Target{Name: e.Path, Method: e.method(), URL: r.AppURL + e.Path, Body: e.body(), Pause: e.Pause, Weight: e.Weight}
		if e.Once {
			t.Header = http.Header{"Connection": {"close"}}
		}
		c.Targets = append(c.Targets, t)
	}
	return c
}

// casualties says which children ended by themselves, and what they said last.
func (r *Running) casualties() error {
	var errs []error
	for _, c := range r.children {
		select {
		case <-c.exited:
			errs = append(errs, fmt.Errorf("demo: process %d ended: %v: %s", c.cmd.Process.Pid, c.exit, c.stderr.String()))
		default:
		}
	}
	return errors.Join(errs...)
}

// Done is closed when the load is over.
func (r *Running) Done() <-chan struct{} { return r.done }

// Load waits until the load is over and returns what the clients saw. After
// Stop it is what they saw until then, with an error.
func (r *Running) Load() (load.Result, error) {
	<-r.done
	return r.result, r.err
}

// Stop ends the load and every process that Run started, and returns when they
// are gone. Later calls return the same.
func (r *Running) Stop() error {
	r.stop.Do(func() {
		r.cancel()
		<-r.done
		r.stopErr = r.end()
	})
	return r.stopErr
}

// end stops the children, the service before its peers, and undoes what was done
// for them.
func (r *Running) end() error {
	var errs []error
	for _, c := range slices.Backward(r.children) {
		errs = append(errs, c.end())
	}
	for _, undo := range slices.Backward(r.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

// process says how a child is started.
type process struct {
	name   string // for Victim
	env    []string
	args   []string
	reader Reader                // of its standard error
	start  func(*exec.Cmd) error // nil means the usual way
}

// child is a process of this binary that serves.
type child struct {
	cmd        *exec.Cmd
	stdin      io.Closer // the child leaves when it is closed
	stderr     tail
	app, admin string // addresses
	exited     chan struct{}
	exit       error
}

// spawn starts a child and waits for its two addresses.
func (r *Running) spawn(ctx context.Context, p process) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(exe, p.args...), exited: make(chan struct{})}
	c.cmd.Env = slices.Concat(environ(), p.env, []string{VictimEnv + "=" + p.name})
	c.cmd.Stderr = &c.stderr
	if p.reader.Every > 0 {
		c.cmd.Stderr = &pausing{Writer: &c.stderr, Reader: p.reader}
	}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	stdout, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	c.cmd.Stdout = w
	start := p.start
	if start == nil {
		start = (*exec.Cmd).Start
	}
	err = start(c.cmd)
	w.Close()
	if err != nil {
		return nil, err
	}
	r.children = append(r.children, c)
	go func() {
		c.exit = c.cmd.Wait()
		close(c.exited)
	}()
	context.AfterFunc(ctx, func() { stdin.Close() })
	stdout.SetReadDeadline(time.Now().Add(startTimeout))
	defer context.AfterFunc(ctx, func() { stdout.SetReadDeadline(time.Now()) })()
	lines := bufio.NewScanner(stdout)
	for _, address := range []*string{&c.app, &c.admin} {
		if !lines.Scan() {
			return nil, c.failed(ctx, lines.Err())
		}
		*address = lines.Text()
		if _, _, err := net.SplitHostPort(*address); err != nil {
			return nil, fmt.Errorf("the child printed %q instead of an address; does its main call demo.Victim?", *address)
		}
	}
	return c, nil
}

// failed says why a child did not print its addresses.
func (c *child) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the child did not start within %v: %w", startTimeout, err)
	}
	c.stdin.Close()
	select {
	case <-c.exited:
		if c.lacks() {
			_, why, _ := strings.Cut(c.stderr.String(), ErrNotPossible.Error()+": ")
			return fmt.Errorf("%w: %s", ErrNotPossible, why)
		}
		return fmt.Errorf("the child ended: %v: %s", c.exit, c.stderr.String())
	case <-time.After(stopTimeout):
		return errors.New("the child closed its standard output")
	}
}

// lacks tells whether the child ended because the machine does not meet a need,
// which Run reports.
func (c *child) lacks() bool { return c.cmd.ProcessState.ExitCode() == notPossible }

// end asks the child to leave and kills it when it does not, which is no error
// on a machine that a scenario has just kept busy.
func (c *child) end() error {
	c.stdin.Close()
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
		if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-c.exited
		return nil
	}
	if c.exit != nil && !c.lacks() {
		return fmt.Errorf("demo: process %d: %w: %s", c.cmd.Process.Pid, c.exit, c.stderr.String())
	}
	return nil
}

// environ is this process's environment without settings of the Go runtime,
// which would change what is planted.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOTRACEBACK", VictimEnv, groupEnv:
			return true
		}
		return false
	})
}

// pausing hands on what it reads from a pipe, and now and then it does not: the
// pipe fills, and whoever writes to it waits.
type pausing struct {
	io.Writer
	Reader
	next time.Time
}

func (p *pausing) Write(b []byte) (int, error) {
	if now := time.Now(); now.After(p.next) {
		if !p.next.IsZero() {
			time.Sleep(p.Pause)
		}
		p.next = time.Now().Add(p.Every/2 + rand.N(p.Every))
	}
	return p.Writer.Write(b)
}

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - keptStderr; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
