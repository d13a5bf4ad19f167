package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// traefik is a Traefik in front of a peer.
type traefik struct {
	peer  []string // arguments of the server that it calls
	tls   bool     // which serves TLS
	idle  int      // connections to it that Traefik keeps; 0: its default, negative: none
	burst int      // requests of one account at once before Traefik spaces them; 0: it never does
	users []string // who may ask, as in a file of htpasswd; nil: everybody
	log   []string // arguments of the reader of its access log; nil without a log
}

const (
	// Of each account arrive 5 requests a second on average, of which Traefik lets
	// some wait, for 50 ms at most. What would have to wait longer it refuses at once.
	accounts, accountRate = 50, 10
	accountHeader         = "X-Account"
	// userPassword is that of both users; benShare of the requests are Ben's.
	userPassword = "secret"
	benShare     = 0.03
	// handshakeRate is what a server can do that shakes hands for every request.
	handshakeRate = 100
)

var (
	quickHashes = []string{"amy:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "ben:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="}
	// bcrypt of cost 9 takes about 30 ms of CPU.
	oneBcrypt = []string{quickHashes[0], "ben:$2b$09$VEWQdsFeYgPM0./zMQpnJuce7LPBchSr69BcOCxcS7iB1VN1CVcMW"}
	// An RSA key of 2048 bits signs in about 2 ms.
	overTLS = []string{"-reply", replyTime.String(), "-rsa", "2048"}
)

func (traefik) source() source {
	return source{folder: "traefik", main: "tool"}
}

// start returns when a request goes all the way through.
func (c traefik) start(ctx context.Context, rig rig) (_ *service, err error) {
	addrs, err := addresses(3)
	if err != nil {
		return nil, err
	}
	upstream, admin, site := addrs[0], addrs[1], addrs[2]
	s := &service{targets: c.targets("http://" + site + "/"), pprof: "http://" + admin}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	s.peer, err = s.start(rig.dir, filepath.Join(rig.bin, "peer"), []string{"GOMAXPROCS=1"}, append(slices.Clip(c.peer), "-listen", upstream)...)
	if err != nil {
		return nil, err
	}
	routes := filepath.Join(rig.dir, "routes.yml")
	b, err := json.Marshal(c.routes(upstream)) // JSON is YAML
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(routes, b, 0o600); err != nil {
		return nil, err
	}
	args := []string{
		"--global.checkNewVersion=false", "--global.sendAnonymousUsage=false", "--log.level=ERROR",
		"--entryPoints.web.address=" + site, "--entryPoints.traefik.address=" + admin,
		"--api.insecure", "--api.debug", "--api.dashboard=false", "--ping",
		"--providers.file.filename=" + routes, "--providers.file.watch=false",
	}
	if c.log != nil {
		pipe, err := s.logPipe(ctx, rig, c.log)
		if err != nil {
			return nil, err
		}
		args = append(args, "--accessLog.filePath="+pipe, "--accessLog.format=json")
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "traefik"), []string{gomaxprocs}, args...)
	if err != nil {
		return nil, err
	}
	if err := s.program.ready(ctx, "http://"+admin+"/ping"); err != nil {
		return nil, err
	}
	return s, s.program.until(ctx, s.answered) // it reads its routes after it listens
}

// object is one of Traefik's configuration.
type object map[string]any

// routes is the dynamic configuration: one way from the clients to the server.
func (c traefik) routes(upstream string) object {
	scheme, middlewares, on := "http", object{}, []string{}
	if c.burst > 0 {
		middlewares["even"] = object{"rateLimit": object{
			"average": accountRate, "burst": c.burst, "sourceCriterion": object{"requestHeaderName": accountHeader},
		}}
		on = append(on, "even")
	}
	if len(c.users) > 0 {
		middlewares["users"] = object{"basicAuth": object{"users": c.users}}
		on = append(on, "users")
	}
	if c.tls {
		scheme = "https"
	}
	all := object{
		"routers": object{"site": object{"rule": "PathPrefix(`/`)", "entryPoints": []string{"web"}, "middlewares": on, "service": "stock"}},
		"services": object{"stock": object{"loadBalancer": object{
			"servers": []object{{"url": scheme + "://" + upstream}}, "serversTransport": "stock",
		}}},
		"serversTransports": object{"stock": object{"insecureSkipVerify": true, "disableHTTP2": true, "maxIdleConnsPerHost": c.idle}},
	}
	if len(middlewares) > 0 {
		all["middlewares"] = middlewares
	}
	return object{"http": all}
}

