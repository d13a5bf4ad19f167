package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/whylate/whylate/load"
)

const (
	// readyTimeout bounds the start of a program; the largest takes under a second.
	readyTimeout = 30 * time.Second
	// readyInterval is how often a program that starts is asked whether it is ready.
	readyInterval = 20 * time.Millisecond
	// stopTimeout is how long a program may take to leave by itself. Caddy waits
	// for its idle connections.
	stopTimeout = 5 * time.Second
	// keptOutput bounds what is shown of a program that failed.
	keptOutput = 4 << 10
)

// A process is a program under test or one of its peers.
type process struct {
	name   string
	cmd    *exec.Cmd
	output string // file with what it printed
	exited chan struct{}
	exit   error // valid once exited is closed
}

// start runs a program, by run, with env beside the usual environment. It reads nothing,
// prints into a file in dir, and inherits no other descriptor.
func start(run func(*exec.Cmd) error, dir, path string, env []string, args ...string) (*process, error) {
	p := &process{name: filepath.Base(path), exited: make(chan struct{})}
	out, err := os.CreateTemp(dir, p.name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.output = out.Name()
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = append(environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = endWithUs()
	if err := run(p.cmd); err != nil {
		return nil, err
	}
	go func() {
		p.exit = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// ready polls a URL of the process until it answers with 200.
func (p *process) ready(ctx context.Context, url string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return p.until(ctx, func(ctx context.Context) error { return get(ctx, client, url) })
}

// until asks again and again whether the process is ready.
func (p *process) until(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended: %v\n%s", p.name, p.exit, p.printed())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.name, err, p.printed())
		case <-tick.C:
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	_, err := ask(ctx, client, load.Target{URL: url})
	return err
}

// mostBody bounds what is read of a response.
const mostBody = 1 << 20

// ask makes a request once and returns the body of a response of success.
func ask(ctx context.Context, client *http.Client, t load.Target) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, t.Method, t.URL, bytes.NewReader(t.Body))
	if err != nil {
		return nil, err
	}
	if t.Header != nil {
		req.Header = t.Header
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostBody))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %.200s", req.Method, t.URL, resp.Status, body)
	}
	return body, nil
}

// stop asks the process to leave, and kills it when it does not.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		p.cmd.Process.Kill()
		<-p.exited
	}
}

// printed is the end of what the process printed.
func (p *process) printed() string {
	b, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-keptOutput):]))
}

// environ is this process's environment without the settings of the Go runtime,
// which would change what is planted.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOTRACEBACK":
			return true
		}
		return false
	})
}

// addresses returns n free addresses of the loopback. Another process may take
// one before it is used; then the program does not start, and says so.
func addresses(n int) ([]string, error) {
	var all []string
	var errs []error
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer l.Close() // only when all are known, or they would be the same
		all = append(all, l.Addr().String())
	}
	return all, errors.Join(errs...)
}
