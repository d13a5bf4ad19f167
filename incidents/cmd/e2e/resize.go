package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// resize is a service of ours that calls into C.
type resize struct {
	large string   // what takes time for large pictures
	fsync []string // arguments of slowfs, which its files are on; nil without it
}

func (resize) source() source { return source{folder: "resize", cgo: true} }

func (r resize) start(ctx context.Context, rig rig) (_ *service, err error) {
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
	disk, err := s.disk(ctx, rig, r.fsync)
	if err != nil {
		return nil, err
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "resize"), []string{gomaxprocs},
		"-listen", addrs[0], "-admin", addrs[1], "-large", r.large, "-files", disk)
	if err != nil {
		return nil, err
	}
	return s, s.program.ready(ctx, url)
}

// A large picture, 4 % of all, takes about largeTime; so does its fsync.
const largeTime = 20 * time.Millisecond

// smallOnly takes out whatever large pictures would do.
func smallOnly(t *trial) { t.program = resize{large: "none"} }

func resizeTrial(name, large, place, cause string, fsync ...string) trial {
	return trial{
		name: name, program: resize{large: large, fsync: fsync}, rate: rate, lag: busyLag, felt: largeTime / 2,
		planted: one(score.Planted{Cause: cause, Place: place}, smallOnly),
		rise:    3, beside: contention,
	}
}

var resizeTrials = []trial{
	{name: "resize-steady", program: resize{large: "none"}, rate: rate, lag: calmLag, beside: contention},
	resizeTrial("resize-compute", "compute", "main.picture.size", "slow-cgo"),
	resizeTrial("resize-wait", "wait", "main.picture.size", "slow-cgo"),
	resizeTrial("resize-disk", "keep", "main.shelf.keep", "slow-disk", "-delay", largeTime.String(), "-share", "1"),
	onDevice(resizeTrial("resize-pages", "look", "main.(*album).look", "page-faults")),
}

// onDevice puts the files of a trial where pages can come from.
func onDevice(t trial) trial {
	t.device = true
	return t
}
