package main

import (
	"context"
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
		without, err := s.bare(ctx, out, t.calm(), i, sum, func(o *outcome) bool { return with.client.p99 >= t.rise*o.client.p99 })
		if err != nil {
			return err
		}
		truth.Pairs = append(truth.Pairs, score.Pair{WithNS: int64(with.client.p99), WithoutNS: int64(without.client.p99)})
		removed := ""
		for k := range t.planted {
			less := without
			if len(t.planted) > 1 {
				if less, err = s.bare(ctx, out, t.less(k), i, sum, func(*outcome) bool { return false }); err != nil {
					return err
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

// bare runs a trial without some of what was planted. What disturbs such a run makes it
// later, and what is removed less: one that is enough is not repeated, and of runs that
// are all disturbed the one with the least tail is nearest to the truth.
func (s *settings) bare(ctx context.Context, out io.Writer, t trial, i int, sum *tally, enough func(*outcome) bool) (best *outcome, err error) {
	for n := range attempts {
		if n > 0 {
			awaitCalm(ctx)
		}
		o, err := s.once(ctx, out, t, i, sum)
		if err != nil {
			return nil, err
		}
		switch {
		case o.void == "refused" || o.client.p99 <= 0:
			continue
		case o.void != "busy" || enough(o):
			return o, nil
		case best == nil || o.client.tail < best.client.tail:
			best = o
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%s: the program refuses the requests", t.name)
	}
	return best, nil
}
