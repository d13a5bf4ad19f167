package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/whylate/whylate/load"
)

// startGateway runs a gateway from bin that serves the calls that it makes itself,
// makes them to another process, or one after the other to both, and returns when
// a request goes all the way through.
func startGateway(ctx context.Context, t trial, bin, dir string) (_ *service, err error) {
	addrs, err := addresses(3)
	if err != nil {
		return nil, err
	}
	site, near, far := addrs[0], addrs[1], addrs[2]
	url := "http://" + site
	s := &service{targets: []load.Target{{URL: url + "/"}}, pprof: url}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	disk := dir
	if t.fsync != nil {
		if disk, err = s.disk(ctx, t, bin, dir); err != nil {
			return nil, err
		}
	}
	var called []string
	args := []string{"-listen", site}
	if t.inside != nil {
		called = append(called, near)
		args = append(append(args, "-serve", near), t.inside...)
		if t.fsync != nil {
			args = append(args, "-journal", filepath.Join(disk, "journal"))
		}
	}
	if t.peer != nil {
		called = append(called, far)
		s.peer, err = s.start(dir, filepath.Join(bin, t.program), []string{"GOMAXPROCS=1"}, append(t.peer, "-serve", far)...)
		if err != nil {
			return nil, err
		}
	}
	s.program, err = s.start(dir, filepath.Join(bin, t.program), []string{gomaxprocs}, append(args, "-call", strings.Join(called, ","))...)
	if err != nil {
		return nil, err
	}
	return s, s.program.ready(ctx, url+"/")
}
