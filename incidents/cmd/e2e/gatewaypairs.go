package main

import (
	"slices"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// gatewayPairs are look-alikes on one program: each is a gateway with something in its
// calls or beside them, and without it.
var gatewayPairs = []trial{
	beside("gateway-desk", "main.(*stock).settle", rate, "single-worker", nil, nil, "-desk", "-slow", "20ms", "-share", "0.015"),
	beside("gateway-book", "main.(*stock).settle", rate, "back-pressure", nil, nil, "-book", "-slow", "60ms", "-share", "0.005"),
	beside("gateway-plain", "main.(*stock).renew", rate, "lock-held-across-wait", nil, nil, "-plain", "-slow", slowTime.String(), "-refresh", (refreshRest * slowTime).String()),
	bursting(beside("gateway-permits", "", rate/2, "pool-exhausted", nil, nil, "-permits", "4"), 15),
	bursting(beside("gateway-hold", "main.(*side).turn", rate/2, "lock-convoy", nil, []string{"-hold", "500us"}, "-turns", "100"), 40),
	beside("gateway-rooms", "main.compute", rate, "goroutine-flood", []string{"netpoll-starvation"}, nil, "-rooms", "3000", "-beat", "400ms", "-each", "20us"),
	beside("gateway-plans", "main.compute", rate, "cpu-hog", []string{"netpoll-starvation"}, nil, "-jobs", "4", "-job", "20ms", "-pause", "100ms"),
	beside("gateway-list", "", rate, "stop-the-world", nil, []string{"-users", "20000"}, "-list", "300ms"),
	beside("gateway-bind", "", rate, "slow-to-stop", nil, []string{"-pages", "134217728", "-room"}, "-bind", "250ms"),
	beside("gateway-tidy", "", rate, "forced-gc", nil, []string{"-posts", "2000000"}, "-tidy", "350ms"),
	collecting(beside("gateway-load", "", rate, "gc-workers", []string{"gc-assist"}, []string{"-posts", "3000000"}, "-load", "1ms"), often),
	collecting(beside("gateway-matches", "", rate/4, "gc-assist", []string{"gc-workers"}, []string{"-posts", "700000"}, "-matches", "250000"), "GOGC=20"),
	{
		name: "gateway-log", program: gateway{inside: evenReplies, log: []string{"-pause", "100ms"}}, rate: rate, lag: busyLag, rise: 1.5, beside: contention,
		planted: one(score.Planted{Cause: "sync-logging", Place: "main.(*stock).tell"}, func(t *trial) { t.program = gateway{inside: evenReplies, log: []string{}} }),
	},
	{
		name: "gateway-polls", program: gateway{front: []string{"-jobs", "4", "-job", "20ms", "-pause", "100ms"}, peer: evenReplies}, rate: rate, lag: busyLag, rise: 1.5, beside: contention,
		planted: one(score.Planted{Cause: "netpoll-starvation", Accept: []string{"cpu-hog"}, Place: "main.compute"}, func(t *trial) { t.program = gateway{peer: evenReplies} }),
	},
	{
		name: "gateway-ps", program: gateway{inside: manyPosts, env: []string{often, "GOMAXPROCS=64"}}, rate: rate, lag: busyLag, rise: 1.5, beside: contention,
		planted: one(score.Planted{Cause: "gomaxprocs-over-quota"}, func(t *trial) { t.program = gateway{inside: manyPosts, env: []string{often}} }),
	},
	beside("gateway-days", "main.(*side).stamp", rate, "expensive-request", nil, []string{"-share", slowShare, "-stamps", "20000"}, "-stamps", "400000"),
	{
		name: "gateway-stamps", program: gateway{inside: stamping, noVDSO: true}, rate: rate, lag: busyLag, rise: 1.5, beside: contention,
		planted: one(score.Planted{Cause: "slow-clock", Place: "main.(*side).stamp"}, func(t *trial) { t.program = gateway{inside: stamping} }),
	},
	limited(trial{name: "gateway-quota", program: gateway{inside: evenReplies}, rate: rate, bursts: load.Bursts{Size: burstSize}, felt: 20 * time.Millisecond, rise: 1.5}),
	crowded(trial{name: "gateway-crowd", program: gateway{inside: evenReplies}, rate: rate, felt: 8 * time.Millisecond, rise: 1.5}),
}

// beside is a gateway with arguments that plant a cause, and with others always.
func beside(name, place string, rate float64, cause string, accept, always []string, args ...string) trial {
	inside := append(slices.Clip(evenReplies), always...)
	return trial{
		name: name, program: gateway{inside: append(slices.Clip(inside), args...)}, rate: rate, lag: busyLag, rise: 1.5, beside: contention,
		planted: one(score.Planted{Cause: cause, Accept: accept, Place: place}, func(t *trial) {
			g := t.program.(gateway)
			g.inside = inside
			t.program = g
		}),
	}
}

// bursting gives a trial bursts of requests beside its steady load.
func bursting(t trial, size int) trial {
	t.lag, t.bursts = burstLag, load.Bursts{Mean: burstEvery, Size: size}
	return t
}

// collecting gives the program of a trial a setting of the collector, with and without
// what is planted.
func collecting(t trial, gogc string) trial {
	g := t.program.(gateway)
	g.env = []string{gogc}
	t.program = g
	return t
}

// stamping are arguments of a gateway that reads the clock often in some calls.
var stamping = append(slices.Clip(evenReplies), "-share", slowShare, "-stamps", "30000")

// manyPosts are arguments of a gateway that keeps much memory and loads some, often a
// setting of its collector with which that is collected a few times a second.
var manyPosts = append(slices.Clip(evenReplies), "-posts", "3000000", "-load", "5ms")

const often = "GOGC=26"
