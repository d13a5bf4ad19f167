package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// rqlite is one node, alone in its cluster, with a table of sales.
type rqlite struct {
	mix   []statement // what the clients ask, by weight
	index bool        // on what one of the statements looks for
	fsync []string    // arguments of slowfs, which its files are on; nil without it
}

// A statement is a kind of request. Its weight is relative to those of the others.
type statement struct {
	name, path, sql string
	weight          float64
}

const (
	sales, customers = 400_000, 1000
	// scanShare is the share of the requests that look for the sales of a customer.
	scanShare = 0.04
)

var (
	readSale  = statement{"read", "/db/query", "SELECT total, note FROM sale WHERE id = ?", 1}
	writeSale = statement{"write", "/db/execute", "UPDATE sale SET total = total + 1 WHERE id = ?", 1}
	sumSales  = statement{"sum", "/db/query", "SELECT count(*), sum(total) FROM sale WHERE customer = ?", scanShare}
)

func (s statement) share(weight float64) statement {
	s.weight = weight
	return s
}

func (rqlite) source() source { return source{folder: "rqlite", cgo: true} }

// start returns when the node leads its cluster and has its table.
func (r rqlite) start(ctx context.Context, rig rig) (_ *service, err error) {
	addrs, err := addresses(3)
	if err != nil {
		return nil, err
	}
	url := "http://" + addrs[0]
	s := &service{pprof: "http://" + addrs[2]}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	disk, err := s.disk(ctx, rig, r.fsync)
	if err != nil {
		return nil, err
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "rqlite"), []string{gomaxprocs},
		"-data", filepath.Join(disk, "node"), "-http-addr", addrs[0], "-raft-addr", addrs[1], "-admin", addrs[2])
	if err != nil {
		return nil, err
	}
	if err := s.program.ready(ctx, url+"/readyz"); err != nil {
		return nil, err
	}
	for _, sql := range r.schema() {
		if err := execute(ctx, url, sql); err != nil {
			return nil, err
		}
	}
	s.targets = r.targets(url)
	return s, s.answered(ctx)
}

// schema makes the table.
func (r rqlite) schema() []string {
	all := []string{
		"CREATE TABLE sale (id INTEGER PRIMARY KEY, customer INTEGER, total INTEGER, note TEXT)",
		fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "+
			"INSERT INTO sale SELECT i, i * 7919 %% %d, i * 31 %% 5000, 'delivered on day ' || i FROM n", sales, customers),
	}
	if r.index {
		all = append(all, "CREATE INDEX sale_customer ON sale (customer)")
	}
	return all
}

// targets asks every statement of the mix for a few different rows.
func (r rqlite) targets(url string) (all []load.Target) {
	const rows = 16
	for _, s := range r.mix {
		for i := range rows {
			body, err := json.Marshal([][]any{{s.sql, 1 + i*customers/rows}})
			if err != nil {
				panic(err) // of a string and a number
			}
			all = append(all, load.Target{
				Name: s.name + " " + strconv.Itoa(i), Method: "POST", URL: url + s.path, Weight: s.weight,
				Header: map[string][]string{"Content-Type": {"application/json"}}, Body: body,
			})
		}
	}
	return all
}

// execute changes the database of a node.
func execute(ctx context.Context, url, sql string) error {
	body, err := json.Marshal([]string{sql})
	if err != nil {
		return err
	}
	b, err := ask(ctx, http.DefaultClient, load.Target{
		Method: http.MethodPost, URL: url + "/db/execute", Body: body,
		Header: http.Header{"Content-Type": {"application/json"}},
	})
	if err != nil {
		return err
	}
	var answer struct {
		Error   string
		Results []struct{ Error string }
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	if len(answer.Results) != 1 || answer.Error != "" || answer.Results[0].Error != "" {
		return fmt.Errorf("%s: %+v", sql, answer)
	}
	return nil
}

var (
	readsAndWrites = []statement{readSale, writeSale}
	sums           = []statement{readSale.share(0.8), writeSale.share(0.2 - scanShare), sumSales}
)

var rqliteTrials = heldOut([]trial{
	{name: "rqlite-steady", program: rqlite{mix: readsAndWrites}, rate: putRate, lag: busyLag, beside: contention},
	{
		name: "rqlite-disk", program: rqlite{mix: []statement{writeSale}, fsync: lateSyncs}, rate: putRate / 2, lag: busyLag, felt: fsyncTime / 2,
		planted: one(score.Planted{Cause: "slow-disk"}, func(t *trial) { t.program = rqlite{mix: []statement{writeSale}, fsync: noLateSyncs} }),
		rise:    1.5, beside: contention, blind: true,
	},
	{
		name: "rqlite-sums", program: rqlite{mix: sums}, rate: putRate, lag: busyLag, felt: slowTime / 4,
		planted: one(score.Planted{Cause: "slow-cgo"}, func(t *trial) { t.program = rqlite{mix: sums, index: true} }),
		rise:    1.5, beside: contention,
	},
	limited(trial{name: "rqlite-quota", program: rqlite{mix: readsAndWrites}, rate: putRate, bursts: load.Bursts{Size: burstSize / 2}, felt: 20 * time.Millisecond, rise: 1.5, blind: true}),
	crowded(trial{name: "rqlite-crowd", program: rqlite{mix: readsAndWrites}, rate: putRate, felt: 8 * time.Millisecond, rise: 1.5, blind: true}),
})
