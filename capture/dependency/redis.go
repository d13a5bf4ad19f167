package dependency

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// redisTarget is a redis and how to log in.
type redisTarget struct {
	addr           string
	user, password string
	tls            *tls.Config // nil without
}

// NewRedis reads the address of a redis: host:port, host, or
// redis://[user:password@]host:port, rediss:// for TLS. Without a password in it,
// the environment variable REDISCLI_AUTH has it, as for redis-cli.
func NewRedis(addr string) (Target, error) {
	t := &redisTarget{password: os.Getenv("REDISCLI_AUTH")}
	host := addr
	if scheme, _, ok := strings.Cut(addr, "://"); ok {
		u, err := url.Parse(addr)
		if err != nil || u.Hostname() == "" || scheme != "redis" && scheme != "rediss" {
			// The error of Parse holds the URL and so perhaps the password.
			return Target{}, errors.New("this is no address of a redis: write host:port or redis://user@host:port, and the password into the environment variable REDISCLI_AUTH")
		}
		if p, ok := u.User.Password(); ok {
			t.password = p
		}
		t.user, host = u.User.Username(), u.Host
		if scheme == "rediss" {
			t.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
		}
	}
	h, port, err := net.SplitHostPort(host)
	if err != nil {
		h, port = strings.Trim(host, "[]"), "6379"
	}
	if n, err := strconv.Atoi(port); h == "" || strings.ContainsAny(h, "/@ ") || err != nil || n <= 0 || n > 65535 {
		return Target{}, errors.New("this is no address of a redis: write host:port, such as 127.0.0.1:6379")
	}
	t.addr = net.JoinHostPort(h, port)
	return Target{kind: Redis, address: short(t.addr, MaxText), secret: t.password, start: func() asker { return &redisAsker{t: t} }}, nil
}

// counted is what redis counted of one command since it started.
type counted struct {
	calls, usec int64
	// buckets are calls by duration: at most so many µs.
	buckets map[int64]int64
}

// redisState is what redis knew at one time.
type redisState struct {
	runID    string
	slowest  int64 // the newest id in SLOWLOG
	seconds  int64 // its clock
	cpu      float64
	commands map[string]counted
	at       time.Time
}

// redisAsker asks one redis before and after.
type redisAsker struct {
	t      *redisTarget
	before redisState
	// own are the commands that it sent since its first look at the counters.
	own map[string]int64
}

// session is one connection.
type session struct {
	conn  redis.Conn
	guard *guard
	s     *Server
	own   map[string]int64
}

func (a *redisAsker) connect(ctx context.Context, s *Server) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", a.t.addr)
	if err != nil {
		return nil, err
	}
	s.Peer = conn.RemoteAddr().String()
	if a.t.tls != nil {
		c := tls.Client(conn, a.t.tls)
		if err := c.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		conn = c
	}
	g := &guard{Conn: conn}
	x := &session{conn: redis.NewConn(g, askTimeout, askTimeout), guard: g, s: s, own: a.own}
	if a.t.password != "" {
		args := []any{a.t.password}
		if a.t.user != "" {
			args = []any{a.t.user, a.t.password}
		}
		if _, err := x.do(ctx, "AUTH", args...); err != nil && !needless(err) {
			x.conn.Close()
			return nil, err
		}
	}
	return x, nil
}

// do sends one command.
func (x *session) do(ctx context.Context, name string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	x.guard.next()
	began := time.Now()
	reply, err := redis.DoContext(x.conn, ctx, name, args...)
	x.s.Asked++
	x.s.AskedNS += time.Since(began).Nanoseconds()
	key := strings.ToLower(name)
	if key == "config" || key == "slowlog" || key == "latency" {
		key = strings.ToLower(fmt.Sprintf("%s|%v", key, args[0]))
	}
	if x.own != nil {
		x.own[key]++
		// Before version 7, what a command was asked for was not told apart.
		if base, _, ok := strings.Cut(key, "|"); ok {
			x.own[base]++
		}
	}
	return reply, err
}

