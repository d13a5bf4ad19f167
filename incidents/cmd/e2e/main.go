// Command e2e diagnoses programs of other people: it starts each in a few
// situations whose truth is known, puts it under load, lets whylate diagnose it
// from outside, and compares. It exits with 1 if a diagnosis is wrong. See
// ../../e2e.sh, which builds everything that it needs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	closeOnExec()
	err := run(ctx, os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

// settings are the command line.
type settings struct {
	bin      string // folder of the programs
	whylate  string
	keep     string // folder of the incidents
	times    int
	duration time.Duration
	only     string
}

func parse(args []string) (settings, error) {
	var s settings
	fs := flag.NewFlagSet("e2e", flag.ContinueOnError)
	fs.StringVar(&s.bin, "bin", "", "`folder` of the built programs")
	fs.StringVar(&s.whylate, "whylate", "", "the whylate `binary` to judge")
	fs.StringVar(&s.keep, "keep", "", "`folder` to keep the incidents in; without it, they are removed")
	fs.IntVar(&s.times, "times", 1, "how often to run each case")
	fs.DurationVar(&s.duration, "for", 10*time.Second, "how long to record")
	fs.StringVar(&s.only, "run", "", "only the cases with this `text` in their names")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	switch {
	case fs.NArg() > 0:
		return s, fmt.Errorf("unknown argument %q", fs.Arg(0))
	case s.bin == "" || s.whylate == "":
		return s, errors.New("-bin and -whylate are required; e2e.sh gives them")
	case s.times < 1:
		return s, fmt.Errorf("-times %d is not positive", s.times)
	}
	return s, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if s.keep == "" {
		s.keep = dir
	}
	if err := os.MkdirAll(s.keep, 0o755); err != nil {
		return err
	}
	fmt.Fprintf(out, heading, "case", "right", "verdict", "found", "share", "p99", "client", "lag", "requests", "sent", "s")
	var sum tally
	for _, t := range trials {
		if !strings.Contains(t.name, s.only) {
			continue
		}
		for i := range s.times {
			if err := s.undisturbed(ctx, out, t, dir, i, &sum); err != nil {
				return err
			}
		}
	}
	return sum.err(s.only)
}

// tally counts the runs by how they ended.
type tally struct{ right, wrong, void int }

func (c tally) err(only string) error {
	switch {
	case c.right+c.wrong+c.void == 0:
		return fmt.Errorf("no case has %q in its name", only)
	case c.wrong > 0:
		return fmt.Errorf("%d of %d diagnoses are wrong", c.wrong, c.right+c.wrong)
	case c.void > 0:
		return fmt.Errorf("%d runs are worth nothing: in %d attempts at each, other work kept the machine busy or what was planted had no effect", c.void, attempts)
	}
	return nil
}

// attempts is how often a run is tried that is not what was planted.
const attempts = 3

// undisturbed runs a case until the clients were on time and felt what was
// planted, right or wrong: otherwise it is another case.
func (s *settings) undisturbed(ctx context.Context, out io.Writer, t trial, dir string, i int, sum *tally) error {
	for range attempts {
		o, err := s.try(ctx, t, dir, i)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		o.print(out, t)
		if err := o.label(t); err != nil {
			return err
		}
		switch {
		case o.void != "":
			continue
		case o.wrong == "":
			sum.right++
		default:
			sum.wrong++
			s.explain(ctx, out, o.incident)
		}
		return nil
	}
	sum.void++
	return nil
}

// label writes the truth beside the incident, where cmd/bench looks for it; a run
// that was not what was planted has none.
func (o *outcome) label(t trial) error {
	file := strings.TrimSuffix(o.incident, ".whylate") + ".truth.json"
	if o.void != "" {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := json.MarshalIndent(t.truth(), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

const (
	heading = "%-17s %-5s %-12s %-48s %5s %8s %8s %6s %8s %6s %5s\n"
	line    = "%-17s %-5s %-12s %-48s %5s %8.1f %8.1f %6.1f %8d %6d %5.1f\n"
)

func (o *outcome) print(out io.Writer, t trial) {
	right := "yes"
	switch {
	case o.void != "":
		right = o.void
	case o.wrong != "":
		right = "NO"
	}
	names, share := o.found()
	fmt.Fprintf(out, line, t.name, right, o.Verdict, names, share,
		ms(o.Requests.P99NS), ms(int64(o.seen.Latency.Quantile(0.99))), ms(int64(o.seen.SendLag.Quantile(0.99))),
		o.Requests.Count, o.sent(), o.took.Seconds())
	if o.wrong != "" && o.void == "" {
		fmt.Fprintf(out, "  wrong: %s\n", o.wrong)
	}
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }
