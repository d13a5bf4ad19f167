package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// caddyfile proxies one address to another, with net/http/pprof on a third, which
// is where Caddy has it anyway. Nothing is logged, encrypted or remembered.
const caddyfile = `{
	admin %s
	auto_https off
	persist_config off
	log {
		output discard
	}
}

http://:%s {
	bind 127.0.0.1
	reverse_proxy %s
}
`

// A service is a program under test and the server that it calls.
type service struct {
	url, admin string // base URLs
	processes  []*process
}

// startCaddy runs a Caddy in front of a peer, both from bin, with all their files
// in dir, and returns when a request goes all the way through.
func startCaddy(ctx context.Context, t trial, bin, dir string) (_ *service, err error) {
	addrs, err := addresses(3)
	if err != nil {
		return nil, err
	}
	upstream, admin, site := addrs[0], addrs[1], addrs[2]
	s := &service{url: "http://" + site + "/", admin: "http://" + admin}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	// GOMAXPROCS makes the programs behave alike on small and large machines.
	peer, err := s.start(dir, filepath.Join(bin, "peer"), []string{"GOMAXPROCS=1"}, append(t.peer, "-listen", upstream)...)
	if err != nil {
		return nil, err
	}
	if err := peer.ready(ctx, "http://"+upstream+"/"); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(config, fmt.Appendf(nil, caddyfile, admin, site[strings.LastIndexByte(site, ':')+1:], upstream), 0o600); err != nil {
		return nil, err
	}
	caddy, err := s.start(dir, filepath.Join(bin, t.program),
		[]string{"GOMAXPROCS=2", "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir},
		"run", "--config", config, "--adapter", "caddyfile")
	if err != nil {
		return nil, err
	}
	return s, caddy.ready(ctx, s.url)
}

func (s *service) start(dir, path string, env []string, args ...string) (*process, error) {
	p, err := start(dir, path, env, args...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return p, err
}

// stop ends the processes, the program before its peer.
func (s *service) stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].stop()
	}
	s.processes = nil
}