// broken reports whether a connection is of no more use after an error: all but
// redis's own refusals.
func broken(err error) bool {
	var refused redis.Error
	return err != nil && !errors.As(err, &refused)
}

// info returns a section of INFO by its lines.
func (x *session) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := redis.String(x.do(ctx, "INFO", section))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, maxReply)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok {
			out[key] = value
		}
	}
	return out, nil
}

// start asks what the window's counters are compared with, those last.
func (a *redisAsker) start(ctx context.Context, s *Server) error {
	x, err := a.connect(ctx, s)
	if err != nil {
		return err
	}
	defer x.conn.Close()
	server, err := x.info(ctx, "server")
	if err != nil {
		return err
	}
	if server["redis_version"] == "" {
		return errNotRedis
	}
	s.Version = short(server["redis_version"], 60)
	a.before.runID = server["run_id"]
	for _, ask := range []func(context.Context, *session) error{a.thresholds, a.newest} {
		if err := ask(ctx, x); broken(err) {
			return err
		}
	}
	histograms, err := x.histograms(ctx)
	if broken(err) {
		return err
	}
	if a.before.cpu, err = x.cpu(ctx); broken(err) {
		return err
	}
	a.before.commands, err = x.commands(ctx)
	if err != nil {
		return err
	}
	a.before.at = time.Now()
	a.own = map[string]int64{"info": 1} // the one just sent counts itself when it is done
	merge(a.before.commands, histograms)
	return nil
}

// thresholds asks what makes a command slow and a latency an event.
func (a *redisAsker) thresholds(ctx context.Context, x *session) error {
	for _, c := range []struct {
		name, what string
		unit       int64
		to         **int64
	}{
		{"slowlog-log-slower-than", "SLOWLOG's threshold", 1e3, &x.s.SlowAboveNS},
		{"latency-monitor-threshold", "whether latency events are monitored", 1e6, &x.s.EventsAboveNS},
	} {
		pair, err := redis.Strings(x.do(ctx, "CONFIG", "GET", c.name))
		if broken(err) {
			return err
		}
		if err != nil || len(pair) != 2 {
			x.s.refused(c.what, err)
			continue
		}
		n, err := strconv.ParseInt(pair[1], 10, 64)
		if err != nil || n > maxNS/c.unit {
			continue
		}
		if n = max(n, -1); n >= 0 {
			n *= c.unit
		}
		*c.to = &n
	}
	switch {
	case x.s.SlowAboveNS != nil && *x.s.SlowAboveNS < 0:
		x.s.miss("SLOWLOG", "it is switched off (slowlog-log-slower-than -1)", "redis-cli CONFIG SET slowlog-log-slower-than 10000")
	case x.s.EventsAboveNS != nil && *x.s.EventsAboveNS <= 0:
		*x.s.EventsAboveNS = 0
		x.s.miss("latency events", "they are not monitored (latency-monitor-threshold 0)", "redis-cli CONFIG SET latency-monitor-threshold 10")
	}
	return nil
}

// newest asks for the newest entry of SLOWLOG, and for the time.
func (a *redisAsker) newest(ctx context.Context, x *session) error {
	a.before.slowest = -1
	entries, err := redis.Values(x.do(ctx, "SLOWLOG", "GET", 1))
	if err == nil && len(entries) > 0 {
		if id, _, ok := slowEntry(entries[0]); ok {
			a.before.slowest = id
		}
	}
	if broken(err) {
		return err
	}
	now, err := redis.Int64s(x.do(ctx, "TIME"))
	if err == nil && len(now) == 2 {
		a.before.seconds = now[0]
	}
	return err
}

