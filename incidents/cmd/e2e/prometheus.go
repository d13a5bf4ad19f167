package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// prometheus is one that has been given the last hours of a shop's requests and is
// asked for panels of a dashboard.
type prometheus struct {
	env    []string
	flags  []string
	config string   // beside the usual
	rules  string   // a file of rules; none if it is empty
	peer   []string // arguments of a server that it reads older samples from; nil without one
	panels []panel
}

// A panel is a range query, or one for each route.
type panel struct {
	query      string // with %d in place of the route
	span, step time.Duration
	weight     float64
}

const (
	// The shop has that many routes, on that many pods each, and samples of so long
	// that often: 120,000 of them, which are in memory.
	routes, pods = 10, 50
	kept         = 2 * time.Hour
	sampleStep   = 30 * time.Second
	// postedSamples is how many of each series are sent at a time.
	postedSamples = 20
	// panelRate keeps two CPUs that are shared by all the processes mostly idle.
	panelRate = 60
)

// source leaves out what the program would find its targets with: it has none.
func (prometheus) source() source {
	return source{folder: "prometheus", main: "tool", tags: "remove_all_sd"}
}

func (p prometheus) start(ctx context.Context, rig rig) (_ *service, err error) {
	addrs, err := addresses(2)
	if err != nil {
		return nil, err
	}
	site := "http://" + addrs[0]
	s := &service{pprof: site, targets: p.targets(site, time.Now())}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	config := p.config
	if p.peer != nil {
		s.peer, err = s.start(rig.dir, filepath.Join(rig.bin, "peer"), []string{"GOMAXPROCS=1"}, append(slices.Clip(p.peer), "-listen", addrs[1],
			"-body", "", "-type", "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse")...)
		if err != nil {
			return nil, err
		}
		if err := s.peer.ready(ctx, "http://"+addrs[1]+"/"); err != nil {
			return nil, err
		}
		config += fmt.Sprintf("remote_read:\n- url: http://%s/read\n  read_recent: true\n", addrs[1])
	}
	if p.rules != "" {
		config += "rule_files: [rules.yml]\n"
		if err := os.WriteFile(filepath.Join(rig.dir, "rules.yml"), []byte(p.rules), 0o600); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(rig.dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte("global: {}\n"+config), 0o600); err != nil {
		return nil, err
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "prometheus"), append(slices.Clip(p.env), gomaxprocs),
		append(slices.Clip(p.flags), "--config.file="+file, "--storage.tsdb.path="+filepath.Join(rig.dir, "tsdb"),
			"--web.listen-address="+addrs[0], "--web.enable-otlp-receiver", "--log.level=warn")...)
	if err != nil {
		return nil, err
	}
	if err := s.program.ready(ctx, site+"/-/ready"); err != nil {
		return nil, err
	}
	if err := sell(ctx, site, time.Now()); err != nil {
		return nil, err
	}
	return s, s.answered(ctx)
}

// targets are the requests of the panels. They end now, so that all that is asked for
// is there.
func (p prometheus) targets(site string, now time.Time) (all []load.Target) {
	for _, x := range p.panels {
		n := 1
		if strings.Contains(x.query, "%d") {
			n = routes
		}
		for route := range n {
			q := url.Values{
				"query": {strings.ReplaceAll(x.query, "%d", strconv.Itoa(route))},
				"start": {strconv.FormatInt(now.Add(-x.span).Unix(), 10)},
				"end":   {strconv.FormatInt(now.Unix(), 10)},
				"step":  {strconv.FormatFloat(x.step.Seconds(), 'f', -1, 64)},
			}
			all = append(all, load.Target{URL: site + "/api/v1/query_range?" + q.Encode(), Weight: x.weight / float64(n)})
		}
	}
	return all
}

// asJSON says what is sent.
var asJSON = http.Header{"Content-Type": {"application/json"}}

