package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// redisConf is that of one server without replicas.
const redisConf = `bind 127.0.0.1
port %s
databases 1
appendonly yes
appendfilename appendonly.aof
appendfsync %s
`

// A command is one that the clients send for a share of the requests.
type command struct {
	args  string // separated by slashes
	share float64
}

// godis is a Redis server behind a service that sends it one command for each
// request.
type godis struct {
	env    []string  // of its process
	stored int       // how many articles and tags it has when it starts
	other  []command // what the clients send beside GET
	always bool      // every write is synced, not once a second
	fsync  []string  // arguments of slowfs, which its files are on; nil without it
}

func (godis) source() source { return source{folder: "godis"} }

func (g godis) start(ctx context.Context, rig rig) (_ *service, err error) {
	addrs, err := addresses(3)
	if err != nil {
		return nil, err
	}
	store, admin, site := addrs[0], addrs[1], addrs[2]
	s := &service{pprof: "http://" + admin}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	disk, err := s.disk(ctx, rig, g.fsync)
	if err != nil {
		return nil, err
	}
	if err := g.fill(filepath.Join(disk, "appendonly.aof")); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(store)
	if err != nil {
		return nil, err
	}
	sync := "everysec"
	if g.always {
		sync = "always"
	}
	conf := filepath.Join(disk, "redis.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, redisConf, port, sync), 0o600); err != nil {
		return nil, err
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "godis"), append([]string{gomaxprocs, "CONFIG=" + conf, "ADMIN=" + admin}, g.env...))
	if err != nil {
		return nil, err
	}
	front, err := s.start(rig.dir, filepath.Join(rig.bin, "redisfront"), []string{"GOMAXPROCS=1"}, "-redis", store, "-listen", site)
	if err != nil {
		return nil, err
	}
	url, rest := "http://"+site+"/", 1.0
	for _, c := range g.other {
		s.targets = append(s.targets, load.Target{URL: url + c.args, Weight: c.share})
		rest -= c.share
	}
	for i := range keys {
		s.targets = append(s.targets, load.Target{URL: fmt.Sprintf("%sGET/article:%d", url, i), Weight: rest / keys})
	}
	return s, front.ready(ctx, url+"GET/article:0")
}

// fill writes the file that the server reads when it starts: articles, and a tag
// for every second one in each of two sets.
func (g godis) fill(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for i := range g.stored {
		resp(w, "SET", fmt.Sprint("article:", i), string(make([]byte, valueSize)))
		resp(w, "SADD", fmt.Sprint("tags:", i%2), fmt.Sprint("article:", i))
	}
	if err := w.Flush(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// resp writes a command as Redis's protocol has it. An error is that of w's Flush.
func resp(w *bufio.Writer, args ...string) {
	fmt.Fprintf(w, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(w, "$%d\r\n%s\r\n", len(a), a)
	}
}

const fewArticles, manyArticles = 1000, 100_000

var godisTrials = []trial{
	{name: "godis-steady", program: godis{stored: manyArticles, other: writes}, rate: rate, lag: calmLag, beside: contention},
	{
		name: "godis-keys", program: godis{stored: manyArticles, other: []command{{"KEYS/*:draft", 0.02}}}, rate: putRate, lag: busyLag,
		planted: one(score.Planted{Cause: "expensive-request", Place: "github.com/hdt3213/godis/database.execKeys"},
			func(t *trial) { t.program = godis{stored: manyArticles} }),
		rise: 3, beside: contention,
	},
	{
		name: "godis-sync", program: godis{stored: fewArticles, other: writes, always: true, fsync: lateSyncs}, rate: rate, lag: busyLag, felt: fsyncTime / 2,
		planted: one(score.Planted{Cause: "slow-disk", Place: "github.com/hdt3213/godis/aof.(*Persister).writeAof"},
			func(t *trial) {
				t.program = godis{stored: fewArticles, other: writes, always: true, fsync: noLateSyncs}
			}),
		rise: 3, beside: contention, blind: true,
	},
	{
		name: "godis-union", program: godis{stored: manyArticles, other: append(lookups, command{"SUNIONSTORE/tags:all/tags:0/tags:1", 0.004})}, rate: rate, lag: busyLag,
		planted: one(score.Planted{Cause: "rwmutex-writer", Accept: []string{"lock-held-across-work"}, Place: "github.com/hdt3213/godis/database.execSUnionStore"},
			func(t *trial) { t.program = godis{stored: manyArticles, other: lookups} }),
		rise: 3, beside: append([]string{"expensive-request"}, contention...), // the union itself
	},
	{
		name: "godis-limit", program: godis{stored: manyArticles, other: writes, env: []string{"GOMEMLIMIT=100MiB"}}, rate: rate, lag: busyLag,
		planted: one(score.Planted{Cause: "memory-limit-thrash"}, func(t *trial) { t.program = godis{stored: manyArticles, other: writes} }),
		rise:    1.5, beside: contention,
	},
	limited(trial{name: "godis-quota", program: godis{stored: fewArticles, other: writes}, rate: rate, bursts: load.Bursts{Size: burstSize}, felt: 20 * time.Millisecond, rise: 1.5, blind: true}),
	crowded(trial{name: "godis-crowd", program: godis{stored: fewArticles, other: writes}, rate: rate, felt: 8 * time.Millisecond, rise: 3, blind: true}),
}

var (
	writes  = []command{{"SET/article:1/new", 0.1}, {"SET/article:2/new", 0.1}}
	lookups = []command{{"SISMEMBER/tags:all/article:7", 0.5}}
)
