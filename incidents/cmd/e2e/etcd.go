package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"github.com/whylate/whylate/load"
)

const (
	// keys is how many keys the gateway's clients write, valueSize how many bytes to
	// each; as cmd/front does.
	keys, valueSize = 64, 256
	// etcdMember is the name of the only one.
	etcdMember = "alone"
)

// startEtcd runs a cluster of one etcd from bin on a folder in dir, through a file
// system with slow fsyncs if the trial has one, and returns when it has a leader.
func startEtcd(ctx context.Context, t trial, bin, dir string) (_ *service, err error) {
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
	disk, err := s.disk(ctx, t, bin, dir)
	if err != nil {
		return nil, err
	}
	s.program, err = s.start(dir, filepath.Join(bin, t.program), []string{gomaxprocs},
		"--name", etcdMember, "--data-dir", filepath.Join(disk, "etcd"), "--log-level", "error", "--enable-pprof",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", raft, "--initial-advertise-peer-urls", raft, "--initial-cluster", etcdMember+"="+raft)
	if err != nil {
		return nil, err
	}
	if err := s.program.ready(ctx, client+"/health"); err != nil {
		return nil, err
	}
	return s, s.writers(ctx, t, bin, dir, client)
}

// writers decides how the clients write to an etcd: through its own JSON gateway,
// or through a service of ours that speaks gRPC with it.
func (s *service) writers(ctx context.Context, t trial, bin, dir, etcd string) error {
	if t.gateway {
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
	front, err := s.start(dir, filepath.Join(bin, "front"), []string{"GOMAXPROCS=1"}, "-etcd", etcd, "-listen", addrs[0])
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

// disk returns the folder for the program's files.
func (s *service) disk(ctx context.Context, t trial, bin, dir string) (string, error) {
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o700); err != nil || t.fsync == nil {
		return files, err
	}
	const proof = "mounted"
	if err := os.WriteFile(filepath.Join(files, proof), nil, 0o600); err != nil {
		return "", err
	}
	mount := filepath.Join(dir, "mount")
	if err := os.Mkdir(mount, 0o700); err != nil {
		return "", err
	}
	fs, err := s.start(dir, filepath.Join(bin, "slowfs"), nil, append(t.fsync, files, mount)...)
	if err != nil {
		return "", err
	}
	return mount, fs.until(ctx, func(context.Context) error {
		_, err := os.Stat(filepath.Join(mount, proof))
		return err
	})
}
