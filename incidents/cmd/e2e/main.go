// Command e2e diagnoses programs of other people: it starts each in a few
// situations whose truth is known, puts it under load, lets whylate diagnose it
// from outside, and compares. It exits with 1 if a diagnosis is wrong. See
// ../../e2e.sh, which builds everything that it needs.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/report"
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
	bin, hosts string // folders of the built programs and of what they are built of
	whylate    string
	keep       string // folder of the incidents
	truth      string // folder of the truth files that removal has confirmed
	times      int
	pairs      int
	duration   time.Duration
	only       string
	calm       bool
	heldOut    bool
	least      float64       // of the diagnoses that count, those that must be good enough
	limit      time.Duration // no run begins later; 0 is no limit

	// dir and memory are folders for files of the programs, on a disk and in memory;
	// where there is none in memory both are the same.
	dir, memory string
}

func parse(args []string) (*settings, error) {
	s := &settings{}
	fs := flag.NewFlagSet("e2e", flag.ContinueOnError)
	fs.StringVar(&s.bin, "bin", "", "`folder` of the built programs")
	fs.StringVar(&s.hosts, "hosts", "", "`folder` that they are built of")
	fs.StringVar(&s.whylate, "whylate", "", "the whylate `binary` to judge")
	fs.StringVar(&s.keep, "keep", "", "`folder` to keep the incidents in; without it, they are removed")
	fs.StringVar(&s.truth, "truth", "", "`folder` of the confirmed truth files; -pairs writes them, and recordings get copies")
	fs.IntVar(&s.times, "times", 1, "how often to run each case")
	fs.IntVar(&s.pairs, "pairs", 0, "confirm what is planted by that many runs of each case with and without it")
	fs.DurationVar(&s.duration, "for", 10*time.Second, "how long to record")
	fs.StringVar(&s.only, "run", "", "only the cases with this `text` in their names, whose end is a $; several, separated by commas")
	fs.BoolVar(&s.calm, "without", false, "run the cases without what is planted in them, as controls")
	fs.BoolVar(&s.heldOut, "held-out", false, "run the held-out programs instead of those that rules are developed with")
	fs.Float64Var(&s.least, "least", 1, "fail if less than that part of the diagnoses is right or honest; below 1, runs that do not count are no failure")
	fs.DurationVar(&s.limit, "limit", 0, "begin no run later than this")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	switch {
	case fs.NArg() > 0:
		return s, fmt.Errorf("unknown argument %q", fs.Arg(0))
	case s.bin == "" || s.hosts == "" || s.whylate == "":
		return s, errors.New("-bin, -hosts and -whylate are required; e2e.sh gives them")
	case !(s.least >= 0 && s.least <= 1):
		return s, fmt.Errorf("-least %v is no part", s.least)
	case s.duration < time.Second || s.duration > 5*time.Minute:
		return s, fmt.Errorf("-for %v is not between 1s and 5m", s.duration)
	case s.pairs > 0 && s.calm:
		return s, errors.New("-pairs runs each case without what is planted as well: leave -without out")
	case s.times < 1 || s.pairs < 0:
		return s, fmt.Errorf("-times %d or -pairs %d is not positive", s.times, s.pairs)
	}
	return s, nil
}

// chosen are the trials that the command line asks for, at least one.
func (s *settings) chosen() (some []trial, err error) {
	elsewhere := 0
	for _, t := range all {
		if !score.Chosen(t.name, s.only) {
			continue
		}
		if t.heldOut != s.heldOut {
			elsewhere++
			continue
		}
		if s.calm || s.pairs > 0 {
			if len(t.planted) == 0 || t.noHost {
				continue
			}
		}
		if s.calm {
			t = t.calm()
		}
		some = append(some, t)
	}
	switch {
	case len(some) > 0:
		return some, nil
	case elsewhere > 0 && s.heldOut:
		return nil, fmt.Errorf("no case of a held-out program has %q in its name, but %d others have: leave -held-out out", s.only, elsewhere)
	case elsewhere > 0:
		return nil, fmt.Errorf("only cases of held-out programs have %q in their names: add -held-out", s.only)
	}
	return nil, fmt.Errorf("no case that can be run so has %q in its name", s.only)
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "e2e-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	s.memory = cmp.Or(memoryFolder(), s.dir)
	defer os.RemoveAll(s.memory)
	if s.keep == "" {
		s.keep = s.dir
	}
	if err := os.MkdirAll(s.keep, 0o755); err != nil {
		return err
	}
	some, err := s.chosen()
	if err != nil {
		return err
	}
	for _, t := range some {
		if err := t.source().build(ctx, s.hosts, s.bin, os.Stderr); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, heading, "case", "result", "verdict", "found", "share", "p99", "client", "lag", "stolen", "others", "requests", "sent", "s")
	if s.pairs > 0 {
		return s.confirm(ctx, out, some)
	}
	var sum tally
	begun := time.Now()
	for i := range s.times {
		for _, t := range some {
			if s.limit > 0 && time.Since(begun) > s.limit {
				sum.skipped++
				continue
			}
			if _, err := s.undisturbed(ctx, out, t, i, &sum); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				fmt.Fprintf(out, "%-20s failed: %v\n", t.name, err)
				sum.failed++
			}
		}
	}
	fmt.Fprintln(out, sum)
	return sum.err(s.least)
}

