package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
	return s.startBy((*exec.Cmd).Start, dir, path, env, args...)
}

// startBy is start, with what starts the command.
func (s *service) startBy(run func(*exec.Cmd) error, dir, path string, env []string, args ...string) (*process, error) {
	p, err := start(run, dir, path, env, args...)
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

// answered asks for each of the targets once. The clients take an error for a
// response, as fast as it is.
func (s *service) answered(ctx context.Context) error {
	for _, t := range s.targets {
		if _, err := ask(ctx, http.DefaultClient, t); err != nil {
			return err
		}
	}
	return nil
}

// disk returns the folder for the program's files: below a slowfs with those
// arguments, if there are any.
func (s *service) disk(ctx context.Context, rig rig, fsync []string) (string, error) {
	files := filepath.Join(rig.dir, "files")
	if err := os.Mkdir(files, 0o700); err != nil || fsync == nil {
		return files, err
	}
	const proof = "mounted"
	if err := os.WriteFile(filepath.Join(files, proof), nil, 0o600); err != nil {
		return "", err
	}
	mount := filepath.Join(rig.dir, "mount")
	if err := os.Mkdir(mount, 0o700); err != nil {
		return "", err
	}
	fs, err := s.start(rig.dir, filepath.Join(rig.bin, "slowfs"), nil, append(slices.Clip(fsync), files, mount)...)
	if err != nil {
		return "", err
	}
	return mount, fs.until(ctx, func(context.Context) error {
		_, err := os.Stat(filepath.Join(mount, proof))
		return err
	})
}

// logPipe returns a named pipe for the program's log, which a drain with those
// arguments reads.
func (s *service) logPipe(ctx context.Context, rig rig, args []string) (string, error) {
	pipe := filepath.Join(rig.dir, "log")
	reader, err := s.start(rig.dir, filepath.Join(rig.bin, "drain"), nil, append(slices.Clip(args), pipe)...)
	if err != nil {
		return "", err
	}
	return pipe, reader.until(ctx, func(context.Context) error {
		_, err := os.Stat(pipe)
		return err
	})
}
