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
	// keys is how many keys the clients write, valueSize how many bytes to each.
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
	for i := range keys {
		s.targets = append(s.targets, put(client, i))
	}
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
	return s, s.program.ready(ctx, client+"/health")
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
