package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/whylate/whylate/incidents/score"
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
	reverse_proxy %s%s
}
`

// encrypted is how Caddy calls a peer over TLS, on one connection after another or on
// those that it has.
const encrypted = ` {
		transport http {
			tls
			tls_insecure_skip_verify
			versions 1.1
			keepalive %s
		}
	}`

// caddy is a Caddy in front of a peer.
type caddy struct {
	beside bool     // with goroutines of ours in the same process
	peer   []string // arguments of the server that it calls
	keep   string   // how long it keeps connections to that, over TLS; without if it is empty
	env    []string
}

func (caddy) source() source { return source{folder: "caddy", packages: []string{"./mirrored"}} }

func (c caddy) start(ctx context.Context, rig rig) (_ *service, err error) {
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
	s.peer, err = s.start(rig.dir, filepath.Join(rig.bin, "peer"), []string{"GOMAXPROCS=1"}, append(slices.Clip(c.peer), "-listen", upstream)...)
	if err != nil {
		return nil, err
	}
	transport := ""
	if c.keep != "" {
		transport = fmt.Sprintf(encrypted, c.keep)
	} else if err := s.peer.ready(ctx, "http://"+upstream+"/"); err != nil {
		return nil, err
	}
	config := filepath.Join(rig.dir, "Caddyfile")
	if err := os.WriteFile(config, fmt.Appendf(nil, caddyfile, admin, site[strings.LastIndexByte(site, ':')+1:], upstream, transport), 0o600); err != nil {
		return nil, err
	}
	binary := "caddy"
	if c.beside {
		binary = "mirrored"
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, binary),
		append(slices.Clip(c.env), gomaxprocs, "HOME="+rig.dir, "XDG_CONFIG_HOME="+rig.dir, "XDG_DATA_HOME="+rig.dir),
		"run", "--config", config, "--adapter", "caddyfile")
	if err != nil {
		return nil, err
	}
	return s, s.program.ready(ctx, url)
}

// frequentGC makes collections frequent: visible, and not the cause.
var frequentGC = []string{"GOGC=25"}

var caddyTrials = slices.Concat(
	graded(func(l level) trial {
		return trial{
			name: "caddy-upstream", program: caddy{peer: replies(l.slow, slowShare)}, rate: rate, lag: calmLag, beside: contention,
			planted: one(score.Planted{Cause: "slow-dependency"}, func(t *trial) { t.program = caddy{peer: evenReplies} }),
		}
	}),
	[]trial{
		{name: "caddy-steady", program: caddy{peer: evenReplies}, rate: rate, lag: calmLag, beside: contention},
		{name: "caddy-gc", program: caddy{peer: evenReplies, env: frequentGC}, rate: rate, lag: calmLag, beside: contention},
		{
			name: "caddy-upstream-gc", program: caddy{peer: lateReplies, env: frequentGC}, rate: rate, lag: calmLag, felt: slowTime / 2,
			planted: one(score.Planted{Cause: "slow-dependency"}, func(t *trial) { t.program = caddy{peer: evenReplies, env: frequentGC} }),
			rise:    3, beside: contention,
		},
		{
			name: "caddy-jobs", program: caddy{beside: true, peer: evenReplies}, rate: rate, lag: busyLag,
			planted: one(score.Planted{Cause: "cpu-hog", Accept: []string{"netpoll-starvation"}}, func(t *trial) { t.program = caddy{peer: evenReplies} }),
			rise:    1.5, beside: contention,
		},
		{
			name: "caddy-upstream-jobs", program: caddy{beside: true, peer: replies(4*slowTime, half)}, rate: rate, lag: busyLag, felt: slowTime / 2,
			planted: []planted{
				{score.Planted{Cause: "slow-dependency"}, func(t *trial) { t.program = caddy{beside: true, peer: evenReplies} }},
				{score.Planted{Cause: "cpu-hog", Accept: []string{"netpoll-starvation"}}, func(t *trial) {
					c := t.program.(caddy)
					c.beside = false
					t.program = c
				}},
			},
			rise: 3, beside: contention,
		},
		{
			name: "caddy-dial", program: caddy{peer: overTLS, keep: "off"}, rate: handshakeRate, lag: busyLag,
			planted: one(score.Planted{Cause: "dial-per-request"}, func(t *trial) { t.program = caddy{peer: overTLS, keep: "1m"} }),
			rise:    1.5, beside: contention,
		},
		limited(trial{name: "caddy-quota", program: caddy{peer: evenReplies}, rate: rate, bursts: load.Bursts{Size: burstSize}, felt: 20 * time.Millisecond, rise: 1.5, blind: true}),
		{
			name: "caddy-bursts", program: caddy{peer: evenReplies}, rate: rate, lag: burstLag,
			bursts: load.Bursts{Mean: burstEvery, Size: burstSize / 15}, beside: contention,
		},
		crowded(trial{name: "caddy-crowd", program: caddy{peer: evenReplies}, rate: rate, felt: 8 * time.Millisecond, rise: 3, blind: true}),
	},
)
