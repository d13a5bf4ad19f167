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
	// warmUp is how long a program is under load before it is recorded.
	warmUp = 2 * time.Second
	// beyond is how much longer than the recording the load may have to last:
	// whylate probes before it records, and takes profiles after it.
	beyond = 30 * time.Second
	// analyseTimeout bounds a diagnosis beyond its recording.
	analyseTimeout = 2 * time.Minute
)

// An outcome is what whylate said about one run, and what the clients saw of it.
type outcome struct {
	diagnosis
	seen     load.Result   // from the warm-up to the end of the recording
	took     time.Duration // from the start of whylate to its last byte
	wrong    string        // what is wrong with the diagnosis, or ""
	busy     bool          // other work on the machine spoilt the run
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
func (s *settings) try(ctx context.Context, t trial, dir string, i int) (*outcome, error) {
	dir, err := os.MkdirTemp(dir, t.name+"-")
	if err != nil {
		return nil, err
	}
	svc, err := startCaddy(ctx, t, s.bin, dir)
	if err != nil {
		return nil, err
	}
	defer svc.stop()
	o := &outcome{incident: filepath.Join(s.keep, fmt.Sprintf("%s-%d.whylate", t.name, i+1))}
	clients, end := context.WithCancel(ctx)
	defer end()
	type answer struct {
		load.Result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		r, err := load.Run(clients, load.Config{
			Targets: []load.Target{{URL: svc.url}}, Rate: t.rate, Seed: uint64(i),
			Duration: warmUp + s.duration + beyond,
		})
		done <- answer{r, err}
	}()
	select {
	case <-time.After(warmUp):
	case a := <-done:
		return nil, fmt.Errorf("the load ended: %w", a.err)
	}
	if err := s.diagnose(ctx, svc.admin, o, end); err != nil {
		return nil, err
	}
	end()
	a := <-done
	if !errors.Is(a.err, context.Canceled) {
		return nil, fmt.Errorf("the load ended by itself: %v", a.err)
	}
	if o.seen = a.Result; o.seen.Responses == 0 {
		return nil, fmt.Errorf("the clients got no response: %v", o.seen.Errors)
	}
	o.wrong, o.busy = t.judge(&o.diagnosis), o.seen.SendLag.Quantile(0.99) > t.lag
	return o, nil
}

// diagnose runs whylate against a live target and reads its answer. recorded is
// called when the recording is over, if whylate says so: what it does then on the
// machine of the clients is no part of what they saw meanwhile.
func (s *settings) diagnose(ctx context.Context, url string, o *outcome, recorded func()) error {
	ctx, cancel := context.WithTimeout(ctx, s.duration+analyseTimeout)
	defer cancel()
	var out, progress bytes.Buffer
	cmd := s.command(ctx, "diagnose", "-o", "json", "--for", s.duration.String(), "--save", o.incident, url)
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
