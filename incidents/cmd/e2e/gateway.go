package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/internal/novdso"
	"github.com/whylate/whylate/load"
)

// gateway is a service of ours that serves HTTP and makes gRPC calls: to itself, to
// another process of its kind, or one after the other to both.
type gateway struct {
	inside []string // arguments of the server in its own process; nil without one
	peer   []string // of the other one; nil without one
	fsync  []string // arguments of slowfs, which its journal is on; nil without a journal
	env    []string
	front  []string // arguments of the process itself
	log    []string // arguments of drain, which reads its log; nil without a log
	noVDSO bool     // to read the clock is a system call
}

func (gateway) source() source { return source{folder: "gateway"} }

func (g gateway) start(ctx context.Context, rig rig) (_ *service, err error) {
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
	var called []string
	args := append([]string{"-listen", site}, g.front...)
	if g.inside != nil {
		called = append(called, near)
		args = append(append(args, "-serve", near), g.inside...)
	}
	if g.fsync != nil {
		disk, err := s.disk(ctx, rig, g.fsync)
		if err != nil {
			return nil, err
		}
		args = append(args, "-journal", filepath.Join(disk, "journal"))
	}
	if g.log != nil {
		pipe, err := s.logPipe(ctx, rig, g.log)
		if err != nil {
			return nil, err
		}
		args = append(args, "-log", pipe)
	}
	if g.peer != nil {
		called = append(called, far)
		s.peer, err = s.start(rig.dir, filepath.Join(rig.bin, "gateway"), []string{"GOMAXPROCS=1"}, append(slices.Clip(g.peer), "-serve", far)...)
		if err != nil {
			return nil, err
		}
	}
	run := (*exec.Cmd).Start
	if g.noVDSO {
		run = novdso.Start
	}
	s.program, err = s.startBy(run, rig.dir, filepath.Join(rig.bin, "gateway"), append([]string{gomaxprocs}, g.env...), append(args, "-call", strings.Join(called, ","))...)
	if err != nil {
		return nil, err
	}
	return s, s.program.ready(ctx, url+"/")
}

// The mean time between refreshs of what every call reads is refreshRest times the
// time for which each holds a lock, so that they make the tail late whatever their
// length; but refreshMost at most, or a recording would have too few.
const (
	refreshRest = 37
	refreshMost = 3 * time.Second
)

// refreshed are the arguments of a server whose calls all read what is renewed for
// that long now and then.
func refreshed(d time.Duration) []string {
	return append(slices.Clip(evenReplies), "-slow", d.String(), "-refresh", min(refreshRest*d, refreshMost).String())
}

var gatewayTrials = slices.Concat(
	graded(func(l level) trial {
		return trial{
			name: "gateway-sleep", program: gateway{inside: replies(l.slow, slowShare)}, rate: rate, lag: calmLag, beside: contention, blind: l.suffix == "",
			planted: one(score.Planted{Cause: "timer-wait", Place: "main.(*stock).Check"}, func(t *trial) { t.program = gateway{inside: evenReplies} }),
		}
	}),
	graded(func(l level) trial {
		return trial{
			name: "gateway-lock", program: gateway{inside: refreshed(l.slow)}, rate: rate, lag: calmLag, beside: contention,
			planted: one(score.Planted{Cause: "rwmutex-writer", Accept: []string{"lock-held-across-wait"}, Place: "main.(*stock).renew"},
				func(t *trial) { t.program = gateway{inside: evenReplies} }),
		}
	}),
	graded(func(l level) trial {
		return trial{
			name: "gateway-remote", program: gateway{peer: replies(l.slow, slowShare)}, rate: rate, lag: calmLag, beside: contention,
			planted: one(score.Planted{Cause: "slow-dependency", Place: "main.(*front).ServeHTTP"}, func(t *trial) { t.program = gateway{peer: evenReplies} }),
		}
	}),
	[]trial{
		{name: "gateway-steady", program: gateway{inside: evenReplies, peer: evenReplies}, rate: rate, lag: calmLag, beside: contention},
		{name: "gateway-gc", program: gateway{inside: evenReplies, env: frequentGC}, rate: rate, lag: calmLag, beside: contention},
		{
			name: "gateway-disk", program: gateway{inside: []string{}, fsync: lateSyncs}, rate: putRate, lag: busyLag, felt: fsyncTime / 2,
			planted: one(score.Planted{Cause: "slow-disk", Place: "main.(*stock).note"}, func(t *trial) { t.program = gateway{inside: []string{}, fsync: noLateSyncs} }),
			rise:    3, beside: contention, blind: true,
		},
		{
			name: "gateway-both", program: gateway{inside: evenReplies, peer: lateReplies}, rate: rate, lag: calmLag, felt: slowTime / 2,
			planted: one(score.Planted{Cause: "slow-dependency", Place: "main.(*front).ServeHTTP"},
				func(t *trial) { t.program = gateway{inside: evenReplies, peer: evenReplies} }),
			rise: 3, beside: contention, blind: true,
		},
		{
			name: "gateway-lock-gc", program: gateway{inside: refreshed(slowTime), env: frequentGC}, rate: rate, lag: calmLag, felt: slowTime / 2,
			planted: one(score.Planted{Cause: "rwmutex-writer", Accept: []string{"lock-held-across-wait"}, Place: "main.(*stock).renew"},
				func(t *trial) { t.program = gateway{inside: evenReplies, env: frequentGC} }),
			rise: 3, beside: contention,
		},
		{
			name: "gateway-disk-sleep", program: gateway{inside: replies(4*slowTime, half), fsync: []string{"-delay", fsyncTime.String(), "-share", half}},
			rate: putRate, lag: busyLag, felt: slowTime / 2,
			planted: []planted{
				sleeping(),
				{
					score.Planted{Cause: "slow-disk", Place: "main.(*stock).note"},
					func(t *trial) {
						g := t.program.(gateway)
						g.fsync = noLateSyncs
						t.program = g
					},
				},
			},
			rise: 3, beside: contention,
		},
		sleepAndRemote("gateway-halves", slowTime, slowTime),
		sleepAndRemote("gateway-parts", 4*slowTime, slowTime),
	},
	gatewayPairs,
)

// sleepAndRemote is late for two reasons in different requests: in its own process
// that long, and in the other one.
func sleepAndRemote(name string, own, other time.Duration) trial {
	return trial{
		name: name, program: gateway{inside: replies(own, half), peer: replies(other, half)}, rate: rate, lag: calmLag, felt: other / 2,
		planted: []planted{
			sleeping(),
			{
				score.Planted{Cause: "slow-dependency", Place: "main.(*front).ServeHTTP"},
				func(t *trial) {
					g := t.program.(gateway)
					g.peer = evenReplies
					t.program = g
				},
			},
		},
		rise: 1.5, beside: contention,
	}
}

// sleeping is the part of a composite that is late in its own process.
func sleeping() planted {
	return planted{
		score.Planted{Cause: "timer-wait", Place: "main.(*stock).Check"},
		func(t *trial) {
			g := t.program.(gateway)
			g.inside = evenReplies
			t.program = g
		},
	}
}
