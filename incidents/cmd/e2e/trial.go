package main

import (
	"context"
	"slices"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
	"github.com/whylate/whylate/report"
)

// A trial is one program in one situation, and what is right to say about it.
type trial struct {
	name string
	program
	// heldOut marks programs that no rule is tuned to: they are diagnosed only when
	// asked for.
	heldOut bool
	rate    float64     // requests per second
	bursts  load.Bursts // beside them
	// quota is the CPU quota of the program, as a multiple of what it uses without
	// one and without being recorded; 0 without one.
	quota float64
	// device says that its files are on a disk. Else they are in memory, where that is
	// possible: the disk is one more that all share, and is slow now and then by itself.
	device bool
	// neighbours is how many threads of another process compute all the time.
	neighbours int
	// lag is what the 99th percentile of the clients' own lateness does not exceed
	// unless something that was not planted keeps the machine busy.
	lag time.Duration
	// felt is the least 99th percentile that the clients measure if what was
	// planted has an effect.
	felt time.Duration

	// planted is what makes requests late, the largest first; a control has nothing.
	planted []planted
	// rise is how many times the 99th percentile without all that is planted the one
	// with it is, at least; one of severities.
	rise float64
	// beside may be named behind what was planted: on a machine that all the
	// processes share, the host's contention is real.
	beside []string
	// blind asks for the same once more without the host's evidence.
	blind bool
	// noHost leaves the host's evidence out. Then the trace cannot tell causes on
	// the host from each other: any set of look-alikes will do, and no answer.
	noHost bool
}

// severities are the levels of trial.rise.
var severities = []float64{1.5, 3, 10}

// A planted cause, and how to do without it.
type planted struct {
	score.Planted
	// without changes the situation, and nothing that it shares with another trial,
	// to the one without the cause.
	without func(*trial)
}

// A program is one under test, with its settings.
type program interface {
	// source says how it is built.
	source() source
	// start runs it with all that it calls and returns when a request goes all the
	// way through.
	start(ctx context.Context, rig rig) (*service, error)
}

// A rig is where a program runs.
type rig struct {
	bin string // folder of the programs
	dir string // folder of its files, empty
}

// calm is the trial without anything planted: a control.
func (t trial) calm() trial {
	for _, p := range t.planted {
		p.without(&t)
	}
	t.name, t.planted, t.felt, t.rise = t.name+score.WithoutSuffix, nil, 0, 0
	return t
}

// less is the trial without one of what is planted.
func (t trial) less(i int) trial {
	t.planted[i].without(&t)
	t.name += "-less-" + t.planted[i].Cause
	t.planted = slices.Delete(slices.Clone(t.planted), i, i+1)
	t.felt = 0
	return t
}

// truth is what the file beside an incident says.
func (t trial) truth() *score.Truth {
	x := &score.Truth{Schema: score.Schema, Host: t.source().name(), Case: t.name, HeldOut: t.heldOut, Beside: t.beside}
	for _, p := range t.planted {
		x.Causes = append(x.Causes, p.Planted)
	}
	return x
}

// judge scores a diagnosis, and says whether it is good enough.
func (t trial) judge(d *report.Diagnosis) (r score.Result, good bool) {
	r = score.Of(t.truth(), d)
	switch {
	case t.noHost:
		return r, r != score.Wrong && d.Verdict != "healthy"
	case len(t.planted) == 0:
		return r, r == score.Right
	}
	return r, r == score.Right || r == score.Honest
}

// all are the trials. Where blind says so, one is there twice.
var all = blinded(slices.Concat(
	caddyTrials,
	etcdTrials,
	gatewayTrials,
	resizeTrials,
	victoriaTrials,
	versityTrials,
	gotifyTrials,
	godisTrials,
	dnsproxyTrials,
	nsqdTrials,
	prometheusTrials,
	storeTrials,
	rqliteTrials,
	traefikTrials,
))

func blinded(trials []trial) []trial {
	for _, t := range trials {
		if t.blind {
			t.name, t.noHost = t.name+"-blind", true
			trials = append(trials, t)
		}
	}
	return trials
}

// heldOut keeps trials from being diagnosed by accident.
func heldOut(trials []trial) []trial {
	for i := range trials {
		trials[i].heldOut = true
	}
	return trials
}

// contention is real on a machine that all the processes share.
var contention = []string{"host-contention"}

// one is a single planted cause.
func one(p score.Planted, without func(*trial)) []planted { return []planted{{p, without}} }

const (
	// replyTime is what a peer always takes when nothing is planted, slowTime what it
	// takes for slowShare of the requests: more of them than the 1.5 % that make a
	// tail, so that the whole tail is slow.
	replyTime = time.Millisecond
	slowTime  = 40 * time.Millisecond
	slowShare = "0.02"
	// rate keeps two CPUs that are shared by all the processes mostly idle.
	rate = 250
	// putRate is the same where every request is a write to the disk.
	putRate = 100
	// fsyncTime is how much longer fsyncShare of the fsyncs take. Of 100 writes in
	// a second two or three then meet one, and those that arrive meanwhile wait
	// behind it.
	fsyncTime  = 60 * time.Millisecond
	fsyncShare = "0.02"
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

// A level of severity: how much later a share of the requests is for it, and how
// many times the 99th percentile rises by that, at least.
type level struct {
	suffix string
	slow   time.Duration
	rise   float64
}

// levels are the severities of the cases that have several. Measured on two CPUs with
// nothing planted, the 99th percentile is 3 to 5 ms.
var levels = []level{{"-mild", 8 * time.Millisecond, 1.5}, {"", slowTime, 3}, {"-grave", 4 * slowTime, 10}}

// graded is a trial at each of the levels.
func graded(at func(level) trial) (trials []trial) {
	for _, l := range levels {
		t := at(l)
		t.name, t.rise, t.felt = t.name+l.suffix, l.rise, l.slow/2
		trials = append(trials, t)
	}
	return trials
}

// crowded puts a trial beside another process with eight threads that compute all the
// time.
func crowded(t trial) trial {
	t.lag, t.neighbours = busyLag, 8
	t.planted = one(score.Planted{Cause: "host-contention"}, func(t *trial) { t.neighbours = 0 })
	return t
}

// limited gives a trial under bursts of the size that it has a CPU quota that each
// uses up.
func limited(t trial) trial {
	t.lag, t.bursts.Mean, t.quota, t.beside = burstLag, burstEvery, quota, contention
	t.planted = one(score.Planted{Cause: "quota-too-low"}, func(t *trial) { t.quota = 0 })
	return t
}

// half is a share of the requests so small that two such make a tail together: then
// what either adds to the tail is what its removal takes.
const half = "0.0075"

// replies are arguments of a server that is late for a share of the requests.
func replies(slow time.Duration, share string) []string {
	return append(slices.Clip(evenReplies), "-slow", slow.String(), "-share", share)
}

var (
	evenReplies = []string{"-reply", replyTime.String()}
	lateReplies = replies(slowTime, slowShare)
	lateSyncs   = []string{"-delay", fsyncTime.String(), "-share", fsyncShare}
	noLateSyncs = []string{"-share", "0"} // through the same file system
)
