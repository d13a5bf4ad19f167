package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// gotify is a Gotify server with an SQLite database: applications send messages,
// and clients read the newest.
type gotify struct {
	fsync  []string // arguments of slowfs, which its database is on; nil without it
	logins float64  // how many requests bring a password instead of a token, for 100 others
	reads  float64  // how many requests read many long messages, for 100 others
}

func (gotify) source() source {
	return source{folder: "gotify", cgo: true, embedded: []string{
		"github.com/gotify/server/v2/ui/build/index.html", "github.com/gotify/server/v2/ui/build/manifest.json",
	}}
}

const (
	// password is that of the first user; bcrypt takes some 50 ms for it.
	password = "admin"
	// fewMessages and manyMessages are how many a client asks for.
	fewMessages, manyMessages = 5, 200
	// A message has that many bytes, and as many in what is attached to it.
	shortMessage, longMessage = 200, 2 << 10
)

func (g gotify) start(ctx context.Context, rig rig) (_ *service, err error) {
	addrs, err := addresses(2)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return nil, err
	}
	site := "http://" + addrs[0]
	s := &service{pprof: "http://" + addrs[1]}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	disk, err := s.disk(ctx, rig, g.fsync)
	if err != nil {
		return nil, err
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "gotify"), []string{
		gomaxprocs, "PPROF_LISTENADDR=" + addrs[1], "GOTIFY_SERVER_LISTENADDR=" + host, "GOTIFY_SERVER_PORT=" + port,
		"GOTIFY_DATABASE_CONNECTION=" + filepath.Join(disk, "gotify.db"), "GOTIFY_DEFAULTUSER_PASS=" + password,
		"GOTIFY_PLUGINSDIR=" + filepath.Join(rig.dir, "plugins"), "GOTIFY_UPLOADEDIMAGESDIR=" + filepath.Join(rig.dir, "images"),
	})
	if err != nil {
		return nil, err
	}
	if err := s.program.ready(ctx, site+"/health"); err != nil {
		return nil, err
	}
	if err := g.requests(ctx, s, site); err != nil {
		return nil, err
	}
	return s, s.answered(ctx)
}

// requests are what the clients ask.
func (g gotify) requests(ctx context.Context, s *service, site string) error {
	login := make(http.Header)
	r := http.Request{Header: login}
	r.SetBasicAuth("admin", password)
	token := func(kind string) (string, error) {
		var x struct{ Token string }
		header := login.Clone()
		header.Set("Content-Type", "application/json")
		b, err := ask(ctx, http.DefaultClient, load.Target{Method: http.MethodPost, URL: site + "/" + kind, Header: header, Body: []byte(`{"name":"shop"}`)})
		if err != nil {
			return "", err
		}
		return x.Token, json.Unmarshal(b, &x)
	}
	application, err := token("application")
	if err != nil {
		return err
	}
	archive, err := token("application")
	if err != nil {
		return err
	}
	client, err := token("client")
	if err != nil {
		return err
	}
	message := func(application string, size int) load.Target {
		return load.Target{
			Method: http.MethodPost, URL: site + "/message",
			Header: http.Header{"X-Gotify-Key": {application}, "Content-Type": {"application/json"}},
			Body:   fmt.Appendf(nil, `{"title":"order","message":%q,"extras":{"shop::order":{"lines":%s}}}`, bytes.Repeat([]byte("x"), size), lines(size)),
		}
	}
	key := http.Header{"X-Gotify-Key": {client}}
	s.targets = []load.Target{message(application, shortMessage), {URL: fmt.Sprintf("%s/message?limit=%d", site, fewMessages), Header: key}}
	s.targets[0].Weight, s.targets[1].Weight = 30, 70
	if g.logins > 0 {
		s.targets = append(s.targets, load.Target{URL: site + "/current/user", Header: login, Weight: g.logins})
	}
	if g.reads == 0 {
		return nil
	}
	for range manyMessages {
		if _, err := ask(ctx, http.DefaultClient, message(archive, longMessage)); err != nil {
			return err
		}
	}
	s.targets = append(s.targets, load.Target{URL: fmt.Sprintf("%s/application/2/message?limit=%d", site, manyMessages), Header: key, Weight: g.reads})
	return nil
}

// lines is a JSON array of about that many bytes.
func lines(size int) []byte {
	b := []byte{'['}
	for len(b) < size {
		b = append(b, `{"article":12,"count":3},`...)
	}
	b[len(b)-1] = ']'
	return b
}

const gotifyRate = 120

var gotifyTrials = []trial{
	{name: "gotify-steady", program: gotify{}, rate: gotifyRate, lag: busyLag, beside: contention},
	{
		name: "gotify-disk", program: gotify{fsync: lateSyncs}, rate: gotifyRate, lag: busyLag, felt: fsyncTime / 2,
		planted: one(score.Planted{Cause: "slow-disk", Accept: []string{"slow-cgo"}}, func(t *trial) { t.program = gotify{fsync: noLateSyncs} }),
		rise:    3, beside: contention,
	},
	{
		name: "gotify-login", program: gotify{logins: 2}, rate: gotifyRate, lag: busyLag,
		planted: one(score.Planted{Cause: "expensive-request", Place: "golang.org/x/crypto/bcrypt.CompareHashAndPassword"}, func(t *trial) { t.program = gotify{} }),
		rise:    3, beside: contention,
	},
	{
		name: "gotify-reads", program: gotify{reads: 2}, rate: gotifyRate, lag: busyLag,
		planted: one(score.Planted{Cause: "expensive-request"}, func(t *trial) { t.program = gotify{} }),
		rise:    3, beside: contention,
	},
	crowded(trial{name: "gotify-crowd", program: gotify{}, rate: gotifyRate, rise: 1.5}),
	limited(trial{name: "gotify-quota", program: gotify{}, rate: gotifyRate, bursts: load.Bursts{Size: 30}, rise: 1.5}),
}
