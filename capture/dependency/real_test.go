package dependency_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/dependency/dependencytest"
)

// watch asks targets before and after do, reads back what was written, and returns it.
func watch(t *testing.T, do func(), targets ...dependency.Target) []dependency.Server {
	t.Helper()
	r := dependency.Start(t.Context(), targets)
	do()
	var file bytes.Buffer
	if _, err := r.Stop(&file); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", file.String())
	got, err := dependency.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(targets) {
		t.Fatalf("%d servers of %d", len(got), len(targets))
	}
	return got
}

func redisAt(t *testing.T, addr string) dependency.Target {
	t.Helper()
	target, err := dependency.NewRedis(addr)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func postgresAt(t *testing.T, dsn string) dependency.Target {
	t.Helper()
	target, err := dependency.NewPostgres(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func call(s dependency.Server, name string) *dependency.Call {
	for i := range s.Calls {
		if strings.Contains(s.Calls[i].Name, name) {
			return &s.Calls[i]
		}
	}
	return nil
}

// missing returns why something is missing, with what to do; "" if it is not.
func missing(s dependency.Server, what string) string {
	for _, m := range s.Missing {
		if strings.Contains(m.What, what) {
			return m.Why + " → " + m.Command
		}
	}
	return ""
}

func busy(usec int) []any { return []any{"EVAL", dependencytest.Busy, 0, usec} }

func TestRedisTellsWhatItDidInTheWindow(t *testing.T) {
	s := dependencytest.Redis(t, "--latency-monitor-threshold", "10")
	secret := "customer:4711:card"
	s.Do(busy(30_000), []any{"SET", secret, "x"}, []any{"GET", secret}) // before: must not count
	got := watch(t, func() {
		for range 5 {
			s.Do([]any{"GET", secret}, []any{"SET", secret, "y"})
		}
		s.Do(busy(30_000), busy(20_000), []any{"EVAL", "return 1", 1, secret})
	}, redisAt(t, s.Addr))[0]
	if !got.Answered() || got.Restarted || got.Reset || got.Peer != s.Addr || got.Kind != "redis" || got.Version == "" {
		t.Errorf("%+v", got)
	}
	for name, n := range map[string]int64{"get": 5, "set": 5, "eval": 3} {
		if c := call(got, name); c == nil || c.Count != n || c.NS <= 0 {
			t.Errorf("%s: %+v, want %d calls", name, c, n)
		}
	}
	if c := call(got, "info"); c != nil {
		t.Errorf("our own questions count: %+v", c)
	}
	if c := call(got, "eval"); c != nil && (c.NS < 50e6 || c.MaxNS < 30e6 && c.MaxNS != 0) {
		t.Errorf("%+v", c)
	}
	// A machine that stops redis in the middle of it makes the script's TIME slow, too.
	slow := slices.DeleteFunc(slices.Clone(got.Slow), func(e dependency.Slow) bool { return e.Command == "TIME" })
	if len(slow) != 2 || slow[0].Command != "EVAL" || slow[0].NS < 30e6 || slow[1].NS < 20e6 || got.SlowLost != 0 {
		t.Errorf("slow: %+v", got.Slow)
	}
	if name, ns := got.Longest(); name != "EVAL" || ns < 30e6 || got.BoundNS < ns {
		t.Errorf("the longest is %s, %d ns, the bound %d", name, ns, got.BoundNS)
	}
	if len(got.Events) == 0 || got.Events[0].MaxNS < 20e6 || got.Events[0].Count > 3 {
		t.Errorf("events: %+v", got.Events)
	}
	if got.Busy == nil || *got.Busy <= 0 {
		t.Errorf("busy: %v", got.Busy)
	}
	if got.Asked < 10 || got.Asked > 30 || got.AskedNS <= 0 || len(got.Missing) != 0 {
		t.Errorf("asked %d times, %d ns; missing %+v", got.Asked, got.AskedNS, got.Missing)
	}
	if text, _ := json.Marshal(got); strings.Contains(string(text), "4711") {
		t.Errorf("a key is in the file: %s", text)
	}
}

func TestAFastRedisGivesABoundAndSaysWhatIsNotMonitored(t *testing.T) {
	s := dependencytest.Redis(t)
	got := watch(t, func() { s.Do([]any{"SET", "a", "b"}, []any{"GET", "a"}) }, redisAt(t, "redis://"+s.Addr+"/0"))[0]
	if got.Count != 2 || len(got.Slow) != 0 || got.BoundNS <= 0 || got.BoundNS > 10e6 {
		t.Errorf("%+v", got)
	}
	if m := missing(got, "latency events"); !strings.Contains(m, "latency-monitor-threshold 10") {
		t.Errorf("latency events: %q", m)
	}
}

// SLOWLOG is a ring: what fell out of it is counted, and there is no bound from it.
func TestWhatFellOutOfTheSlowLogIsCounted(t *testing.T) {
	s := dependencytest.Redis(t, "--slowlog-log-slower-than", "0", "--slowlog-max-len", "10")
	got := watch(t, func() {
		for range 50 {
			s.Do([]any{"GET", "a"})
		}
	}, redisAt(t, s.Addr))[0]
	if got.SlowLost < 40 || len(got.Slow) > 10 {
		t.Errorf("lost %d, kept %d", got.SlowLost, len(got.Slow))
	}
}

func TestARedisThatWantsAPasswordGetsItAndItIsNotKept(t *testing.T) {
	const secret = "hunter-zwei"
	s, open := dependencytest.Redis(t, "--requirepass", secret), dependencytest.Redis(t)
	for name, c := range map[string]struct {
		addr, env, why string
	}{
		"in the address":        {"redis://default:" + secret + "@" + s.Addr, "", ""},
		"in the environment":    {s.Addr, secret, ""},
		"none":                  {s.Addr, "", "asks for a password"},
		"a wrong one":           {s.Addr, "wrong-" + secret, "refuses the login"},
		"a user without name":   {"redis://:" + secret + "@" + s.Addr, "", ""},
		"one that wants none":   {open.Addr, secret, ""},
		"a user of an open one": {"redis://nobody@" + open.Addr, secret, "refuses the login"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("REDISCLI_AUTH", c.env)
			got := watch(t, func() {}, redisAt(t, c.addr))[0]
			if got.Answered() != (c.why == "") {
				t.Errorf("%+v", got)
			}
			if m := missing(got, "own word"); !strings.Contains(m, c.why) {
				t.Errorf("%q", m)
			}
			if text, _ := json.Marshal(got); strings.Contains(string(text), secret) {
				t.Errorf("the password is in the file: %s", text)
			}
		})
	}
}

func TestAUserWithoutRightsGetsWhatItMaySee(t *testing.T) {
	s := dependencytest.Redis(t)
	s.Do([]any{"ACL", "SETUSER", "reader", "on", ">pw", "+info", "+time"}, []any{"ACL", "SETUSER", "nobody", "on", ">pw", "+get", "~*"})
	got := watch(t, func() { s.Do([]any{"SET", "a", "b"}) }, redisAt(t, "redis://reader:pw@"+s.Addr), redisAt(t, "redis://nobody:pw@"+s.Addr))
	if c := call(got[0], "set"); !got[0].Answered() || c == nil || c.Count != 1 {
		t.Errorf("%+v", got[0])
	}
	for _, what := range []string{"SLOWLOG", "latency events", "HISTOGRAM"} {
		if m := missing(got[0], what); !strings.Contains(m, "may not") || !strings.Contains(m, "ACL SETUSER") {
			t.Errorf("%s: %q", what, m)
		}
	}
	if got[1].Answered() || !strings.Contains(missing(got[1], "own word"), "may not") {
		t.Errorf("%+v", got[1])
	}
}

func TestARestartIsSaid(t *testing.T) {
	s := dependencytest.Redis(t)
	for range 20 {
		s.Do([]any{"SET", "a", "b"})
	}
	got := watch(t, func() {
		s.Kill()
		s.Start()
		s.Do([]any{"GET", "a"}, busy(20_000))
	}, redisAt(t, s.Addr))[0]
	if !got.Answered() || !got.Restarted || got.BoundNS != 0 {
		t.Errorf("%+v", got)
	}
	if c := call(got, "get"); c == nil || c.Count != 1 {
		t.Errorf("since the restart: %+v", got.Calls)
	}
	if len(got.Slow) == 0 || got.Slow[0].Command != "EVAL" {
		t.Errorf("%+v", got.Slow)
	}
}

func TestCountersThatSomebodyResetAreSaid(t *testing.T) {
	s := dependencytest.Redis(t)
	s.Do([]any{"SET", "a", "b"}, []any{"SET", "a", "b"}, []any{"DEL", "a"})
	got := watch(t, func() { s.Do([]any{"CONFIG", "RESETSTAT"}, []any{"SET", "a", "b"}) }, redisAt(t, s.Addr))[0]
	if !got.Reset || got.Restarted || got.BoundNS != 0 {
		t.Errorf("%+v", got)
	}
}

// Whatever stands there instead of a dependency, recording goes on, with one line.
func TestWhatIsNoDependencyIsOneLine(t *testing.T) {
	real := dependencytest.Redis(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		name, addr, want string
		both             bool // also for postgres
	}{
		{"nothing", closed.Addr().String(), "connection refused", true},
		{"a server of HTTP", serve(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak", true},
		{"one that says nothing", serve(t, ""), "no answer within 1s", true},
		{"one that hangs up", serve(t, "bye"), "", true},
		{"one with a huge string", serve(t, "$2147483647\r\n"), "longer than any", false},
		{"one with a huge array", serve(t, "*2147483647\r\n"), "longer than any", false},
		{"one with no end of arrays", serve(t, strings.Repeat("*1\r\n", 100_000)), "longer than any", false},
		{"one whose length is no number", serve(t, "$9999999999999999999999\r\n"), "does not speak", false},
		{"one with a line without end", serve(t, "+"+strings.Repeat("x", 1<<20)), "longer than any", false},
		{"one with other text", serve(t, "+hello\r\n"), "", false},
		{"a name that there is not", "no-such-host.invalid:6379", "", true},
		{"a redis asked as postgres", real.Addr, "no answer within 1s", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			targets := []dependency.Target{postgresAt(t, "postgres://someone:hunter@"+c.addr+"/db?sslmode=disable")}
			if c.addr != real.Addr {
				targets = append(targets, redisAt(t, c.addr))
			}
			if !c.both {
				targets = targets[1:]
			}
			for _, s := range watch(t, func() {}, targets...) {
				if s.Answered() || len(s.Missing) != 1 || !strings.Contains(s.Missing[0].Why, c.want) || s.Missing[0].Why == "" {
					t.Errorf("%s: %+v, want %q", s.Kind, s, c.want)
				}
			}
		})
	}
}

// serve answers every connection with the same bytes, whatever it is asked; with
// none, it never answers.
func serve(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if answer == "" {
					<-ctx.Done()
					return
				}
				_, _ = c.Read(make([]byte, 4096))
				_, _ = c.Write([]byte(answer))
			}()
		}
	}()
	return l.Addr().String()
}

func TestARedisThatStopsAnsweringDoesNotHoldUpTheRecording(t *testing.T) {
	s := dependencytest.Redis(t)
	got := watch(t, func() { s.Pause() }, redisAt(t, s.Addr))[0]
	if got.Answered() || !strings.Contains(missing(got, "own word"), "after the recording: no answer") {
		t.Errorf("%+v", got)
	}
}
