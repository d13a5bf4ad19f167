// Command bench scores whylate on saved incidents whose truth is known:
//
//	go run ./cmd/bench -recorded FOLDER
//
// diagnoses each NAME.whylate of FOLDER that has a NAME.truth.json beside it and
// prints how right that was, next to two trivial diagnoses of the same recordings.
// make e2e leaves such a folder. See package score for what counts, and for the
// format of truth files.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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
	err := run(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	recorded := fs.String("recorded", "", "`folder` of incidents and truth files")
	only := fs.String("run", "", "only the incidents with this `text` in their names")
	asJSON := fs.Bool("json", false, "print JSON instead of Markdown")
	unconfirmed := fs.Bool("unconfirmed", false, "count incidents, too, whose truth removal has not confirmed")
	document := fs.String("document", "", "print the whole of docs/benchmark.md; the programs are below that `folder`")
	least := fs.Float64("least", 0, "fail if the ratio of right answers is below this")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *recorded == "" || fs.NArg() > 0 {
		return errors.New("usage: bench -recorded FOLDER")
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
	var all []*score.Incident
	left := 0
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), score.Suffix)
		if !strings.Contains(name, *only) {
			continue
		}
		i, err := one(name, f)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !i.Truth.Confirmed() && !*unconfirmed {
			left++
			continue
		}
		all = append(all, i)
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
	}
	if err != nil {
		return err
	}
	if t := score.Sum(all); float64(t.Right.N) < *least*float64(t.Right.Of) {
		return fmt.Errorf("right is %v, below %g", t.Right, *least)
	}
	return nil
}

// one scores the incident beside a truth file.
func one(name, truth string) (*score.Incident, error) {
	t, err := score.ReadTruth(truth)
	if err != nil {
		return nil, err
	}
	in, err := evidence.Open(strings.TrimSuffix(truth, score.Suffix)+".whylate", evidence.Options{})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	begun := time.Now()
	d, err := diagnose.Analyse(in, diagnose.AnalyseOptions{})
	if err != nil {
		return nil, err
	}
	took := time.Since(begun)
	trivial, err := baselines(in)
	if err != nil {
		return nil, err
	}
	return score.New(name, t, d, took.Seconds(), trivial), nil
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
