package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

const (
	// topic is what the clients publish to, and what is consumed.
	topic = "orders"
	// newTopic is one that is new with every message.
	newTopic = "orders-"
)

// nsqd is a message broker to which a service publishes one message for each request.
type nsqd struct {
	args   []string // beside the addresses
	topics float64  // share of the messages that have a topic of their own
	kept   int      // messages of another topic, which nobody takes, in memory
	sweeps bool     // its memory is given back now and then, as its API offers
	fsync  []string // arguments of slowfs, which its files are on; nil without it
}

func (nsqd) source() source { return source{folder: "nsqd"} }

func (n nsqd) start(ctx context.Context, rig rig) (_ *service, err error) {
	addrs, err := addresses(4)
	if err != nil {
		return nil, err
	}
	broker, api, admin, site := addrs[0], "http://"+addrs[1], addrs[2], addrs[3]
	url := "http://" + site + "/"
	s := &service{pprof: "http://" + admin}
	s.targets = []load.Target{{URL: url + topic, Weight: 1 - n.topics}}
	if n.topics > 0 {
		s.targets = append(s.targets, load.Target{URL: url + newTopic, Weight: n.topics})
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	disk, err := s.disk(ctx, rig, n.fsync)
	if err != nil {
		return nil, err
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "nsqd"), []string{gomaxprocs}, append([]string{
		"--tcp-address=" + broker, "--http-address=" + addrs[1], "--admin=" + admin, "--broadcast-address=127.0.0.1", "--data-path=" + disk,
	}, n.args...)...)
	if err != nil {
		return nil, err
	}
	if err := s.program.ready(ctx, api+"/ping"); err != nil {
		return nil, err
	}
	if err := n.keep(ctx, api); err != nil {
		return nil, err
	}
	args := []string{"-nsqd", broker, "-consume", topic, "-listen", site}
	if n.sweeps {
		args = append(args, "-post", api+"/debug/freememory", "-every", sweepEvery.String())
	}
	front, err := s.start(rig.dir, filepath.Join(rig.bin, "nsqfront"), []string{"GOMAXPROCS=1"}, args...)
	if err != nil {
		return nil, err
	}
	return s, front.ready(ctx, url+topic)
}

// keep publishes what nobody takes.
func (n nsqd) keep(ctx context.Context, api string) error {
	const batch = 10_000
	for sent := 0; sent < n.kept; sent += batch {
		lines := strings.Repeat("an order that nobody takes\n", min(batch, n.kept-sent))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, api+"/mpub?topic=archive", bytes.NewReader([]byte(lines)))
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("publishing: %s", resp.Status)
		}
	}
	return nil
}

// sweepEvery is the mean time between two sweeps of the memory.
const sweepEvery = time.Second

var (
	// onDisk makes every message a write and a sync of a file, one after the other.
	onDisk = []string{"--mem-queue-size=0", "--sync-every=1"}
	// allSyncsLate is a slow disk.
	allSyncsLate = []string{"-delay", "30ms", "-share", "1"}
	inMemory     = []string{"--mem-queue-size=2000000"}
)

var nsqdTrials = []trial{
	{name: "nsqd-steady", program: nsqd{}, rate: rate, lag: calmLag, beside: contention},
	{
		name: "nsqd-disk", program: nsqd{args: onDisk, fsync: lateSyncs}, rate: putRate, lag: busyLag, felt: fsyncTime / 2,
		planted: one(score.Planted{Cause: "slow-disk", Place: "github.com/nsqio/go-diskqueue.(*diskQueue).sync"},
			func(t *trial) { t.program = nsqd{args: onDisk, fsync: noLateSyncs} }),
		rise: 3, beside: contention, blind: true,
	},
	{
		name: "nsqd-topics", program: nsqd{topics: 0.01, fsync: allSyncsLate}, rate: rate, lag: busyLag, felt: 10 * time.Millisecond,
		planted: one(score.Planted{Cause: "rwmutex-writer", Accept: []string{"lock-held-across-wait"}, Place: "github.com/nsqio/nsq/nsqd.(*NSQD).Notify"},
			func(t *trial) { t.program = nsqd{fsync: allSyncsLate} }),
		rise: 3, beside: contention,
	},
	{
		name: "nsqd-sweeps", program: nsqd{kept: 400_000, args: inMemory, sweeps: true}, rate: rate, lag: busyLag,
		planted: one(score.Planted{Cause: "forced-gc"}, func(t *trial) { t.program = nsqd{kept: 400_000, args: inMemory} }),
		rise:    1.5, beside: contention,
	},
	limited(trial{name: "nsqd-quota", program: nsqd{}, rate: rate, bursts: load.Bursts{Size: burstSize}, felt: 20 * time.Millisecond, rise: 1.5, blind: true}),
	crowded(trial{name: "nsqd-crowd", program: nsqd{}, rate: rate, felt: 8 * time.Millisecond, rise: 3, blind: true}),
}
