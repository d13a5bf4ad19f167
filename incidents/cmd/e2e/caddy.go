package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/whylate/whylate/load"
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

// startCaddy runs a Caddy in front of a peer, both from bin, with all their files
// in dir, and returns when a request goes all the way through.
func startCaddy(ctx context.Context, t trial, bin, dir string) (_ *service, err error) {
	addrs, err := addresses(3)
	if err != nil {
		return nil, err
	}
	upstream, admin, site := addrs[0], addrs[1], addrs[2]
	url := "http://" + site + "/"
	s := &service{targets: []load.Target{{URL: url}}, pprof: "http://" + admin}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	s.peer, err = s.start(dir, filepath.Join(bin, "peer"), []string{"GOMAXPROCS=1"}, append(t.peer, "-listen", upstream)...)
	if err != nil {
		return nil, err
	}
	if err := s.peer.ready(ctx, "http://"+upstream+"/"); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(config, fmt.Appendf(nil, caddyfile, admin, site[strings.LastIndexByte(site, ':')+1:], upstream), 0o600); err != nil {
		return nil, err
	}
	s.program, err = s.start(dir, filepath.Join(bin, t.program),
		[]string{gomaxprocs, "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir},
		"run", "--config", config, "--adapter", "caddyfile")
	if err != nil {
		return nil, err
	}
	return s, s.program.ready(ctx, url)
}