// slowEntry reads an entry of SLOWLOG: id, time, µs, arguments, and from version 4
// on the client's address. Of the arguments only the first one, the command, is looked at.
func slowEntry(v any) (id int64, e Slow, ok bool) {
	f, err := redis.Values(v, nil)
	if err != nil || len(f) < 4 {
		return 0, e, false
	}
	id, err1 := redis.Int64(f[0], nil)
	at, err2 := redis.Int64(f[1], nil)
	usec, err3 := redis.Int64(f[2], nil)
	args, err4 := redis.Values(f[3], nil)
	if err := errors.Join(err1, err2, err3, err4); err != nil || len(args) == 0 {
		return 0, e, false
	}
	name, _ := redis.String(args[0], nil)
	return id, Slow{Command: word(strings.ToUpper(name)), NS: fromFloat(float64(usec), 1e3), At: clamp(at)}, true
}

func (x *session) cpu(ctx context.Context) (float64, error) {
	in, err := x.info(ctx, "cpu")
	if err != nil {
		return 0, err
	}
	sum := func(suffix string) (float64, bool) {
		sys, err1 := strconv.ParseFloat(in["used_cpu_sys"+suffix], 64)
		user, err2 := strconv.ParseFloat(in["used_cpu_user"+suffix], 64)
		return sys + user, errors.Join(err1, err2) == nil
	}
	if v, ok := sum("_main_thread"); ok { // from version 6.2 on
		return v, nil
	}
	v, _ := sum("")
	return v, nil
}

// maxCommands is more than redis with all its modules has.
const maxCommands = 5_000

// commands asks for the counters of every command.
func (x *session) commands(ctx context.Context) (map[string]counted, error) {
	in, err := x.info(ctx, "commandstats")
	if err != nil {
		return nil, err
	}
	out := map[string]counted{}
	for key, value := range in {
		name, ok := strings.CutPrefix(key, "cmdstat_")
		if !ok || word(name) == "?" || len(out) == maxCommands {
			continue
		}
		var c counted
		for field := range strings.SplitSeq(value, ",") {
			k, v, _ := strings.Cut(field, "=")
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				continue
			}
			switch k {
			case "calls":
				c.calls = clamp(n)
			case "usec":
				c.usec = min(clamp(n), maxNS/1e3)
			}
		}
		out[name] = c
	}
	return out, nil
}

// topBucket is where redis's histograms end, in µs: what took longer than a second is in
// the last bucket too. Source: LATENCY_HISTOGRAM_MAX_VALUE in redis's server.h.
const topBucket = 500_000

// histograms asks for the calls of every command by duration, from version 7 on.
func (x *session) histograms(ctx context.Context) (map[string]map[int64]int64, error) {
	reply, err := redis.Values(x.do(ctx, "LATENCY", "HISTOGRAM"))
	if err != nil {
		return nil, err
	}
	out := map[string]map[int64]int64{}
	for i := 0; i+1 < len(reply) && len(out) < maxCommands; i += 2 {
		name, err1 := redis.String(reply[i], nil)
		fields, err2 := redis.Values(reply[i+1], nil)
		if errors.Join(err1, err2) != nil || len(fields) != 4 {
			continue
		}
		cumulative, err := redis.Int64s(fields[3], nil)
		if err != nil {
			continue
		}
		buckets, last := map[int64]int64{}, int64(0)
		for k := 0; k+1 < len(cumulative); k += 2 {
			buckets[cumulative[k]], last = cumulative[k+1]-last, cumulative[k+1]
		}
		out[name] = buckets
	}
	return out, nil
}

func merge(commands map[string]counted, histograms map[string]map[int64]int64) {
	for name, c := range commands {
		c.buckets = histograms[name]
		commands[name] = c
	}
}

// during does nothing: counters are enough.
func (a *redisAsker) during(context.Context, *Server) {}

