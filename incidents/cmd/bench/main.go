// Command bench scores whylate on incidents whose truth is known:
//
//	go run ./cmd/bench -recorded FOLDER
//	go run ./cmd/bench -recorded FOLDER -repeat 3 -run gateway-
//
// diagnoses each NAME.whylate of FOLDER that has a NAME.truth.json beside it and
// prints how right that was, next to two trivial diagnoses of the same recordings.
// make e2e leaves such a folder; with -repeat, bench lets the same script add to it
// first. See package score for what counts, and for the format of truth files.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/incidents/baseline"
	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	recorded := fs.String("recorded", "", "`folder` of incidents and truth files")
	only := fs.String("run", "", "only the cases with this `text` in their names, whose end is a $; several, separated by commas")
	var l live
	fs.IntVar(&l.times, "repeat", 0, "first run the cases that often, and add the recordings to the folder")
	fs.DurationVar(&l.duration, "for", 10*time.Second, "with -repeat, how long to record")
	fs.BoolVar(&l.heldOut, "held-out", false, "with -repeat, run the held-out programs")
	fs.StringVar(&l.script, "script", "./e2e.sh", "with -repeat, the `file` that runs cases")
	asJSON := fs.Bool("json", false, "print JSON instead of Markdown")
	unconfirmed := fs.Bool("unconfirmed", false, "count incidents, too, whose truth removal has not confirmed")
	noKernel := fs.Bool("no-kernel", false, "leave the kernel's events out")
	document := fs.String("document", "", "print the whole of docs/benchmark.md; the programs are below that `folder`")
	least := fs.Float64("least", 0, "fail if the ratio of right answers is below this")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *recorded == "" || fs.NArg() > 0 || l.times < 0 {
		return errors.New("usage: bench -recorded FOLDER [-run TEXT] [-repeat N]")
	}
	if l.times > 0 {
		if err := l.record(ctx, *recorded, *only); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(*recorded, "*"+score.Suffix))
	if err != nil {
		return err
	}
	if _, err := os.Stat(*recorded); err != nil {
		return err
	}
	recordings, err := filepath.Glob(filepath.Join(*recorded, "*.whylate"))
	if err != nil {
		return err
	}
	if n := len(recordings) - len(files); n > 0 {
		fmt.Fprintf(os.Stderr, "bench: left out %d recordings that have no truth file\n", n)
	}
	var all, without []*score.Incident // without the kernel's events
	left := 0
	ways := []bool{*noKernel}
	if *document != "" {
		ways = []bool{false, true}
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), score.Suffix)
		t, err := score.ReadTruth(f)
		if err != nil {
			return err
		}
		if !score.Chosen(t.Case, *only) {
			continue
		}
		if !t.Confirmed() && !*unconfirmed {
			left++
			continue
		}
		scores, err := one(name, f, t, ways)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, scores[0])
		without = append(without, scores[1:]...)
	}
	if left > 0 {
		fmt.Fprintf(os.Stderr, "bench: left out %d incidents that removal has not confirmed\n", left)
	}
	if len(all) == 0 {
		return fmt.Errorf("%s has no incidents to score: with a truth file, %q in their names, and confirmed or -unconfirmed", *recorded, *only)
	}
	if *asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(struct {
			Total     *score.Total      `json:"total"`
			Incidents []*score.Incident `json:"incidents"`
		}{score.Sum(all), all})
	} else {
		if *document != "" {
			if err := introduce(out, *document, all); err != nil {
				return err
			}
		}
		err = score.Markdown(out, all)
		if *document != "" && err == nil {
			err = compare(out, without, all)
		}
	}
	if err != nil {
		return err
	}
	if t := score.Sum(all); float64(t.Right.N) < *least*float64(t.Right.Of) {
		return fmt.Errorf("right is %v, below %g", t.Right, *least)
	}
	return nil
}

// one scores the incident beside a truth file, which says t: once for each of noKernel,
// which leave the kernel's events out or not.
func one(name, truth string, t *score.Truth, noKernel []bool) (scores []*score.Incident, err error) {
	in, err := evidence.Open(strings.TrimSuffix(truth, score.Suffix)+".whylate", evidence.Options{})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	trivial, err := baselines(in)
	if err != nil {
		return nil, err
	}
	for _, no := range noKernel {
		begun := time.Now()
		d, err := diagnose.Analyse(in, diagnose.AnalyseOptions{NoKernel: no})
		if err != nil {
			return nil, err
		}
		scores = append(scores, score.New(name, t, d, time.Since(begun).Seconds(), trivial))
	}
	return scores, nil
}

func baselines(in *evidence.Incident) ([]score.Baseline, error) {
	m, err := in.Member(evidence.MemberTrace)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r, err := gotrace.NewReader(m)
	if err != nil {
		return nil, err
	}
	t, err := timeline.Read(r, timeline.Options{})
	if err != nil {
		return nil, err
	}
	state, top := baseline.LargestState(t, request.Find(t, request.Options{})), baseline.ProfileTop(t)
	return []score.Baseline{
		{Name: "largest state of the slow requests' goroutines", Cause: state.Cause, Place: state.Place},
		{Name: "top of the CPU profile", Cause: top.Cause, Place: top.Place},
	}, nil
}