// targets are the requests of all accounts or users.
func (c traefik) targets(url string) []load.Target {
	switch {
	case c.burst > 0:
		all := make([]load.Target, accounts)
		for i := range all {
			name := fmt.Sprint("account ", i)
			all[i] = load.Target{Name: name, URL: url, Header: map[string][]string{accountHeader: {name}}}
		}
		return all
	case len(c.users) > 0:
		return []load.Target{asUser(url, "amy", 1-benShare), asUser(url, "ben", benShare)}
	}
	return []load.Target{{URL: url}}
}

// asUser is a request of that user.
func asUser(url, name string, weight float64) load.Target {
	credentials := "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+userPassword))
	return load.Target{Name: name, URL: url, Weight: weight, Header: map[string][]string{"Authorization": {credentials}}}
}

var traefikTrials = heldOut([]trial{
	{name: "traefik-steady", program: traefik{peer: evenReplies}, rate: rate, lag: calmLag, beside: contention},
	{
		name: "traefik-upstream", program: traefik{peer: lateReplies}, rate: rate, lag: calmLag, felt: slowTime / 2,
		planted: one(score.Planted{Cause: "slow-dependency"}, func(t *trial) { t.program = traefik{peer: evenReplies} }),
		rise:    3, beside: contention,
	},
	{
		name: "traefik-even", program: traefik{peer: evenReplies, burst: 2}, rate: rate, lag: calmLag, felt: slowTime / 2,
		planted: one(score.Planted{Cause: "timer-wait", Place: "github.com/traefik/traefik/v3/pkg/middlewares/ratelimiter.(*rateLimiter).ServeHTTP"},
			func(t *trial) { t.program = traefik{peer: evenReplies, burst: rate} }),
		rise: 3, beside: contention,
	},
	{
		name: "traefik-access", program: traefik{peer: evenReplies, log: []string{"-pause", "100ms"}}, rate: rate, lag: calmLag, felt: slowTime / 2,
		planted: one(score.Planted{Cause: "sync-logging", Place: "github.com/traefik/traefik/v3/pkg/middlewares/accesslog.(*Handler).logTheRoundTrip"},
			func(t *trial) { t.program = traefik{peer: evenReplies, log: []string{}} }),
		rise: 3, beside: contention,
	},
	{
		name: "traefik-idle", program: traefik{peer: overTLS, tls: true, idle: -1}, rate: handshakeRate, lag: busyLag, felt: 4 * time.Millisecond,
		planted: one(score.Planted{Cause: "dial-per-request"}, func(t *trial) { t.program = traefik{peer: overTLS, tls: true, idle: rate} }),
		rise:    1.5, beside: contention,
	},
	{
		name: "traefik-users", program: traefik{peer: evenReplies, users: oneBcrypt}, rate: rate, lag: busyLag, felt: slowTime / 4,
		planted: one(score.Planted{Cause: "expensive-request"}, func(t *trial) { t.program = traefik{peer: evenReplies, users: quickHashes} }),
		rise:    3, beside: contention,
	},
	limited(trial{name: "traefik-quota", program: traefik{peer: evenReplies}, rate: rate, bursts: load.Bursts{Size: burstSize}, felt: 20 * time.Millisecond, rise: 1.5, blind: true}),
	crowded(trial{name: "traefik-crowd", program: traefik{peer: evenReplies}, rate: rate, felt: 8 * time.Millisecond, rise: 1.5, blind: true}),
})
