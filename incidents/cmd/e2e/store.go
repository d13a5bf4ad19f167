package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// store is a service of ours on pgx's pool and go-redis, with a PostgreSQL and a Redis
// of its own.
type store struct {
	database string // settings of the pool, as in its URL
	cache    string // of the Redis client
	env      []string
	args     []string
	script   string // one that another client makes Redis run again and again
	mix      []call
}

// A call is a request of an item.
type call struct {
	method, path string // with %d in place of the item
	weight       float64
}

// asked is how many items are asked for; half of them are cached.
const asked = 64

func (store) source() source { return source{folder: "store"} }

func (x store) start(ctx context.Context, rig rig) (_ *service, err error) {
	addrs, err := addresses(3)
	if err != nil {
		return nil, err
	}
	site, database, cache := "http://"+addrs[0], addrs[1], addrs[2]
	s := &service{pprof: site, targets: x.targets(site)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if err := s.postgres(ctx, rig, database); err != nil {
		return nil, err
	}
	if err := s.redis(ctx, rig, cache); err != nil {
		return nil, err
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "store"), append(slices.Clip(x.env), gomaxprocs), append(slices.Clip(x.args),
		"-listen", addrs[0], "-database", "postgres://postgres@"+database+"/postgres?sslmode=disable&"+x.database, "-cache", "redis://"+cache+"?"+x.cache)...)
	if err != nil {
		return nil, err
	}
	if err := s.program.ready(ctx, site+"/items/1"); err != nil || x.script == "" {
		return s, err
	}
	_, port, err := net.SplitHostPort(cache)
	if err != nil {
		return nil, err
	}
	_, err = s.start(rig.dir, "redis-cli", nil, "-p", port, "-r", "-1", "-i", scriptEvery, "EVAL", x.script, "0")
	return s, err
}

func (x store) targets(site string) (all []load.Target) {
	for _, c := range x.mix {
		n := 1
		if strings.Contains(c.path, "%d") {
			n = asked
		}
		for id := range n {
			url := site + strings.ReplaceAll(c.path, "%d", strconv.Itoa(id+1))
			all = append(all, load.Target{Method: c.method, URL: url, Weight: c.weight / float64(n)})
		}
	}
	return all
}

// postgres starts an empty PostgreSQL. It does not run as root, and so its files are
// where the user postgres can reach them.
func (s *service) postgres(ctx context.Context, rig rig, address string) error {
	bin, err := postgresBin()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "e2e-postgres-")
	if err != nil {
		return err
	}
	s.undo = append(s.undo, func() error { return os.RemoveAll(dir) })
	if err := own(dir, "postgres"); err != nil {
		return err
	}
	as := []string{"--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL", "--"}
	data := filepath.Join(dir, "data")
	cmd := exec.CommandContext(ctx, "setpriv", append(as, filepath.Join(bin, "initdb"), "-D", data, "--auth=trust", "--no-sync", "-U", "postgres")...)
	cmd.Dir, cmd.SysProcAttr = dir, endWithUs()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making a database: %w\n%s", err, out)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	// setpriv becomes the server. Nothing outlives it, and so nothing is synced.
	p, err := s.start(rig.dir, "setpriv", nil, append(as, filepath.Join(bin, "postgres"), "-D", data, "-F", "-h", host, "-p", port, "-k", "")...)
	if err != nil {
		return err
	}
	return p.until(ctx, func(ctx context.Context) error {
		return exec.CommandContext(ctx, filepath.Join(bin, "pg_isready"), "-q", "-h", host, "-p", port).Run()
	})
}

// postgresBin is the folder of the newest PostgreSQL that is installed, which Debian
// and others do not put on the path.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		return filepath.Dir(path), err
	}
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(all) == 0 {
		return "", errors.Join(errors.New("no PostgreSQL is installed"), err)
	}
	return slices.Max(all), nil
}

func own(path, name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	return os.Chown(path, uid, -1)
}