// finish asks again, for the counters first.
func (a *redisAsker) finish(ctx context.Context, s *Server) error {
	x, err := a.connect(ctx, s)
	if err != nil {
		return err
	}
	defer x.conn.Close()
	commands, err := x.commands(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	own := maps.Clone(a.own)
	cpu, cpuErr := x.cpu(ctx)
	histograms, err := x.histograms(ctx)
	switch {
	case broken(err):
		return err
	case err != nil:
		s.refused("LATENCY HISTOGRAM (redis 7 or newer)", err)
	}
	merge(commands, histograms)
	server, err := x.info(ctx, "server")
	if err != nil {
		return err
	}
	if s.Restarted = server["run_id"] != a.before.runID; s.Restarted {
		a.before.commands, a.before.slowest, a.before.cpu = nil, -1, 0
	}
	s.FromNS, s.ToNS = a.before.at.UnixNano(), now.UnixNano()
	if used := cpu - a.before.cpu; cpuErr == nil && used >= 0 && !s.Restarted {
		busy := used / max(1e-3, now.Sub(a.before.at).Seconds())
		s.Busy = &busy
	}
	a.delta(s, commands, own)
	for _, ask := range []func(context.Context, *session) error{a.slow, a.events, a.percentiles} {
		if err := ask(ctx, x); broken(err) {
			return err
		}
	}
	a.bound(s, commands, own)
	return nil
}

// delta enters what the counters grew by.
func (a *redisAsker) delta(s *Server, after map[string]counted, own map[string]int64) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		c, b := after[name], a.before.commands[name]
		if c.calls < b.calls || c.usec < b.usec {
			s.Reset, b = true, counted{}
			a.before.commands[name] = b
		}
		n := c.calls - b.calls
		if n <= 0 || n <= own[name] {
			continue
		}
		x := Call{Name: name, Count: n - own[name], NS: (c.usec - b.usec) * 1e3, MaxNS: longestBucket(b.buckets, c.buckets)}
		s.Calls = append(s.Calls, x)
		s.Count, s.NS = clamp(s.Count+x.Count), clamp(s.NS+x.NS)
	}
	for name := range a.before.commands {
		if _, ok := after[name]; !ok {
			s.Reset = true // CONFIG RESETSTAT: what was not called since is not listed
		}
	}
}

// longestBucket returns in ns what no call between two histograms took longer than, 0 if they do
// not tell.
func longestBucket(before, after map[int64]int64) int64 {
	var longest int64
	for usec, n := range after {
		if n > before[usec] {
			longest = max(longest, usec)
		}
	}
	if longest > topBucket {
		return 0
	}
	return longest * 1e3
}

// slow asks for the entries of SLOWLOG since the first question.
func (a *redisAsker) slow(ctx context.Context, x *session) error {
	entries, err := redis.Values(x.do(ctx, "SLOWLOG", "GET", MaxSlow))
	if err != nil {
		x.s.SlowAboveNS = nil
		x.s.refused("SLOWLOG", err)
		return err
	}
	newest, got := a.before.slowest, int64(0)
	for _, v := range entries {
		id, e, ok := slowEntry(v)
		if !ok || id <= a.before.slowest {
			continue
		}
		newest = max(newest, id)
		if got++; !a.ours(x, v) {
			x.s.Slow = append(x.s.Slow, e)
		}
	}
	x.s.SlowLost = clamp(newest - a.before.slowest - got)
	return nil
}

// ours reports whether an entry of SLOWLOG is of one of our own questions.
func (a *redisAsker) ours(x *session, v any) bool {
	f, _ := redis.Values(v, nil)
	if len(f) < 5 {
		return false
	}
	addr, _ := redis.String(f[4], nil)
	return addr == x.guard.LocalAddr().String()
}

