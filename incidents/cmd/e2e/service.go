package main

import (
	"errors"
	"slices"

	"github.com/whylate/whylate/load"
)

// gomaxprocs makes the programs behave alike on small and large machines.
const gomaxprocs = "GOMAXPROCS=2"

// A service is a program under test with all that belongs to it.
type service struct {
	program    *process
	peer       *process      // the server that it calls; nil if it calls none
	neighbours *process      // nil without any
	group      *cgroup       // with a quota; nil without one
	targets    []load.Target // what the clients ask
	pprof      string        // base URL of /debug/pprof
	undo       []func() error
}

// start runs a process that stop ends.
func (s *service) start(dir, path string, env []string, args ...string) (*process, error) {
	p, err := start(dir, path, env, args...)
	if err == nil {
		s.undo = append(s.undo, func() error { p.stop(); return nil })
	}
	return p, err
}

// stop ends and removes what belongs to the service, the last first, and returns
// what could not be removed.
func (s *service) stop() error {
	var errs []error
	for _, undo := range slices.Backward(s.undo) {
		errs = append(errs, undo())
	}
	s.undo = nil
	return errors.Join(errs...)
}