// redis starts an empty Redis that keeps nothing. It is no peer to be preferred: a
// script would take a CPU from the clients.
func (s *service) redis(ctx context.Context, rig rig, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	p, err := s.start(rig.dir, "redis-server", nil, "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", rig.dir)
	if err != nil {
		return err
	}
	return p.until(ctx, func(context.Context) error {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

const (
	// Both pools are larger than what is ever in use of them.
	largePool, largeCachePool = "pool_max_conns=16&pool_min_conns=16", "pool_size=16&min_idle_conns=16"
	// A count holds an item for 60 ms.
	countEvery = "700ms"
	// sum keeps Redis busy for about 40 ms, every so many seconds.
	sum, scriptEvery = "local x = 0 for i = 1, 4000000 do x = x + i end return x", "0.7"
	// similar items are looked up among that many, which take 55 MB.
	remembered = "400000"
)

var (
	items = []call{{"GET", "/items/%d", 1}}
	// past takes 10 ms in the database, without its CPU.
	past = []call{{"GET", "/items/%d", 0.6}, {"GET", "/items/%d/past", 0.4}}
	// popular is one of those that are cached; newest does not give its connection back.
	popular = []call{{"GET", "/items/2", 0.7}, {"GET", "/items/%d", 0.3}}
	newest  = []call{{"GET", "/items/2", 0.7}, {"GET", "/items/%d", 0.25}, {"GET", "/items/%d/newest", 0.05}}
	// sold are many of one item, the one that is counted.
	sold    = []call{{"GET", "/items/%d", 0.7}, {"POST", "/items/1/sold", 0.3}}
	similar = []call{{"GET", "/items/%d", 0.5}, {"GET", "/items/%d/similar", 0.5}}
)

func storeTrial(name string, with, without store, rise float64, p score.Planted) trial {
	return trial{
		name: name, program: with, rate: rate, lag: busyLag,
		planted: one(p, func(t *trial) { t.program = without }),
		rise:    rise, beside: contention,
	}
}

var storeTrials = []trial{
	{name: "store-steady", program: store{database: largePool, cache: largeCachePool, mix: items}, rate: rate, lag: calmLag, beside: contention},
	storeTrial("store-pool",
		store{database: "pool_max_conns=2&pool_min_conns=2", cache: largeCachePool, mix: past},
		store{database: largePool, cache: largeCachePool, mix: past},
		1.5, score.Planted{Cause: "pool-exhausted", Place: "main.(*store).past"}),
	storeTrial("store-rows",
		store{database: "pool_max_conns=4&pool_min_conns=4", cache: largeCachePool, args: []string{"-patience", "250ms"}, mix: newest},
		store{database: "pool_max_conns=4&pool_min_conns=4", cache: largeCachePool, args: []string{"-patience", "250ms"}, mix: popular},
		10, score.Planted{Cause: "pool-leak", Place: "main.(*store).newest"}),
	storeTrial("store-stock",
		store{database: largePool, cache: largeCachePool, args: []string{"-stocktaking", countEvery}, mix: sold},
		store{database: largePool, cache: largeCachePool, mix: sold},
		3, score.Planted{Cause: "slow-dependency", Place: "main.(*store).sold"}),
	storeTrial("store-script",
		store{database: largePool, cache: largeCachePool, mix: items, script: sum},
		store{database: largePool, cache: largeCachePool, mix: items},
		3, score.Planted{Cause: "slow-dependency", Place: "main.(*store).item"}),
	storeTrial("store-dial",
		store{database: "pool_max_conns=16&pool_max_conn_lifetime=1ms", cache: largeCachePool, mix: items},
		store{database: largePool, cache: largeCachePool, mix: items},
		3, score.Planted{Cause: "dial-per-request"}),
	storeTrial("store-limit",
		store{database: largePool, cache: largeCachePool, env: []string{"GOMEMLIMIT=40MiB"}, args: []string{"-memory", remembered}, mix: similar},
		store{database: largePool, cache: largeCachePool, args: []string{"-memory", remembered}, mix: similar},
		1.5, score.Planted{Cause: "memory-limit-thrash"}),
}