// events asks for the latency events since the first question.
func (a *redisAsker) events(ctx context.Context, x *session) error {
	latest, err := redis.Values(x.do(ctx, "LATENCY", "LATEST"))
	if err != nil {
		x.s.EventsAboveNS = nil
		x.s.refused("latency events (redis 2.8.13 or newer)", err)
		return err
	}
	for _, v := range latest[:min(len(latest), MaxEvents)] {
		f, err := redis.Values(v, nil)
		if err != nil || len(f) < 2 {
			continue
		}
		name, err1 := redis.String(f[0], nil)
		at, err2 := redis.Int64(f[1], nil)
		if errors.Join(err1, err2) != nil || word(name) == "?" || at < a.before.seconds {
			continue
		}
		history, err := redis.Values(x.do(ctx, "LATENCY", "HISTORY", name))
		if err != nil {
			return err
		}
		e := Event{Name: name}
		for _, v := range history {
			point, err := redis.Int64s(v, nil)
			if err != nil || len(point) != 2 || point[0] < a.before.seconds {
				continue
			}
			e.Count++
			e.MaxNS = max(e.MaxNS, fromFloat(float64(point[1]), 1e6))
		}
		if e.Count > 0 {
			x.s.Events = append(x.s.Events, e)
		}
	}
	return nil
}

// percentiles asks for those since redis started, from version 7 on.
func (a *redisAsker) percentiles(ctx context.Context, x *session) error {
	in, err := x.info(ctx, "latencystats")
	if err != nil {
		return err
	}
	for i := range x.s.Calls {
		c := &x.s.Calls[i]
		for field := range strings.SplitSeq(in["latency_percentiles_usec_"+c.Name], ",") {
			k, v, _ := strings.Cut(field, "=")
			usec, err := strconv.ParseFloat(v, 64)
			to := map[string]*int64{"p50": &c.P50NS, "p99": &c.P99NS, "p99.9": &c.P999NS}[k]
			if err == nil && to != nil {
				*to = fromFloat(usec, 1e3)
			}
		}
	}
	return nil
}

// bound enters what no command of the window took longer than.
func (a *redisAsker) bound(s *Server, after map[string]counted, own map[string]int64) {
	if s.Reset || s.Restarted {
		return
	}
	known := len(s.Calls) > 0
	for _, c := range s.Calls {
		known = known && c.MaxNS > 0
		s.BoundNS = max(s.BoundNS, c.MaxNS)
	}
	if !known {
		s.BoundNS = 0
	}
	if s.SlowAboveNS == nil || *s.SlowAboveNS < 0 || s.SlowLost > 0 {
		return
	}
	logged := *s.SlowAboveNS
	for _, e := range s.Slow {
		logged = max(logged, e.NS)
	}
	if s.BoundNS == 0 || logged < s.BoundNS {
		s.BoundNS = logged
	}
}

const refusesLogin = "it refuses the login"

// needless reports whether redis refused a password because it wants none: one
// environment variable has the passwords of all.
func needless(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused) &&
		(strings.Contains(string(refused), "without any password configured") || strings.Contains(string(refused), "no password is set")) // before version 6
}

// redisWhy says what an error means, and what to do about it; "" if it is no
// refusal of redis.
func redisWhy(err error) (text, command string) {
	var refused redis.Error
	if !errors.As(err, &refused) {
		return "", ""
	}
	code, _, _ := strings.Cut(string(refused), " ")
	switch code {
	case "NOAUTH":
		return "it asks for a password", "REDISCLI_AUTH=PASSWORD whylate ... --redis HOST:PORT"
	case "WRONGPASS":
		return refusesLogin, "REDISCLI_AUTH=PASSWORD whylate ... --redis HOST:PORT, or redis://USER@HOST:PORT"
	case "NOPERM":
		return "the user may not ask: " + string(refused), "redis-cli ACL SETUSER NAME +info +slowlog|get +latency|latest +latency|history +latency|histogram +config|get +time"
	case "LOADING":
		return "it is loading its data", ""
	}
	if strings.Contains(string(refused), "invalid password") {
		return refusesLogin, "REDISCLI_AUTH=PASSWORD whylate ... --redis HOST:PORT"
	}
	return fmt.Sprintf("it answers %s", short(string(refused), 100)), ""
}
