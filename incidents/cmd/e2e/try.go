package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/whylate/whylate/load"
)

const (
	// analyseTimeout bounds a diagnosis beyond its recording.
	analyseTimeout = 2 * time.Minute
)

// An outcome is what whylate said about one run, and what the clients saw of it.
type outcome struct {
	diagnosis
	seen     load.Result   // from the warm-up to the end of the recording
	took     time.Duration // from the start of whylate to its last byte
	wrong    string        // what is wrong with the diagnosis, or ""
	void     string        // why the run was not the case that was planted, or ""
	incident string        // file
}

// sent is how many requests the clients sent per length of the recording.
func (o *outcome) sent() int {
	if o.seen.Elapsed <= 0 {
		return 0
	}
	return int(float64(o.seen.Offered) * float64(o.DurationNS) / float64(o.seen.Elapsed))
}

// try runs a case once.
func (s *settings) try(ctx context.Context, t trial, dir string, i int) (_ *outcome, err error) {
	dir, err = os.MkdirTemp(dir, t.name+"-")
	if err != nil {
		return nil, err
	}
	svc, err := t.start(ctx, t, s.bin, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, svc.stop()) }()
	o := &outcome{incident: filepath.Join(s.keep, fmt.Sprintf("%s-%d.whylate", t.name, i+1))}
	clients := s.send(ctx, svc, t, uint64(i))
	defer clients.end()
	if err := clients.warmUp(); err != nil {
		return nil, err
	}
	if err := svc.plant(ctx, t, s.bin, dir); err != nil {
		return nil, err
	}
	err = s.diagnose(ctx, t, svc.pprof, o, func() {
		clients.end()
		svc.relieve()
	})
	if err != nil {
		return nil, err
	}
	if o.seen, err = clients.result(); err != nil {
		return nil, err
	}
	o.wrong = t.judge(&o.diagnosis)
	o.void, err = t.void(svc, o.seen)
	return o, err
}

// leastThrottled is the part of its periods in which a quota must have stopped the
// program to be what made a tail.
const leastThrottled = 0.1

// void says why the run was something else than what was planted, or nothing.
func (t trial) void(svc *service, seen load.Result) (string, error) {
	switch {
	case seen.SendLag.Quantile(0.99) > t.lag:
		return "busy", nil
	case seen.Latency.Quantile(0.99) < t.felt:
		return "mild", nil
	case svc.group != nil:
		part, err := svc.group.throttled()
		if err != nil || part >= leastThrottled {
			return "", err
		}
		return "mild", nil
	}
	return "", nil
}

// diagnose runs whylate against a live target and reads its answer. recorded is
// called when the recording is over, if whylate says so: what it does then on the
// machine of the clients is no part of what they saw meanwhile.
func (s *settings) diagnose(ctx context.Context, t trial, url string, o *outcome, recorded func()) error {
	ctx, cancel := context.WithTimeout(ctx, s.duration+analyseTimeout)
	defer cancel()
	var out, progress bytes.Buffer
	args := []string{"diagnose", "-o", "json", "--for", s.duration.String(), "--save", o.incident, url}
	if t.noHost {
		args = append(args, "--no-host")
	}
	cmd := s.command(ctx, args...)
	cmd.Stdout = &out
	cmd.Stderr = io.MultiWriter(&progress, &watch{word: "analysing", do: recorded})
	begun := time.Now()
	err := cmd.Run()
	o.took = time.Since(begun)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if err := json.Unmarshal(out.Bytes(), &o.diagnosis); err != nil {
		return fmt.Errorf("whylate (%s) printed no diagnosis: %w\n%s", cmd.ProcessState, err, progress.Bytes())
	}
	if o.Schema != schema {
		return fmt.Errorf("the schema is %q, not %q", o.Schema, schema)
	}
	if want, ok := exitCodes[o.Verdict]; !ok || cmd.ProcessState.ExitCode() != want {
		return fmt.Errorf("whylate says %s and exits with %d", o.Verdict, cmd.ProcessState.ExitCode())
	}
	return nil
}

// explain prints the report of a recording.
func (s *settings) explain(ctx context.Context, out io.Writer, incident string) {
	cmd := s.command(ctx, "diagnose", incident)
	report, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(out, "  ", err)
	}
	for line := range strings.Lines(string(report)) {
		fmt.Fprint(out, "  | ", line)
	}
}

func (s *settings) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.whylate, args...)
	cmd.Env = environ()
	cmd.SysProcAttr = endWithUs()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	return cmd
}

// watch calls do when a word is first written to it.
type watch struct {
	word string
	do   func()
	seen []byte
	done bool
}

func (w *watch) Write(p []byte) (int, error) {
	if !w.done {
		w.seen = append(w.seen, p...)
		if w.done = bytes.Contains(w.seen, []byte(w.word)); w.done {
			w.do()
		}
	}
	return len(p), nil
}
