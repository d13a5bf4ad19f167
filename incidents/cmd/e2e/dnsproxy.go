package main

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// dnsproxyPprof is where dnsproxy has /debug/pprof, always.
const dnsproxyPprof = "http://localhost:6060"

// dnsproxy forwards the queries of a service, one for each request, to a name server.
type dnsproxy struct {
	network string   // of the queries: udp or tcp
	peer    []string // arguments of the name server
	args    []string // beside the addresses
	drain   []string // arguments of what reads its log, of every query; nil without a log
}

func (dnsproxy) source() source {
	return source{folder: "dnsproxy", main: "tool"}
}

func (d dnsproxy) start(ctx context.Context, rig rig) (_ *service, err error) {
	addrs, err := addresses(3)
	if err != nil {
		return nil, err
	}
	proxy, upstream, site := addrs[0], addrs[1], addrs[2]
	url := "http://" + site + "/"
	s := &service{pprof: dnsproxyPprof}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	for i := range keys {
		s.targets = append(s.targets, load.Target{URL: url + "device-" + strconv.Itoa(i) + ".example"})
	}
	s.peer, err = s.start(rig.dir, filepath.Join(rig.bin, "dnspeer"), []string{"GOMAXPROCS=1"}, append(slices.Clip(d.peer), "-listen", upstream)...)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(proxy)
	if err != nil {
		return nil, err
	}
	args := append([]string{"--listen=127.0.0.1", "--port=" + port, "--upstream=" + upstream, "--pprof"}, d.args...)
	if d.drain != nil {
		pipe, err := s.logPipe(ctx, rig, d.drain)
		if err != nil {
			return nil, err
		}
		args = append(args, "--verbose", "--output="+pipe)
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "dnsproxy"), []string{gomaxprocs}, args...)
	if err != nil {
		return nil, err
	}
	if err := s.program.ready(ctx, s.pprof+"/debug/pprof/cmdline"); err != nil {
		return nil, err
	}
	front, err := s.start(rig.dir, filepath.Join(rig.bin, "dnsfront"), []string{"GOMAXPROCS=1"}, "-network", d.network, "-dns", proxy, "-listen", site)
	if err != nil {
		return nil, err
	}
	return s, front.ready(ctx, url+"example")
}

// pauseTime is for how long a log is not read, pauseEvery the mean time between two
// such pauses: 4 % of the requests come meanwhile.
const pauseTime, pauseEvery = 60 * time.Millisecond, 1500 * time.Millisecond

var (
	busyReader = []string{"-pause", pauseTime.String(), "-every", pauseEvery.String()}
	idleReader = []string{"-every", pauseEvery.String()}
	// fourTimes is a name server that always takes a few ms.
	fourTimes = []string{"-reply", (4 * replyTime).String()}
)

var dnsproxyTrials = slices.Concat(graded(func(l level) trial {
	return trial{
		name: "dnsproxy-upstream", program: dnsproxy{network: "udp", peer: replies(l.slow, slowShare)}, rate: rate, lag: busyLag, beside: contention,
		planted: one(score.Planted{Cause: "slow-dependency"}, func(t *trial) { t.program = dnsproxy{network: "udp", peer: evenReplies} }),
	}
}), []trial{
	{name: "dnsproxy-steady", program: dnsproxy{network: "udp", peer: evenReplies}, rate: rate, lag: calmLag, beside: contention},
	{name: "dnsproxy-tcp-steady", program: dnsproxy{network: "tcp", peer: evenReplies}, rate: rate, lag: calmLag, beside: contention},
	{
		name: "dnsproxy-tcp-upstream", program: dnsproxy{network: "tcp", peer: lateReplies}, rate: rate, lag: busyLag, felt: slowTime / 2,
		planted: one(score.Planted{Cause: "slow-dependency"}, func(t *trial) { t.program = dnsproxy{network: "tcp", peer: evenReplies} }),
		rise:    3, beside: contention,
	},
	{
		name: "dnsproxy-log", program: dnsproxy{network: "udp", peer: evenReplies, drain: busyReader}, rate: rate, lag: busyLag, felt: pauseTime / 3,
		planted: one(score.Planted{Cause: "sync-logging"}, func(t *trial) { t.program = dnsproxy{network: "udp", peer: evenReplies, drain: idleReader} }),
		rise:    3, beside: contention,
	},
	{
		name: "dnsproxy-permits", rate: putRate, lag: burstLag, felt: slowTime / 2,
		bursts:  load.Bursts{Mean: burstEvery, Size: burstSize},
		program: dnsproxy{network: "udp", peer: fourTimes, args: []string{"--max-go-routines=4"}},
		planted: one(score.Planted{Cause: "pool-exhausted"}, func(t *trial) { t.program = dnsproxy{network: "udp", peer: fourTimes} }),
		rise:    1.5, beside: contention,
	},
	limited(trial{name: "dnsproxy-quota", program: dnsproxy{network: "udp", peer: evenReplies}, rate: rate, bursts: load.Bursts{Size: burstSize}, felt: 20 * time.Millisecond, rise: 1.5, blind: true}),
	crowded(trial{name: "dnsproxy-crowd", program: dnsproxy{network: "udp", peer: evenReplies}, rate: rate, felt: 8 * time.Millisecond, rise: 3, blind: true}),
})
