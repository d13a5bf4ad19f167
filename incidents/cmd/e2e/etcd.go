package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

const (
	// keys is how many keys the gateway's clients write, valueSize how many bytes to
	// each; as cmd/front does.
	keys, valueSize = 64, 256
	// etcdMember is the name of the only one.
	etcdMember = "alone"
)

// etcd is a cluster of one.
type etcd struct {
	gateway bool     // called through its own JSON gateway, not through gRPC
	fsync   []string // arguments of slowfs, which its files are on; nil without it
}

func (etcd) source() source { return source{folder: "etcd"} }

// start returns when the cluster has a leader.
func (e etcd) start(ctx context.Context, rig rig) (_ *service, err error) {
	addrs, err := addresses(2)
	if err != nil {
		return nil, err
	}
	client, raft := "http://"+addrs[0], "http://"+addrs[1]
	s := &service{pprof: client}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	disk, err := s.disk(ctx, rig, e.fsync)
	if err != nil {
		return nil, err
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "etcd"), []string{gomaxprocs},
		"--name", etcdMember, "--data-dir", filepath.Join(disk, "etcd"), "--log-level", "error", "--enable-pprof",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", raft, "--initial-advertise-peer-urls", raft, "--initial-cluster", etcdMember+"="+raft)
	if err != nil {
		return nil, err
	}
	if err := s.program.ready(ctx, client+"/health"); err != nil {
		return nil, err
	}
	return s, s.writers(ctx, rig, e.gateway, client)
}

// writers decides how the clients write to an etcd: through its own JSON gateway,
// or through a service of ours that speaks gRPC with it.
func (s *service) writers(ctx context.Context, rig rig, gateway bool, etcd string) error {
	if gateway {
		for i := range keys {
			s.targets = append(s.targets, put(etcd, i))
		}
		return nil
	}
	addrs, err := addresses(1)
	if err != nil {
		return err
	}
	url := "http://" + addrs[0] + "/"
	front, err := s.start(rig.dir, filepath.Join(rig.bin, "front"), []string{"GOMAXPROCS=1"}, "-etcd", etcd, "-listen", addrs[0])
	if err != nil {
		return err
	}
	s.targets = []load.Target{{URL: url}}
	return front.ready(ctx, url)
}

// put writes a key through etcd's own JSON gateway.
func put(client string, key int) load.Target {
	encode := base64.StdEncoding.EncodeToString
	return load.Target{
		Method: "POST", URL: client + "/v3/kv/put", Header: map[string][]string{"Content-Type": {"application/json"}},
		Body: fmt.Appendf(nil, `{"key":%q,"value":%q}`, encode(fmt.Appendf(nil, "device/%d", key)), encode(make([]byte, valueSize))),
	}
}

var etcdTrials = []trial{
	{name: "etcd-steady", program: etcd{}, rate: putRate, lag: busyLag, beside: contention},
	{
		name: "etcd-disk", program: etcd{fsync: lateSyncs}, rate: putRate, lag: busyLag, felt: fsyncTime / 2,
		planted: one(score.Planted{Cause: "slow-disk"}, func(t *trial) { t.program = etcd{fsync: noLateSyncs} }),
		rise:    3, beside: contention, blind: true,
	},
	{
		name: "etcd-gateway", program: etcd{gateway: true, fsync: lateSyncs}, rate: putRate, lag: busyLag, felt: fsyncTime / 2,
		planted: one(score.Planted{Cause: "slow-disk"}, func(t *trial) { t.program = etcd{gateway: true, fsync: noLateSyncs} }),
		rise:    3, beside: contention, blind: true,
	},
}
