package main

import (
	"context"
	"slices"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// A trial is one program in one situation, and what is right to say about it.
type trial struct {
	name    string
	start   func(ctx context.Context, t trial, bin, dir string) (*service, error)
	program string      // its binary
	peer    []string    // arguments of the server that it calls
	inside  []string    // of the server that it calls in its own process
	fsync   []string    // arguments of slowfs, which its files are on; nil without it
	gateway bool        // etcd is called through its JSON gateway, not through gRPC
	large   string      // what takes time for large pictures in resize
	rate    float64     // requests per second
	bursts  load.Bursts // beside them
	// quota is the CPU quota of the program, as a multiple of what it uses without
	// one and without being recorded; 0 without one.
	quota float64
	// neighbours is how many threads of another process compute all the time.
	neighbours int
	// lag is what the 99th percentile of the clients' own lateness does not exceed
	// unless something that was not planted keeps the machine busy.
	lag time.Duration
	// felt is the least 99th percentile that the clients measure if what was
	// planted has an effect.
	felt time.Duration

	// noHost leaves the host's evidence out. Then the trace cannot tell causes on
	// the host from each other: a set of look-alikes with the planted one is right,
	// and so is no answer.
	noHost  bool
	verdict string
	// causes are right as the first finding, or as a member of a set of
	// look-alikes where nothing was found. also may stand beside them: on a
	// machine that all the processes share, the host's contention is real.
	causes, also []string
	// place is the function to blame, if it is one of the program's own.
	place string
}

// truth is what the file beside an incident says.
func (t trial) truth() *score.Truth {
	x := &score.Truth{Schema: score.Schema, Host: t.program, Case: t.name, Beside: t.also}
	if len(t.causes) > 0 {
		x.Causes = []score.Planted{{Cause: t.causes[0], Accept: t.causes[1:], Place: t.place}}
	}
	return x
}

const (
	// replyTime is what the upstream server always takes when nothing is planted,
	// slowTime what it takes for slowShare of the requests: more of them than the
	// 1.5 % that make a tail, so that the whole tail is slow.
	replyTime = time.Millisecond
	slowTime  = 40 * time.Millisecond
	slowShare = "0.02"
	// rate keeps two CPUs that are shared by all the processes mostly idle.
	rate = 250
	// putRate is the same for etcd, where every request is a write to the disk.
	putRate = 100
	// fsyncTime is how much longer fsyncShare of the fsyncs take. Of 100 writes in
	// a second two or three then meet one, and those that arrive meanwhile wait
	// behind it.
	fsyncTime  = 60 * time.Millisecond
	fsyncShare = "0.02"
	// refreshEvery is the mean time between refreshs of what every call reads: each
	// holds a lock for slowTime.
	refreshEvery = 1500 * time.Millisecond
	// A large picture, 4 % of all, takes about largeTime; so does its fsync.
	largeTime = 20 * time.Millisecond
	// A burst is as much work as 300 ms of the steady load. quota, a multiple of
	// the mean use, is used up by it at once, and leaves room to catch up: near or
	// above the mean, requests would pile up and the case be one of overload.
	burstSize, burstEvery = 75, 700 * time.Millisecond
	quota                 = 1.3
	// Measured on two CPUs: 0.2 to 0.7 ms with nothing planted, 2.4 to 4.3 ms
	// beside the goroutines that compute, 0.5 to 7.4 ms beside etcd, 4 to 20 ms
	// where a burst is due at once; 1.4 to 64 ms beside a compiler.
	calmLag, busyLag, burstLag = time.Millisecond, 8 * time.Millisecond, 30 * time.Millisecond
)

var trials = withoutHost([]trial{
	{
		name: "caddy-steady", start: startCaddy, program: "caddy", rate: rate, lag: calmLag,
		peer:    []string{"-reply", replyTime.String()},
		verdict: "healthy",
	},
	{
		name: "caddy-upstream", start: startCaddy, program: "caddy", rate: rate, lag: calmLag,
		peer:    []string{"-reply", replyTime.String(), "-slow", slowTime.String(), "-share", slowShare},
		verdict: "cause",
		causes:  []string{"slow-dependency"}, also: []string{"host-contention"},
	},
	{
		name: "caddy-jobs", start: startCaddy, program: "mirrored", rate: rate, lag: busyLag,
		peer:    []string{"-reply", replyTime.String()},
		verdict: "cause",
		causes:  []string{"cpu-hog", "netpoll-starvation"}, also: []string{"host-contention"},
	},
	{
		name: "caddy-quota", start: startCaddy, program: "caddy", rate: rate, lag: burstLag,
		peer:   []string{"-reply", replyTime.String()},
		bursts: load.Bursts{Mean: burstEvery, Size: burstSize},
		quota:  quota, felt: 20 * time.Millisecond,
		verdict: "cause",
		causes:  []string{"quota-too-low"}, also: []string{"host-contention"},
	},
	{
		name: "caddy-crowd", start: startCaddy, program: "caddy", rate: rate, lag: busyLag,
		peer:       []string{"-reply", replyTime.String()},
		neighbours: 8, felt: 8 * time.Millisecond,
		verdict: "cause",
		causes:  []string{"host-contention"},
	},
	{
		name: "etcd-disk", start: startEtcd, program: "etcd", rate: putRate, lag: busyLag,
		fsync: []string{"-delay", fsyncTime.String(), "-share", fsyncShare}, felt: fsyncTime / 2,
		verdict: "cause",
		causes:  []string{"slow-disk"}, also: []string{"host-contention"},
	},
	{
		name: "etcd-gateway", start: startEtcd, program: "etcd", gateway: true, rate: putRate, lag: busyLag,
		fsync: []string{"-delay", fsyncTime.String(), "-share", fsyncShare}, felt: fsyncTime / 2,
		verdict: "cause",
		causes:  []string{"slow-disk"}, also: []string{"host-contention"},
	},
	{
		name: "gateway-sleep", start: startGateway, program: "gateway", rate: rate, lag: calmLag,
		inside: []string{"-reply", replyTime.String(), "-slow", slowTime.String(), "-share", slowShare}, felt: slowTime / 2,
		verdict: "cause",
		causes:  []string{"timer-wait"}, also: []string{"host-contention"},
		place: "main.(*stock).Check",
	},
	{
		name: "gateway-lock", start: startGateway, program: "gateway", rate: rate, lag: calmLag,
		inside: []string{"-reply", replyTime.String(), "-slow", slowTime.String(), "-refresh", refreshEvery.String()}, felt: slowTime / 2,
		verdict: "cause",
		causes:  []string{"rwmutex-writer", "lock-held-across-wait"}, also: []string{"host-contention"},
		place: "main.(*stock).renew",
	},
	{
		name: "gateway-disk", start: startGateway, program: "gateway", rate: putRate, lag: busyLag,
		inside: []string{}, fsync: []string{"-delay", fsyncTime.String(), "-share", fsyncShare}, felt: fsyncTime / 2,
		verdict: "cause",
		causes:  []string{"slow-disk"}, also: []string{"host-contention"},
		place: "main.(*stock).note",
	},
	{
		name: "resize-steady", start: startResize, program: "resize", large: "none", rate: rate, lag: calmLag,
		verdict: "healthy",
	},
	{
		name: "resize-compute", start: startResize, program: "resize", large: "compute", rate: rate, lag: busyLag, felt: largeTime / 2,
		verdict: "cause",
		causes:  []string{"slow-cgo"}, also: []string{"host-contention"},
		place: "main.picture.size",
	},
	{
		name: "resize-wait", start: startResize, program: "resize", large: "wait", rate: rate, lag: busyLag, felt: largeTime / 2,
		verdict: "cause",
		causes:  []string{"slow-cgo"}, also: []string{"host-contention"},
		place: "main.picture.size",
	},
	{
		name: "resize-disk", start: startResize, program: "resize", large: "keep", rate: rate, lag: busyLag, felt: largeTime / 2,
		fsync:   []string{"-delay", largeTime.String(), "-share", "1"},
		verdict: "cause",
		causes:  []string{"slow-disk"}, also: []string{"host-contention"},
		place: "main.shelf.keep",
	},
	{
		name: "resize-pages", start: startResize, program: "resize", large: "look", rate: rate, lag: busyLag, felt: largeTime / 2,
		verdict: "cause",
		causes:  []string{"page-faults"}, also: []string{"host-contention"},
		place: "main.(*album).look",
	},
	{
		name: "gateway-remote", start: startGateway, program: "gateway", rate: rate, lag: calmLag,
		peer: []string{"-reply", replyTime.String(), "-slow", slowTime.String(), "-share", slowShare}, felt: slowTime / 2,
		verdict: "cause",
		causes:  []string{"slow-dependency"}, also: []string{"host-contention"},
		place: "main.(*front).ServeHTTP",
	},
	{
		name: "gateway-both", start: startGateway, program: "gateway", rate: rate, lag: calmLag,
		inside: []string{"-reply", replyTime.String()}, felt: slowTime / 2,
		peer:    []string{"-reply", replyTime.String(), "-slow", slowTime.String(), "-share", slowShare},
		verdict: "cause",
		causes:  []string{"slow-dependency"}, also: []string{"host-contention"},
		place: "main.(*front).ServeHTTP",
	},
}, "caddy-quota", "caddy-crowd", "etcd-disk", "etcd-gateway", "gateway-sleep", "gateway-disk", "gateway-both")

// withoutHost adds the named trials once more, without the host's evidence.
func withoutHost(trials []trial, names ...string) []trial {
	for _, t := range trials {
		if slices.Contains(names, t.name) {
			t.name, t.noHost = t.name+"-blind", true
			trials = append(trials, t)
		}
	}
	return trials
}