// sell gives a Prometheus what the shop's counter of requests was until now, as a
// shop that pushes OpenTelemetry's metrics would have.
func sell(ctx context.Context, site string, now time.Time) error {
	type object = map[string]any
	var all []time.Time
	for t := now.Add(-kept); t.Before(now); t = t.Add(sampleStep) {
		all = append(all, t)
	}
	nanos := func(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
	for some := range slices.Chunk(all, postedSamples) {
		var points []object
		for i := range routes * pods {
			labels := []object{
				{"key": "route", "value": object{"stringValue": fmt.Sprintf("/r%d", i%routes)}},
				{"key": "pod", "value": object{"stringValue": fmt.Sprintf("pod-%d", i/routes)}},
			}
			for _, t := range some {
				points = append(points, object{"attributes": labels, "startTimeUnixNano": nanos(all[0]), "timeUnixNano": nanos(t),
					"asDouble": t.Sub(all[0]).Seconds() * float64(1+i%7)})
			}
		}
		counter := object{"name": "http_requests", "sum": object{"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": points}}
		body, err := json.Marshal(object{"resourceMetrics": []object{{
			"resource":     object{"attributes": []object{{"key": "service.name", "value": object{"stringValue": "shop"}}}},
			"scopeMetrics": []object{{"metrics": []object{counter}}},
		}}})
		if err != nil {
			return err
		}
		push := load.Target{Method: http.MethodPost, URL: site + "/api/v1/otlp/v1/metrics", Header: asJSON, Body: body}
		if _, err := ask(ctx, http.DefaultClient, push); err != nil {
			return err
		}
	}
	return nil
}

var (
	// ofRoute is what most panels ask for; it takes about 3 ms.
	ofRoute = panel{query: `sum by (route) (rate(http_requests_total{route="/r%d"}[5m]))`, span: time.Hour, step: time.Minute, weight: 1}
	// ofAll asks for every route, more closely, which takes about 60 ms.
	ofAll = panel{query: `sum by (route) (rate(http_requests_total[5m]))`, span: time.Hour, step: 10 * time.Second, weight: 0.03}

	panels = []panel{ofRoute}

	// archive are the arguments of a server that takes as long for every reply.
	archive = []string{"-reply", "20ms"}
)

// recordedRules are evaluated together; each takes about 25 ms.
func recordedRules() string {
	var b strings.Builder
	fmt.Fprintf(&b, "groups:\n- name: shop\n  interval: %s\n  rules:\n", rulesEvery)
	for i := range 4 {
		fmt.Fprintf(&b, "  - record: route:http_requests:load%d\n    expr: max by (route) (sum_over_time(rate(http_requests_total[%dm])[1h:15s]))\n", i, 5+i)
	}
	return b.String()
}

// rulesEvery is as often as rules are evaluated, if there are any.
const rulesEvery = 600 * time.Millisecond

var prometheusTrials = []trial{
	{name: "prometheus-steady", program: prometheus{panels: panels}, rate: panelRate, lag: calmLag, beside: contention},
	{
		name: "prometheus-report", program: prometheus{panels: []panel{ofRoute, ofAll}}, rate: panelRate, lag: busyLag, felt: 25 * time.Millisecond,
		planted: one(score.Planted{Cause: "expensive-request"}, func(t *trial) { t.program = prometheus{panels: panels} }),
		rise:    3, beside: contention,
	},
	{
		name: "prometheus-rules", program: prometheus{panels: panels, rules: recordedRules(), flags: []string{"--enable-feature=concurrent-rule-eval"}}, rate: panelRate, lag: busyLag,
		planted: one(score.Planted{Cause: "cpu-hog", Accept: []string{"netpoll-starvation"}}, func(t *trial) { t.program = prometheus{panels: panels} }),
		rise:    3, beside: contention,
	},
	crowded(trial{name: "prometheus-crowd", program: prometheus{panels: panels}, rate: panelRate, rise: 3, blind: true}),
	limited(trial{name: "prometheus-quota", program: prometheus{panels: panels}, rate: panelRate / 2, bursts: load.Bursts{Size: 10}, rise: 3, blind: true}),
	{
		name: "prometheus-limit", program: prometheus{panels: panels, env: []string{"GOMEMLIMIT=24MiB"}}, rate: panelRate, lag: busyLag,
		planted: one(score.Planted{Cause: "memory-limit-thrash"}, func(t *trial) { t.program = prometheus{panels: panels} }),
		rise:    1.5, beside: contention,
	},
	{
		name: "prometheus-remote", program: prometheus{panels: panels, peer: lateReplies}, rate: panelRate, lag: busyLag, felt: slowTime / 2,
		planted: one(score.Planted{Cause: "slow-dependency"}, func(t *trial) { t.program = prometheus{panels: panels, peer: evenReplies} }),
		rise:    1.5, beside: contention,
	},
	{
		name: "prometheus-gate", program: prometheus{panels: panels, peer: archive, flags: []string{"--query.max-concurrency=2"}}, rate: panelRate, lag: busyLag,
		planted: one(score.Planted{Cause: "pool-exhausted"}, func(t *trial) { t.program = prometheus{panels: panels, peer: archive} }),
		rise:    1.5, beside: append([]string{"slow-dependency"}, contention...), // the archive always takes its time, with and without the gate
	},
}
