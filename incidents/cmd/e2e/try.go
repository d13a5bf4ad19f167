package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
	"github.com/whylate/whylate/report"
)

// analyseTimeout bounds a diagnosis beyond its recording.
const analyseTimeout = 2 * time.Minute

// An outcome is what whylate said about one run, and what the clients saw of it.
type outcome struct {
	report.Diagnosis
	seen     load.Result   // from the warm-up to the end of the recording
	client   latencies     // of requests since whylate began
	others   float64       // part of the CPUs' time that others had meanwhile
	took     time.Duration // from the start of whylate to its last byte
	result   score.Result
	good     bool   // the result is
	void     string // why the run was not the case that was planted, or ""
	incident string // file
}

// sent is how many requests the clients sent per length of the recording.
func (o *outcome) sent() int {
	if o.seen.Elapsed <= 0 {
		return 0
	}
	return int(float64(o.seen.Offered) * float64(o.DurationNS) / float64(o.seen.Elapsed))
}

// under starts a trial's program, puts it under load and makes its host what the
// trial says, and calls do meanwhile.
func (s *settings) under(ctx context.Context, t trial, seed uint64, do func(*service, *clients) error) (err error) {
	place := s.memory
	if t.device {
		place = s.dir
	}
	dir, err := os.MkdirTemp(place, t.name+"-")
	if err != nil {
		return err
	}
	rig := rig{s.bin, dir}
	svc, err := t.start(ctx, rig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, svc.stop(), os.RemoveAll(dir)) }()
	c := s.send(ctx, svc, t, seed)
	defer c.end()
	if err := c.warmUp(); err != nil {
		return err
	}
	if err := svc.preferOthers(); err != nil && (t.quota > 0 || t.neighbours > 0) {
		return fmt.Errorf("running the clients first: %w", err)
	}
	if err := svc.plant(ctx, t, rig); err != nil {
		return err
	}
	return do(svc, c)
}

// free returns the file for the next recording of a case; those that are there stay.
func (s *settings) free(name string) (string, error) {
	for n := 1; ; n++ {
		file := filepath.Join(s.keep, fmt.Sprintf("%s-%d.whylate", name, n))
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return file, nil
		} else if err != nil {
			return "", err
		}
	}
}

// try runs a case once; i is the seed of its load.
func (s *settings) try(ctx context.Context, t trial, i int) (*outcome, error) {
	incident, err := s.free(t.name)
	if err != nil {
		return nil, err
	}
	o := &outcome{incident: incident}
	err = s.under(ctx, t, uint64(i), func(svc *service, c *clients) error {
		begun, before := time.Now(), strangers()
		err := s.diagnose(ctx, t, svc.pprof, o, func() {
			o.others = float64(since(strangers(), before)) / float64(time.Since(begun)*time.Duration(runtime.NumCPU()))
			c.end()
			svc.relieve()
		})
		if err != nil {
			return err
		}
		if o.seen, err = c.result(); err != nil {
			return err
		}
		o.client = c.since(begun)
		o.result, o.good = t.judge(&o.Diagnosis)
		o.void, err = t.void(svc, o)
		return err
	})
	return o, err
}

// exitCodes are whylate's, by verdict.
var exitCodes = map[string]int{"healthy": 0, "cause": 3, "inconclusive": 4}

// leastThrottled is the part of its periods in which a quota must have stopped the
// program to be what made a tail.
const leastThrottled = 0.1

// mostStolen is the part of the machine that a hypervisor may take during a
// recording whatever it takes it from: the tail are the slowest 1.5 %, so much can
// be all of it.
const mostStolen = 0.015

// void says why the run was something else than what was planted, or nothing.
func (t trial) void(svc *service, o *outcome) (string, error) {
	small := mostDisturbed
	if len(t.planted) == 0 {
		small = -1 // then the tail is nothing else
	}
	switch {
	case answered(o.seen) != nil:
		return "refused", nil
	case o.seen.SendLag.Quantile(0.99) > t.lag && o.client.late > small,
		o.StolenShare > mostStolen && o.client.stolen > small,
		o.others > mostOthers:
		return "busy", nil
	case o.client.p99 < float64(t.felt):
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
	if err := json.Unmarshal(out.Bytes(), &o.Diagnosis); err != nil {
		return fmt.Errorf("whylate (%s) printed no diagnosis: %w\n%s", cmd.ProcessState, err, progress.Bytes())
	}
	if o.Schema != report.Schema {
		return fmt.Errorf("the schema is %q, not %q", o.Schema, report.Schema)
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
