package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/whylate/whylate/incidents/score"
)

// confirm runs each trial with all that is planted, without it, and, where that is
// more than one cause, without each, and diagnoses every run. A trial is confirmed if
// the 99th percentile rises as much as it says in every pair; then its truth file is
// written, and copied to its incidents.
func (s *settings) confirm(ctx context.Context, out io.Writer, some []trial) error {
	var sum tally
	var failed int
	for _, t := range some {
		err := s.removals(ctx, out, t, &sum)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(out, "%-20s is not confirmed: %v\n", t.name, err)
			failed++
		}
	}
	fmt.Fprintln(out, sum)
	if failed > 0 {
		return fmt.Errorf("%d of %d cases are not confirmed", failed, len(some))
	}
	return sum.err(s.least)
}

// removals runs the pairs of a trial.
func (s *settings) removals(ctx context.Context, out io.Writer, t trial, sum *tally) error {
	truth := t.truth()
	var incidents []*outcome
	for i := range s.pairs {
		with, err := s.undisturbed(ctx, out, t, i, sum)
		if err != nil {
			return err
		}
		if with == nil {
			return fmt.Errorf("%d attempts were disturbed", attempts)
		}
		incidents = append(incidents, with)
		// What disturbs this run makes it later, and the rise smaller: it is repeated only
		// where that may be why it is too small, and if it always is, the last one counts.
		var without *outcome
		for n := 0; n < attempts && (without == nil || without.void == "refused" || without.void != "" && with.client.p99 < t.rise*without.client.p99); n++ {
			if n > 0 {
				awaitCalm(ctx)
			}
			if without, err = s.once(ctx, out, t.calm(), i, sum); err != nil {
				return err
			}
		}
		if without.void == "refused" || without.client.p99 <= 0 {
			return errors.New("without what is planted the program refuses the requests")
		}
		truth.Pairs = append(truth.Pairs, score.Pair{WithNS: int64(with.client.p99), WithoutNS: int64(without.client.p99)})
		removed := ""
		for k := range t.planted {
			less := without
			if len(t.planted) > 1 {
				if less, err = s.undisturbed(ctx, out, t.less(k), i, sum); err != nil {
					return err
				}
				if less == nil {
					return fmt.Errorf("%d attempts were disturbed", attempts)
				}
			}
			share := (with.client.tail - less.client.tail) / (with.client.tail - with.client.typical)
			truth.Causes[k].Share += share / float64(s.pairs)
			removed += fmt.Sprintf(" %s %.0f%%", t.planted[k].Cause, 100*share)
		}
		fmt.Fprintf(out, "%-20s p99 %.1f ms with, %.1f without: %.1f times, at least %.1f is needed; removed%s\n",
			t.name, with.client.p99/1e6, without.client.p99/1e6, with.client.p99/without.client.p99, t.rise, removed)
	}
	if truth.Severity() < t.rise {
		return fmt.Errorf("the 99th percentile does not rise %v times in every pair", t.rise)
	}
	if s.truth != "" {
		if err := truth.Write(s.truthFile(t.name)); err != nil {
			return err
		}
	}
	for _, o := range incidents {
		if err := s.label(o, t); err != nil {
			return err
		}
	}
	return nil
}
