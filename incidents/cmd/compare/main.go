// Command compare compares recordings of the benchmark with and without what was planted, as
// whylate compare does, and prints a table: whether it names the cause that appeared, and what
// else differs. Recordings of a program with nothing planted are compared with each other.
//
//	go run ./cmd/compare FOLDER
//
// FOLDER is what e2e.sh -keep filled: CASE-N.whylate with its truth beside it, and
// CASE-without-N.whylate.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/experiment"
	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/report/detail"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: compare FOLDER")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.whylate"))
	if err != nil {
		return err
	}
	fmt.Println("| A | B | planted | verdict | appeared or grew | p99 | what else differs |")
	fmt.Println("|---|---|---|---|---|---|---|")
	counts := map[string]int{}
	for _, b := range files {
		name := strings.TrimSuffix(filepath.Base(b), ".whylate")
		truth, err := score.ReadTruth(strings.TrimSuffix(b, ".whylate") + score.Suffix)
		if err != nil || !truth.Confirmed() || truth.Without() {
			continue
		}
		var a string
		if truth.Control() {
			a = filepath.Join(folder, truth.Case+"-1.whylate")
		} else {
			a = filepath.Join(folder, truth.Case+score.WithoutSuffix+"-1.whylate")
		}
		if _, err := os.Stat(a); err != nil || a == b {
			continue
		}
		c, err := compare(a, b)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		result := judge(truth, c)
		counts[result]++
		var worse, other []string
		for _, x := range c.Causes {
			if x.Became == experiment.Appeared || x.Became == experiment.More {
				worse = append(worse, x.Cause)
			}
		}
		for _, d := range c.Differences {
			other = append(other, fmt.Sprintf("%s: %s → %s", d.What, d.A, d.B))
		}
		planted := "nothing"
		if !truth.Control() {
			planted = truth.Causes[0].Cause
		}
		fmt.Printf("| %s | %s | %s | **%s**: %s | %s | %.1fx | %s |\n", strings.TrimSuffix(filepath.Base(a), ".whylate"), name, planted, result, c.Verdict,
			strings.Join(worse, ", "), c.Latency[2].Ratio, strings.ReplaceAll(strings.Join(other[:min(len(other), 3)], "; "), "|", "/"))
	}
	fmt.Println()
	for _, r := range []string{right, behind, wrong, unclear, silent, same, alarm} {
		fmt.Printf("%s: %d\n", r, counts[r])
	}
	return nil
}

// What a comparison is worth.
const (
	right   = "right"        // the first cause that appeared or grew is one of those planted
	behind  = "right behind" // another one is first
	wrong   = "wrong"
	unclear = "unclear"
	silent  = "silent" // nothing is said to have appeared or grown
	same    = "same"   // of two recordings with nothing planted
	alarm   = "false alarm"
)

func judge(t *score.Truth, c *experiment.Comparison) string {
	var worse []string
	for _, x := range c.Causes {
		if (x.Became == experiment.Appeared || x.Became == experiment.More) && !slices.Contains(t.Beside, x.Cause) {
			worse = append(worse, x.Cause)
		}
	}
	planted := func(id string) bool {
		return slices.ContainsFunc(t.Causes, func(p score.Planted) bool { return p.Cause == id || slices.Contains(p.Accept, id) })
	}
	switch {
	case t.Control() && len(worse) == 0:
		return same
	case t.Control():
		return alarm
	case len(worse) > 0 && planted(worse[0]):
		return right
	case slices.ContainsFunc(worse, planted):
		return behind
	case len(worse) > 0:
		return wrong
	case c.Verdict == experiment.VerdictUnclear:
		return unclear
	}
	return silent
}

func compare(a, b string) (*experiment.Comparison, error) {
	var both [2]experiment.Incident
	for i, path := range []string{a, b} {
		in, err := evidence.Open(path, evidence.Options{})
		if err != nil {
			return nil, err
		}
		defer in.Close()
		d, err := diagnose.Analyse(in, diagnose.AnalyseOptions{Detail: &detail.Options{}})
		if err != nil {
			return nil, err
		}
		both[i] = experiment.Incident{Name: filepath.Base(path), Manifest: &in.Manifest, Diagnosis: d}
	}
	return experiment.Compare(both[0], both[1]), nil
}