// tally counts the runs by how they ended.
type tally struct {
	results                    map[score.Result]int
	bad, void, skipped, failed int
}

// add counts a run that was what was planted.
func (c *tally) add(o *outcome) {
	if c.results == nil {
		c.results = map[score.Result]int{}
	}
	c.results[o.result]++
	if !o.good {
		c.bad++
	}
}

func (c tally) String() string {
	return fmt.Sprintf("%d right, %d honest, %d wrong, %d silent; %d are not good enough; %d runs are worth nothing, %d failed, %d were not begun",
		c.results[score.Right], c.results[score.Honest], c.results[score.Wrong], c.results[score.Silent], c.bad, c.void, c.failed, c.skipped)
}

// err is nil if that part of the diagnoses is good enough.
func (c tally) err(least float64) error {
	counted := 0
	for _, n := range c.results {
		counted += n
	}
	switch {
	case c.failed > 0:
		return fmt.Errorf("%d runs failed", c.failed)
	case float64(counted-c.bad) < least*float64(counted):
		return fmt.Errorf("%d of %d diagnoses are not good enough", c.bad, counted)
	case least == 1 && c.void > 0:
		return fmt.Errorf("in %d attempts at each of %d runs, other work kept the machine busy or what was planted had no effect", attempts, c.void)
	}
	return nil
}

// attempts is how often a run is tried that is not what was planted.
const attempts = 5

// undisturbed runs a case until the clients were on time and felt what was
// planted, right or wrong: otherwise it is another case. It returns nil if that
// never was so.
func (s *settings) undisturbed(ctx context.Context, out io.Writer, t trial, i int, sum *tally) (*outcome, error) {
	for n := range attempts {
		if n > 0 {
			awaitCalm(ctx)
		}
		o, err := s.once(ctx, out, t, i, sum)
		if err != nil {
			return nil, err
		}
		if o.void != "" {
			continue
		}
		if !o.good {
			s.explain(ctx, out, o.incident)
		}
		return o, nil
	}
	sum.void++
	return nil, nil
}

// once runs a case, whatever disturbs it.
func (s *settings) once(ctx context.Context, out io.Writer, t trial, i int, sum *tally) (*outcome, error) {
	o, err := s.try(ctx, t, i)
	if err != nil {
		return nil, err
	}
	o.print(out, t)
	if o.void != "" { // it is worth nothing
		return o, os.Remove(o.incident)
	}
	sum.add(o)
	return o, s.label(o, t)
}

// label writes the truth beside the incident, where cmd/bench looks for it. One without
// the host's evidence has none: it is judged by another measure.
func (s *settings) label(o *outcome, t trial) error {
	file := strings.TrimSuffix(o.incident, ".whylate") + score.Suffix
	if t.noHost {
		return nil
	}
	truth := t.truth()
	if err := s.confirmed(truth); err != nil {
		return err
	}
	return truth.Write(file)
}

// confirmed adds what removal has shown about a case, if anything, to its truth.
func (s *settings) confirmed(truth *score.Truth) error {
	if s.truth == "" || truth.Control() {
		return nil
	}
	x, err := score.ReadTruth(s.truthFile(truth.Case))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(x.Causes) != len(truth.Causes) {
		return fmt.Errorf("%s: the truth file has %d causes, the table %d", truth.Case, len(x.Causes), len(truth.Causes))
	}
	truth.Pairs = x.Pairs
	for i := range truth.Causes {
		truth.Causes[i].Share = x.Causes[i].Share
	}
	return nil
}

func (s *settings) truthFile(name string) string {
	return filepath.Join(s.truth, strings.TrimSuffix(name, "-blind")+".json")
}

const (
	heading = "%-20s %-7s %-12s %-48s %5s %8s %8s %6s %6s %6s %8s %6s %5s\n"
	line    = "%-20s %-7s %-12s %-48s %5s %8.1f %8.1f %6.1f %6s %6s %8d %6d %5.1f\n"
)

func (o *outcome) print(out io.Writer, t trial) {
	result := string(o.result)
	if o.void != "" {
		result = o.void
	}
	names, share := found(&o.Diagnosis)
	fmt.Fprintf(out, line, t.name, result, o.Verdict, names, share,
		ms(o.Requests.P99NS), o.client.p99/1e6, ms(int64(o.seen.SendLag.Quantile(0.99))),
		fmt.Sprintf("%.1f%%", 100*o.StolenShare), fmt.Sprintf("%.1f%%", 100*o.others), o.Requests.Count, o.sent(), o.took.Seconds())
}

// found names what a diagnosis says, look-alikes in braces, and the share of the
// first of it.
func found(d *report.Diagnosis) (names, share string) {
	var all []string
	share = "-"
	for i, f := range d.Findings {
		name := f.Cause
		if f.Contrast != "tail" {
			name += " (" + f.Contrast + ")"
		}
		if all = append(all, name); i == 0 {
			share = percent(f.Share)
		}
	}
	for _, c := range d.ConsistentWith {
		if all = append(all, "{"+strings.Join(c.Causes, ",")+"}"); len(all) == 1 {
			share = percent(c.Share)
		}
	}
	switch {
	case len(all) > 0:
		return strings.Join(all, " + "), share
	case d.Reason != "":
		return d.Reason, share
	}
	return "-", share
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

func ms(ns int64) float64 { return float64(ns) / 1e6 }
