package diagnose

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" // of the target
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/dependency/dependencytest"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
)

// shopEnv tells the test's own program to be the target: which kind of dependency
// it has, and where.
const shopEnv = "WHYLATE_TEST_SHOP"

func TestMain(m *testing.M) {
	if kind, addr, ok := strings.Cut(os.Getenv(shopEnv), " "); ok {
		err := shop(kind, addr)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// slowly is how long the slow commands take, and oneIn how many requests has one.
const (
	slowly = 30 * time.Millisecond
	oneIn  = 33
)

// shop serves requests that ask a dependency, some of them for something slow, until
// its standard input ends.
func shop(kind, addr string) error {
	ask, err := map[string]func(string) (func(bool) error, error){"redis": askRedis, "postgres": askPostgres}[kind](addr)
	if err != nil {
		return err
	}
	var n atomic.Int64
	http.HandleFunc("/order", func(w http.ResponseWriter, _ *http.Request) {
		if err := ask(n.Add(1)%oneIn == 0); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is all that matters
		l.Close()
	}()
	return http.Serve(l, nil)
}

func askRedis(addr string) (func(slow bool) error, error) {
	pool := &redis.Pool{MaxIdle: 32, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	return func(slow bool) error {
		c := pool.Get()
		defer c.Close()
		if slow && os.Getenv(shopEnv+"_FAST") == "" {
			_, err := c.Do("EVAL", dependencytest.Busy, 0, slowly.Microseconds())
			return err
		}
		_, err := c.Do("INCR", "orders")
		return err
	}, nil
}

func askPostgres(dsn string) (func(slow bool) error, error) {
	idle := make(chan *pgconn.PgConn, 32)
	return func(slow bool) error {
		var c *pgconn.PgConn
		select {
		case c = <-idle:
		default:
			var err error
			if c, err = pgconn.Connect(context.Background(), dsn); err != nil {
				return err
			}
		}
		sql := "SELECT id FROM orders WHERE id = 7"
		if slow {
			sql = fmt.Sprintf("SELECT pg_sleep(%f)", slowly.Seconds())
		}
		err := c.Exec(context.Background(), sql).Close()
		if err == nil {
			idle <- c
		}
		return err
	}, nil
}

// openShop starts the target and clients that send until the test ends. It returns
// its URL.
func openShop(t *testing.T, kind, addr string, env ...string) string {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(append(os.Environ(), env...), shopEnv+"="+kind+" "+addr)
	c.Stderr = os.Stderr
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.TrimSpace(url)
	ctx, cancel := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	for range 4 {
		sending.Go(func() {
			for ctx.Err() == nil {
				resp, err := client.Get(url + "/order")
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body) // it is empty
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("%s answers %s", url, resp.Status)
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(8 * time.Millisecond): // between two requests of a client
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		sending.Wait()
		client.CloseIdleConnections()
		in.Close()
		_ = c.Wait() // it ends with 1, because its listener was closed
	})
	return url
}

// recordShop records the target beside its dependencies and diagnoses the file. It
// returns what the dependencies said, too.
func recordShop(t *testing.T, url string, noHost bool, deps ...dependency.Target) (*report.Diagnosis, []dependency.Server) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.whylate")
	if _, err := Record(t.Context(), url, file, RecordOptions{
		Capture: pprofhttp.Options{For: 5 * time.Second, NoProbe: true}, Dependencies: deps,
	}); err != nil {
		t.Fatal(err)
	}
	in, err := evidence.Open(file, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	said, err := dependencies(in)
	if err != nil || len(said) != len(deps) {
		t.Fatalf("%+v, %v", said, err)
	}
	d, err := Analyse(in, AnalyseOptions{NoHost: noHost, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	if d.Check.WorstNS != 0 {
		t.Errorf("%+v", d.Check)
	}
	var text strings.Builder
	if err := report.Terminal(&text, d, report.TerminalOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	return d, said
}

// toldOf checks what a live diagnosis has to say whoever else uses the machine: it is
// slow-dependency, or host-contention, or one of them, and in what it says of
// slow-dependency the peer has its name and each of lines, which are parts of one, is there.
// What follows from figures is tested where they do not depend on the machine, in package cause.
func toldOf(t *testing.T, d *report.Diagnosis, peer string, lines ...[]string) {
	t.Helper()
	var causes []string
	check := func(summary string, evidence []string) {
		if !strings.Contains(summary, "for "+peer) {
			t.Errorf("%s, want for %s", summary, peer)
		}
		for _, parts := range lines {
			if !says(evidence, parts...) {
				t.Errorf("evidence %q, want %q", evidence, parts)
			}
		}
	}
	for _, f := range d.Findings {
		if causes = append(causes, f.Cause); f.Cause == "slow-dependency" {
			check(f.Summary, f.Evidence)
		}
	}
	for _, c := range d.ConsistentWith {
		if causes = append(causes, c.Causes...); c.Causes[0] == "slow-dependency" {
			check(c.Summary, c.Evidence)
		}
	}
	if !slices.Contains(causes, "slow-dependency") && !slices.Contains(causes, "host-contention") {
		t.Errorf("%q: %s", causes, d.Sentence)
	}
}

// planted checks the figures of calls that take slowly or longer, on any machine.
func planted(t *testing.T, s dependency.Server, addr, name string) {
	t.Helper()
	if !s.Answered() || s.Peer != addr {
		t.Errorf("%+v", s)
	}
	for _, c := range s.Calls {
		if c.Name == name && c.Count > 0 && c.NS >= c.Count*slowly.Nanoseconds()*9/10 {
			return
		}
	}
	t.Errorf("no %s of %s: %+v", name, slowly, s.Calls)
}

func redisAt(t *testing.T, addr string) dependency.Target {
	t.Helper()
	target, err := dependency.NewRedis(addr)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func says(lines []string, parts ...string) bool {
	for _, l := range lines {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(l, p)
		}
		if all {
			return true
		}
	}
	return false
}

func TestASlowRedisSaysSoItself(t *testing.T) {
	s := dependencytest.Redis(t)
	d, said := recordShop(t, openShop(t, "redis", s.Addr), false, redisAt(t, s.Addr))
	planted(t, said[0], s.Addr, "eval")
	toldOf(t, d, "redis "+s.Addr, []string{"redis " + s.Addr + " itself (the only peer", "in SLOWLOG (", "mean eval "})
	if len(d.Cost.Asked) != 1 || d.Cost.Asked[0].Commands < 10 || d.Cost.Asked[0].NS <= 0 {
		t.Errorf("%+v", d.Cost.Asked)
	}
	monitored := true
	for _, n := range d.NotRecorded {
		monitored = monitored && !(n.What == "redis "+s.Addr && strings.Contains(n.Why, "latency-monitor-threshold"))
	}
	if monitored {
		t.Errorf("%+v", d.NotRecorded)
	}
}

// The best evidence of SLOWLOG is a command of somebody else: the service itself
// sends only fast ones.
func TestARedisThatSomebodyElseKeepsBusySaysSo(t *testing.T) {
	s := dependencytest.Redis(t)
	url := openShop(t, "redis", s.Addr, shopEnv+"_FAST=1")
	ctx, cancel := context.WithCancel(context.Background())
	var other sync.WaitGroup
	other.Go(func() {
		for ctx.Err() == nil {
			s.Do([]any{"EVAL", dependencytest.Busy, 0, slowly.Microseconds()})
			select {
			case <-ctx.Done():
			case <-time.After(350 * time.Millisecond): // between two of the other's commands
			}
		}
	})
	t.Cleanup(func() { cancel(); other.Wait() })
	d, said := recordShop(t, url, false, redisAt(t, s.Addr))
	planted(t, said[0], s.Addr, "eval")
	toldOf(t, d, "redis "+s.Addr, []string{"redis " + s.Addr + " itself (", "in SLOWLOG (", "mean eval "})
}

// late forwards connections and holds up every so many answers.
func late(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var n atomic.Int64
	forward := func(to, from net.Conn, hold bool) {
		defer to.Close()
		buf := make([]byte, 64<<10)
		for {
			k, err := from.Read(buf)
			if err != nil {
				return
			}
			if hold && n.Add(1)%oneIn == 0 {
				time.Sleep(slowly) // the fault
			}
			if _, err := to.Write(buf[:k]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			peer, err := net.Dial("tcp", addr)
			if err != nil {
				c.Close()
				continue
			}
			go forward(peer, c, false)
			go forward(c, peer, true)
		}
	}()
	return l.Addr().String()
}

// That it was fast, so that the time is between, is not said here: a machine may stop
// redis for milliseconds.
func TestARedisBehindASlowNetworkIsThePeerAtTheAddressOfTheNetwork(t *testing.T) {
	s := dependencytest.Redis(t)
	proxy := late(t, s.Addr)
	d, said := recordShop(t, openShop(t, "redis", proxy, shopEnv+"_FAST=1"), false, redisAt(t, proxy), redisAt(t, s.Addr))
	for i, addr := range []string{proxy, s.Addr} {
		if x := said[i]; !x.Answered() || x.Peer != addr || !slices.ContainsFunc(x.Calls, func(c dependency.Call) bool { return c.Name == "incr" && c.Count > 0 }) {
			t.Errorf("%+v", x)
		}
	}
	toldOf(t, d, "redis "+proxy, []string{"redis " + proxy + " itself (the only peer", " in SLOWLOG", " commands, mean "},
		[]string{"whoever the slow peer is (the process had no connection to this one", "redis " + s.Addr + " says of itself"})
}

func TestASlowPostgresSaysSoItself(t *testing.T) {
	s := dependencytest.Postgres(t, "shared_preload_libraries=pg_stat_statements")
	s.Exec("CREATE EXTENSION pg_stat_statements", "CREATE TABLE orders (id int)")
	target, err := dependency.NewPostgres(s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	d, said := recordShop(t, openShop(t, "postgres", s.DSN), true, target)
	planted(t, said[0], s.Addr, "SELECT pg_sleep($1)")
	toldOf(t, d, said[0].Name(), []string{"postgres " + s.Addr + " itself (the waits are in a client of postgres)", "mean SELECT pg_sleep($1) ", "longest "})
}

// Whatever happens to the dependency, the service is diagnosed.
func TestADependencyThatIsNotThereDoesNotStopADiagnosis(t *testing.T) {
	file := filepath.Join(t.TempDir(), "live.whylate")
	_, err := Record(t.Context(), serveUnderLoad(t, 4), file, RecordOptions{
		Capture:      pprofhttp.Options{For: 2 * time.Second, NoProbe: true},
		Dependencies: []dependency.Target{redisAt(t, "127.0.0.1:1")},
	})
	if err != nil {
		t.Fatal(err)
	}
	in, err := evidence.Open(file, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	said, err := dependencies(in)
	if err != nil || len(said) != 1 || said[0].Answered() {
		t.Errorf("%+v, %v", said, err)
	}
	d, err := Analyse(in, AnalyseOptions{})
	if err != nil || d.Requests.Count == 0 {
		t.Fatal(err)
	}
	n := 0
	for _, x := range d.NotRecorded {
		if x.What == "redis 127.0.0.1:1" {
			n++
			if !strings.Contains(x.Why, "connection refused") {
				t.Errorf("%+v", x)
			}
		}
	}
	if n != 1 {
		t.Errorf("%+v", d.NotRecorded)
	}
}
