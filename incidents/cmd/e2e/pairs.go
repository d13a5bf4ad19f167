package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// latencies are what the clients of one run saw, in ns.
type latencies struct {
	p99, tail, typical float64
}

// tailPart is the slowest part of the requests that make a tail, as in a diagnosis
// of many requests.
const tailPart = 0.015

func latenciesOf(d load.Distribution) latencies {
	ns := d.Sorted()
	n := float64(len(ns))
	return latencies{
		p99:     float64(d.Quantile(0.99)),
		tail:    mean(ns[int((1-tailPart)*n):]),
		typical: mean(ns[int(blame.TypicalLow*n):int(blame.TypicalHigh*n)]),
	}
}

func mean(ns []int64) float64 {
	sum := 0.0
	for _, x := range ns {
		sum += float64(x)
	}
	return sum / float64(max(1, len(ns)))
}

// confirm measures each trial with all that is planted, without it, and, where that
// is more than one cause, without each. A trial is confirmed if the 99th percentile
// rises as much as it says in every pair; then its truth file is written.
func (s *settings) confirm(ctx context.Context, out io.Writer, some []trial) error {
	fmt.Fprintf(out, "%-20s %9s %9s %7s %7s  %s\n", "case", "with, ms", "without", "times", "at least", "removed")
	var failed int
	for _, t := range some {
		truth, err := s.removals(ctx, out, t)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && truth.Severity() < t.rise {
			err = fmt.Errorf("the 99th percentile does not rise %v times in every pair", t.rise)
		}
		if err != nil {
			fmt.Fprintf(out, "%-20s is not confirmed: %v\n", t.name, err)
			failed++
			continue
		}
		if s.truth != "" {
			if err := truth.Write(s.truthFile(t.name)); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases are not confirmed", failed, len(some))
	}
	return nil
}

// removals runs the pairs of a trial and adds what they show to its truth.
func (s *settings) removals(ctx context.Context, out io.Writer, t trial) (*score.Truth, error) {
	truth := t.truth()
	for i := range s.pairs {
		with, err := s.measured(ctx, t, i)
		if err != nil {
			return nil, err
		}
		without, err := s.measured(ctx, t.calm(), i)
		if err != nil {
			return nil, err
		}
		truth.Pairs = append(truth.Pairs, score.Pair{WithNS: int64(with.p99), WithoutNS: int64(without.p99)})
		removed := ""
		for k := range t.planted {
			less := without
			if len(t.planted) > 1 {
				if less, err = s.measured(ctx, t.less(k), i); err != nil {
					return nil, err
				}
			}
			share := (with.tail - less.tail) / (with.tail - with.typical)
			truth.Causes[k].Share += share / float64(s.pairs)
			removed += fmt.Sprintf(" %s %.0f%%", t.planted[k].Cause, 100*share)
		}
		fmt.Fprintf(out, "%-20s %9.1f %9.1f %7.1f %7.1f %s\n", t.name, with.p99/1e6, without.p99/1e6, with.p99/without.p99, t.rise, removed)
	}
	return truth, nil
}

// measured puts a program under load, without recording it. A run whose clients were
// late themselves, or whose machine a hypervisor took, is repeated, as often as one
// that is diagnosed. The last one counts where nothing is planted: what disturbs it
// makes it later, and the rise smaller.
func (s *settings) measured(ctx context.Context, t trial, i int) (l latencies, err error) {
	var busy string
	for range attempts {
		err := s.under(ctx, t, uint64(i), func(svc *service, c *clients) error {
			if _, err := c.result(); err != nil {
				return err
			}
			before, w := cpus(), newWitness()
			offered := svc.load(t, uint64(i), s.duration)
			offered.Done = w.done
			seen, err := load.Run(ctx, offered)
			taken := cpus().stolenSince(before)
			w.stop()
			if err != nil {
				return err
			}
			if err := answered(seen); err != nil {
				return err
			}
			late, stolen := w.disturbed()
			l, busy = latenciesOf(seen.Latency), t.busy(seen.SendLag.Quantile(0.99), late, taken, stolen)
			return nil
		})
		if err != nil || busy == "" {
			return l, err
		}
	}
	if len(t.planted) == 0 {
		return l, nil
	}
	return l, errors.New(busy + ": other work keeps the machine busy")
}
