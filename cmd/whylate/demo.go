package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/demo"
	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/load"
	"github.com/whylate/whylate/report"
)

func newDemo() *cobra.Command {
	var all, list bool
	var duration time.Duration
	var output, save string
	var times int
	cmd := &cobra.Command{
		Use:   "demo [NAME...]",
		Short: "Diagnose a planted incident, end to end, with nothing to install",
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, s := range demo.All() {
				names = append(names, s.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		Long: `Start a small service with one planted cause of lateness, put it under load, and
diagnose it. The verdict is checked against what was planted: exit code 3 (or that
of the planted verdict) if it is right, 1 if it is not. The recording stays in a
temporary folder, unless --save says where; the last line is the command that shows it
in a browser.

With --all, several names or --times the answer is a table, a line per run: what was
planted and found, and what the same recording says without the host's evidence, as
if only the URL were known ("by URL": right; honest if it does not decide and the
truth is among the look-alikes; silent; missed if it says healthy; WRONG). A run
during which the hypervisor took more than 1.5 % of the machine ("stolen") is another
incident: it is printed as busy, whatever was found, does not count and is tried
again, 5 attempts in all. The exit code is 0 if every run counts and its verdict is
the planted one.`,
		RunE: func(cmd *cobra.Command, a []string) error {
			out := cmd.OutOrStdout()
			if err := errors.Join(checkDuration(duration), checkOutput(output, "text", "json")); err != nil {
				return err
			}
			switch {
			case all && len(a) > 0:
				return usageError{errors.New("--all runs every scenario: it takes no NAME")}
			case times < 1:
				return usageError{errors.New("--times must be at least 1")}
			}
			if list {
				var lines strings.Builder
				for _, s := range demo.All() {
					fmt.Fprintf(&lines, "%-21s %-24s %s\n", s.Name, planted(s), s.Title)
				}
				_, err := io.WriteString(out, lines.String())
				return err
			}
			d := demonstration{out: out, progress: newProgress(cmd.ErrOrStderr()), duration: duration, output: output, save: save}
			scenarios, err := chosen(all, a)
			if err != nil {
				return err
			}
			if all || len(scenarios) > 1 || times > 1 {
				if output != "text" {
					return usageError{errors.New("a table of demos is text: --output json is for one run")}
				}
				return d.table(cmd.Context(), scenarios, times)
			}
			return d.one(cmd.Context(), scenarios[0])
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&all, "all", false, "run every scenario and print a table of verdicts")
	fs.IntVar(&times, "times", 1, "how often to run each")
	fs.BoolVar(&list, "list", false, "list the scenarios")
	fs.DurationVar(&duration, "for", 8*time.Second, "how long to record")
	fs.StringVarP(&output, "output", "o", "text", "text or json")
	fs.StringVar(&save, "save", "", "keep the recording in this `file`; of several runs: folder")
	return cmd
}

// chosen returns the scenarios of the given names, the first one without any.
func chosen(all bool, names []string) ([]demo.Scenario, error) {
	if all {
		return demo.All(), nil
	}
	if len(names) == 0 {
		return []demo.Scenario{demo.Default()}, nil
	}
	var out []demo.Scenario
	for _, name := range names {
		s, ok := demo.Lookup(name)
		if !ok {
			var known []string
			for _, s := range demo.All() {
				known = append(known, s.Name)
			}
			return nil, usageError{fmt.Errorf("there is no demo %q%s\nwhylate demo --list", name, didYouMean(name, known))}
		}
		out = append(out, s)
	}
	return out, nil
}

func planted(s demo.Scenario) string {
	if s.Cause == "" {
		return strings.Join(s.Verdicts, " or ")
	}
	return s.Cause
}

// demonstration runs scenarios.
type demonstration struct {
	out      io.Writer
	progress *progress
	duration time.Duration
	output   string
	save     string
}

// outcome is what the clients saw of a run, and how long the diagnosis took from
// its first request to its sentence.
type outcome struct {
	seen load.Result
	took time.Duration
}

// sentIn is how many requests the clients sent per length of the recording.
func (o outcome) sentIn(d *report.Diagnosis) int {
	if o.seen.Elapsed <= 0 {
		return 0
	}
	return int(float64(o.seen.Responses) * float64(d.CountedNS()) / float64(o.seen.Elapsed))
}

// warmUp is how long a service runs before it is recorded.
const warmUp = time.Second

// diagnose plants a scenario and diagnoses it; save is the file to keep, or empty.
func (d *demonstration) diagnose(ctx context.Context, s demo.Scenario, save string) (*report.Diagnosis, outcome, error) {
	r, err := demo.Run(ctx, s, demo.RunOptions{Duration: d.duration + 12*time.Second})
	if err != nil {
		return nil, outcome{}, err
	}
	defer r.Stop()
	select {
	case <-time.After(warmUp):
	case <-ctx.Done():
		return nil, outcome{}, ctx.Err()
	}
	begun := time.Now()
	diag, err := diagnose.Run(ctx, r.PprofURL, diagnose.Options{
		RecordOptions: diagnose.RecordOptions{Capture: pprofhttp.Options{For: d.duration, Progress: d.progress.show}},
		Fixed:         true, Save: save,
		Analysing: func() { d.progress.say("analysing") },
		Analyse:   diagnose.AnalyseOptions{Check: true},
	})
	took := time.Since(begun)
	if err != nil {
		return nil, outcome{}, err
	}
	r.Stop()
	seen, _ := r.Load() // stopped early on purpose: what was measured until then counts
	return diag, outcome{seen: seen, took: took}, nil
}

func (d *demonstration) one(ctx context.Context, s demo.Scenario) error {
	d.progress.say(fmt.Sprintf("demo %s: %s", s.Name, s.Title))
	save := d.save
	if save == "" { // whoever wants to see more of it need not make it again
		dir, err := os.MkdirTemp("", "whylate-")
		if err != nil {
			return fmt.Errorf("make room for the recording: %w", err)
		}
		save = filepath.Join(dir, s.Name+".whylate")
	}
	diag, res, err := d.diagnose(ctx, s, save)
	if err != nil {
		if d.save == "" {
			return errors.Join(err, os.RemoveAll(filepath.Dir(save)))
		}
		return err
	}
	if err := print(d.out, diag, d.output, ""); err != nil {
		return err
	}
	ok, why := judge(s, diag)
	d.progress.say(fmt.Sprintf("\nplanted: %s; found: %s; the clients saw p99 %.1f ms; %.1f s from start to sentence", planted(s), found(diag), float64(res.seen.Latency.Quantile(0.99))/1e6, res.took.Seconds()))
	d.progress.say(fmt.Sprintf("next: the same in a browser, request by request: %s show %s", os.Args[0], save))
	if !ok {
		return fmt.Errorf("the verdict is not the planted one: %s", why)
	}
	return verdictExit(diag)
}

// grade says how a diagnosis does that lacks the host's evidence: it need not
// decide, but it must not be wrong.
func grade(s demo.Scenario, d *report.Diagnosis) string {
	right := append([]string{s.Cause}, s.Accept...)
	switch {
	case len(d.Findings) > 0 && slices.Contains(right, d.Findings[0].Cause):
		return "right"
	case len(d.Findings) > 0:
		return "WRONG"
	case s.Cause == "" && d.Verdict == report.VerdictHealthy:
		return "right"
	case s.Cause != "" && slices.ContainsFunc(d.ConsistentWith, func(c cause.Consistent) bool { return slices.Contains(c.Causes, s.Cause) }):
		return "honest"
	case s.Cause != "" && d.Verdict == report.VerdictHealthy:
		return "missed"
	}
	return "silent"
}

// found names what a diagnosis found.
func found(d *report.Diagnosis) string {
	switch {
	case len(d.Findings) > 0:
		return d.Verdict + ":" + d.Findings[0].Cause + level(d.Findings[0])
	case len(d.ConsistentWith) > 0:
		return d.Verdict + ":{" + d.ConsistentWith[0].Causes[0] + ",...}"
	case d.Reason != "":
		return d.Verdict + ":" + d.Reason
	}
	return d.Verdict
}

func level(f cause.Finding) string {
	if f.Contrast == cause.LevelContrast {
		return " (level)"
	}
	return ""
}

// first returns the share, interval and counterfactual of the first finding.
func first(d *report.Diagnosis) (share, interval, without string) {
	share, interval, without = "-", "-", "-"
	if len(d.Findings) == 0 {
		if len(d.ConsistentWith) > 0 {
			share = fmt.Sprintf("%.0f%%", 100*d.ConsistentWith[0].Share)
		}
		return
	}
	f := d.Findings[0]
	share, without = fmt.Sprintf("%.0f%%", 100*f.Share), fmt.Sprintf("%.1f", float64(f.P99WithoutNS)/1e6)
	if f.ShareLow != nil {
		interval = fmt.Sprintf("[%.0f..%.0f]", 100**f.ShareLow, 100**f.ShareHigh)
	}
	return
}

// judge compares a diagnosis with what was planted.
func judge(s demo.Scenario, d *report.Diagnosis) (ok bool, why string) {
	if !slices.Contains(s.Verdicts, d.Verdict) {
		return false, fmt.Sprintf("verdict %s, not %s", d.Verdict, strings.Join(s.Verdicts, " or "))
	}
	right := append([]string{s.Cause}, s.Accept...)
	for i, f := range d.Findings {
		if s.Cause == "" && i == 0 && !slices.Contains(s.Accept, f.Cause) {
			return false, "named " + f.Cause
		}
		if i == 0 && s.Cause != "" {
			if f.Contrast != s.Contrast && s.Contrast != "" {
				return false, "contrast " + f.Contrast
			}
			return slices.Contains(right, f.Cause), "named " + f.Cause
		}
	}
	if s.Cause == "" {
		return true, ""
	}
	for _, c := range d.ConsistentWith {
		if slices.Contains(c.Causes, s.Cause) {
			return true, "look-alikes"
		}
	}
	return false, "the planted cause is not among what was found"
}
