package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/whylate/whylate/demo"
	"github.com/whylate/whylate/diagnose"
)

// attempts is how often a run is tried during which the hypervisor takes more than
// diagnose.StolenNoted: what was planted is not all that made requests late then,
// nor is a control one.
const attempts = 5

const (
	tableHeading = "%-21s %-22s %-5s %-34s %6s %14s %8s %8s %8s %6s %8s %7s %5s  %s\n"
	tableLine    = "%-21s %-22s %-5s %-34s %6s %14s %8.1f %8s %8d %6d %8.1f %6.1f%% %5.1f  %s %s  %s\n"
)

// tally counts the runs of a table by how they ended.
type tally struct {
	right, wrong int
	busy, spite  int // attempts that did not count, because they were disturbed; those that were right in spite of it
	lost         int // runs of which no attempt counted
}

func (t tally) err() error {
	switch {
	case t.wrong > 0:
		return fmt.Errorf("%d of %d verdicts are not the planted ones", t.wrong, t.right+t.wrong)
	case t.lost > 0:
		return fmt.Errorf("%d runs are worth nothing: in each of %d attempts the hypervisor took more than %.1f %% of the machine", t.lost, attempts, 100*diagnose.StolenNoted)
	}
	return nil
}

// table runs scenarios, each times, and prints a line per attempt.
func (d *demonstration) table(ctx context.Context, scenarios []demo.Scenario, times int) error {
	folder := d.save
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "whylate-"); err != nil {
			return fmt.Errorf("make room for the recordings: %w", err)
		}
		defer os.RemoveAll(folder)
	} else if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder for the recordings: %w", err)
	}
	var sum tally
	fmt.Fprintf(d.out, tableHeading, "scenario", "planted", "right", "found", "share", "interval", "p99", "without", "requests", "sent", "client", "stolen", "s", "by URL")
	for _, s := range scenarios {
		for run := range times {
			err := d.undisturbed(ctx, s, filepath.Join(folder, fmt.Sprintf("%s-%d.whylate", s.Name, run+1)), &sum)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, demo.ErrNotPossible) {
				fmt.Fprintf(d.out, "%-21s %-22s %-5s %v\n", s.Name, planted(s), "-", err)
				break
			}
			if err != nil {
				sum.wrong++
				fmt.Fprintf(d.out, "%-21s %-22s %-5s %v\n", s.Name, planted(s), "no", err)
			}
		}
	}
	fmt.Fprintf(d.out, "%d right, %d not, %d not run in peace; %d attempts in which the hypervisor took more than %.1f %% of the machine did not count (%d of them right)\n",
		sum.right, sum.wrong, sum.lost, sum.busy, 100*diagnose.StolenNoted, sum.spite)
	return sum.err()
}

// undisturbed runs a scenario until the hypervisor leaves it its CPUs, prints
// every attempt, and counts the last. It keeps the last recording only, if any.
func (d *demonstration) undisturbed(ctx context.Context, s demo.Scenario, file string, sum *tally) error {
	if d.save == "" {
		defer os.Remove(file)
	}
	for range attempts {
		diag, res, err := d.diagnose(ctx, s, file)
		if err != nil {
			return err
		}
		remote, err := diagnose.Run(ctx, file, diagnose.Options{Analyse: diagnose.AnalyseOptions{NoHost: true}})
		if err != nil {
			return err
		}
		ok, why := judge(s, diag)
		busy := diag.StolenShare > diagnose.StolenNoted
		mark := "yes"
		switch {
		case busy:
			mark = "busy"
			sum.busy++
			if ok {
				sum.spite++
			}
		case ok:
			sum.right++
		default:
			mark = "NO"
			sum.wrong++
		}
		share, interval, without := first(diag)
		fmt.Fprintf(d.out, tableLine, s.Name, planted(s), mark, found(diag), share, interval, float64(diag.Requests.P99NS)/1e6, without,
			diag.Requests.Count, res.sentIn(diag), float64(res.seen.Latency.Quantile(0.99))/1e6, 100*diag.StolenShare, res.took.Seconds(), grade(s, remote), found(remote), why)
		if !busy {
			return nil
		}
	}
	sum.lost++
	return nil
}
