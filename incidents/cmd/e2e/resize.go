package main

import (
	"context"
	"path/filepath"

	"github.com/whylate/whylate/load"
)

// startResize runs a service of ours that calls into C, on a folder in dir, through
// a file system with slow fsyncs if the trial has one.
func startResize(ctx context.Context, t trial, bin, dir string) (_ *service, err error) {
	addrs, err := addresses(2)
	if err != nil {
		return nil, err
	}
	url := "http://" + addrs[0] + "/"
	s := &service{targets: []load.Target{{URL: url}}, pprof: "http://" + addrs[1]}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	disk, err := s.disk(ctx, t, bin, dir)
	if err != nil {
		return nil, err
	}
	s.program, err = s.start(dir, filepath.Join(bin, t.program), []string{gomaxprocs},
		"-listen", addrs[0], "-admin", addrs[1], "-large", t.large, "-files", disk)
	if err != nil {
		return nil, err
	}
	return s, s.program.ready(ctx, url)
}
