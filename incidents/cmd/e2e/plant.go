package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	// measure is how long the CPU time of a program is measured: a fifth of a CPU
	// is 40 ticks of /proc then.
	measure = 2 * time.Second
	// settle is how long a program is left alone after something was planted on
	// its host: 20 periods of a quota.
	settle = 2 * time.Second
)

// plant makes the host of a service that is under load what the trial says.
func (s *service) plant(ctx context.Context, t trial, rig rig) error {
	if t.quota == 0 && t.neighbours == 0 {
		return nil
	}
	if t.quota > 0 {
		if err := s.limit(ctx, t.quota); err != nil {
			return fmt.Errorf("giving %s a CPU quota: %w", s.program.name, err)
		}
	}
	if t.neighbours > 0 {
		var err error
		s.neighbours, err = s.start(rig.dir, filepath.Join(rig.bin, "neighbour"), nil, "-threads", strconv.Itoa(t.neighbours))
		if err != nil {
			return err
		}
	}
	return pass(ctx, settle)
}

// preferOthers lets the clients and the program's own server run before all that
// has a normal priority: what is planted is to be felt by the program, and by the
// clients through it. Our main thread stays as it is, because it starts the
// processes, and they would inherit.
func (s *service) preferOthers() error {
	self := os.Getpid() // also the id of the main thread
	s.undo = append(s.undo, func() error { return normal(self) })
	if err := prefer(self, self); err != nil || s.peer == nil {
		return err
	}
	return prefer(s.peer.cmd.Process.Pid, 0)
}

// limit puts the program into a cgroup that may use that multiple of the CPU time
// that it uses now.
func (s *service) limit(ctx context.Context, quota float64) error {
	pid := s.program.cmd.Process.Pid
	before, err := cpuTime(pid)
	if err != nil {
		return err
	}
	if err := pass(ctx, measure); err != nil {
		return err
	}
	after, err := cpuTime(pid)
	if err != nil {
		return err
	}
	s.group, err = newCgroup(quota * (after - before).Seconds() / measure.Seconds())
	if err != nil {
		return err
	}
	s.undo = append(s.undo, s.group.remove)
	return s.group.add(pid)
}

// pass waits.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// relieve ends the neighbours: an analysis is none of their business.
func (s *service) relieve() {
	if s.neighbours != nil {
		s.neighbours.stop()
	}
}
