package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// victoria is a single-node VictoriaMetrics, to which clients send samples while
// others ask for one of its shards.
type victoria struct {
	env []string // beside gomaxprocs
	// deep is how many queries there are, for 100 requests, for all that one instance
	// ever had, which takes one CPU some 45 ms.
	deep float64
}

func (victoria) source() source { return source{folder: "victoria", main: "tool"} }

const (
	// Each instance of each shard has a sample every sampleEvery for sampledFor.
	shards, instances       = 64, 20
	sampleEvery, sampledFor = 15 * time.Second, time.Hour
)

func (v victoria) start(ctx context.Context, rig rig) (_ *service, err error) {
	addrs, err := addresses(1)
	if err != nil {
		return nil, err
	}
	site := "http://" + addrs[0]
	s := &service{pprof: site}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "victoria-metrics"), append([]string{gomaxprocs}, v.env...),
		"-httpListenAddr", addrs[0], "-storageDataPath", filepath.Join(rig.dir, "data"), "-loggerLevel", "ERROR")
	if err != nil {
		return nil, err
	}
	if err := s.program.ready(ctx, site+"/health"); err != nil {
		return nil, err
	}
	until := time.Now().Truncate(time.Second)
	for _, t := range []load.Target{
		{Method: http.MethodPost, URL: site + "/api/v1/import", Body: history(until)},
		{URL: site + "/internal/force_flush"},
	} {
		if _, err := ask(ctx, http.DefaultClient, t); err != nil {
			return nil, err
		}
	}
	s.targets = v.requests(site, until)
	return s, s.answered(ctx)
}

// history is what happened until then, in the format of /api/v1/import.
func history(until time.Time) []byte {
	var b bytes.Buffer
	for shard := range shards {
		for instance := range instances {
			fmt.Fprintf(&b, `{"metric":{"__name__":"orders","shard":"%d","instance":"%d"},"values":[`, shard, instance)
			n := int(sampledFor / sampleEvery)
			for i := range n {
				fmt.Fprintf(&b, "%d,", i*(instance+1))
			}
			fmt.Fprintf(&b, `%d],"timestamps":[`, n*(instance+1))
			for i := range n {
				fmt.Fprintf(&b, "%d,", until.Add(-sampledFor+time.Duration(i)*sampleEvery).UnixMilli())
			}
			fmt.Fprintf(&b, "%d]}\n", until.UnixMilli())
		}
	}
	return b.Bytes()
}

// requests are what the clients ask: 50 times to take the samples of a shard, 50
// times for the orders of a shard, and deep queries.
func (v victoria) requests(site string, until time.Time) (all []load.Target) {
	ask := func(path string, values url.Values) load.Target {
		values.Set("nocache", "1")
		return load.Target{URL: site + path + "?" + values.Encode()}
	}
	for shard := range shards {
		var b bytes.Buffer
		for instance := range instances {
			fmt.Fprintf(&b, "stock{shard=\"%d\",instance=\"%d\"} %d\n", shard, instance, shard+instance)
		}
		take := load.Target{Method: http.MethodPost, URL: site + "/api/v1/import/prometheus", Body: b.Bytes()}
		one := ask("/api/v1/query", url.Values{
			"query": {fmt.Sprintf(`sum(rate(orders{shard="%d"}[5m]))`, shard)}, "time": {strconv.FormatInt(until.Unix(), 10)},
		})
		take.Weight, one.Weight = 50/float64(shards), 50/float64(shards)
		all = append(all, take, one)
	}
	if v.deep > 0 {
		deep := ask("/api/v1/query", url.Values{
			"query": {`count_over_time(quantile_over_time(0.9, orders{shard="1",instance="1"}[30m])[45m:100ms])`},
			"time":  {strconv.FormatInt(until.Unix(), 10)},
		})
		deep.Name, deep.Weight = "deep", v.deep
		all = append(all, deep)
	}
	return all
}

var victoriaTrials = []trial{
	{name: "victoria-steady", program: victoria{}, rate: victoriaRate, lag: busyLag, beside: contention},
	{
		name: "victoria-deep", program: victoria{deep: 2}, rate: victoriaRate, lag: busyLag,
		planted: one(score.Planted{Cause: "expensive-request"}, func(t *trial) { t.program = victoria{} }),
		rise:    1.5, beside: contention,
	},
	limited(trial{name: "victoria-quota", program: victoria{}, rate: victoriaRate, bursts: load.Bursts{Size: 40}, rise: 1.5}),
	crowded(trial{name: "victoria-crowd", program: victoria{}, rate: victoriaRate, rise: 1.5}),
	{
		name: "victoria-limit", program: victoria{env: []string{"GOMEMLIMIT=24MiB"}}, rate: victoriaRate, lag: busyLag,
		planted: one(score.Planted{Cause: "memory-limit-thrash"}, func(t *trial) { t.program = victoria{} }),
		rise:    3, beside: contention,
	},
}

const victoriaRate = 150
