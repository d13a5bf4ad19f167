// Package dependencytest starts real servers for tests: a redis or a postgres on a
// free port of the loopback, with a folder of its own, stopped when the test ends.
package dependencytest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/whylate/whylate/internal/need"
)

// What WHYLATE_REQUIRE calls the servers.
const (
	FeatureRedis    = "redis-server"
	FeaturePostgres = "postgres"
)

// needProgram skips a test, loudly, where a program is missing.
func needProgram(t testing.TB, feature, program string, found bool) {
	t.Helper()
	var err error
	if !found {
		err = fmt.Errorf("there is no %s (apt-get install redis-server postgresql postgresql-contrib)", program)
	}
	need.Feature(t, feature, err)
}

// start is how long a server may take to answer.
const start = 30 * time.Second

// Server is a running server.
type Server struct {
	t testing.TB
	// Addr is its host:port, DSN a postgres's connection string.
	Addr, DSN string
	command   func() *exec.Cmd
	answers   func() error
	cmd       *exec.Cmd
	exited    chan struct{}
}

// port returns a port that is free now. Between this and the server's start it may be
// taken; launch tries again.
func port(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Redis starts a redis that keeps nothing on disk; args are settings as on its
// command line, such as --latency-monitor-threshold 10.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	needProgram(t, FeatureRedis, "redis-server", err == nil)
	s := &Server{t: t}
	n := port(t)
	s.Addr = fmt.Sprintf("127.0.0.1:%d", n)
	dir := t.TempDir()
	s.command = func() *exec.Cmd {
		c := exec.Command(program, append([]string{"--port", strconv.Itoa(n), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}, args...)...)
		c.Dir = dir
		return c
	}
	s.answers = func() error {
		c, err := redis.Dial("tcp", s.Addr, redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Do("PING")
		if refused, ok := err.(redis.Error); ok && !strings.HasPrefix(string(refused), "LOADING") {
			return nil // it wants a password
		}
		return err
	}
	s.Start()
	return s
}

// Do sends commands to a redis, each its words.
func (s *Server) Do(commands ...[]any) {
	s.t.Helper()
	c, err := redis.Dial("tcp", s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	for _, words := range commands {
		if _, err := c.Do(words[0].(string), words[1:]...); err != nil {
			s.t.Fatalf("%v: %v", words[0], err)
		}
	}
}

// Busy is a redis script that keeps redis busy for so many µs, its first argument.
const Busy = `local function now() local t = redis.call('TIME'); return t[1] * 1000000 + t[2] end
local till = now() + ARGV[1]
while now() < till do end
return 1`

// Postgres starts a postgres with a fresh cluster; settings are lines of its
// configuration. It refuses to run as root: then it runs as postgres or nobody.
func Postgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	bin := postgresBin()
	needProgram(t, FeaturePostgres, "initdb", bin != "")
	dir, err := os.MkdirTemp("", "whylate-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := unprivileged(t, dir)
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8")
	initdb.Dir, initdb.SysProcAttr = dir, as
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s := &Server{t: t}
	n := port(t)
	s.Addr = fmt.Sprintf("127.0.0.1:%d", n)
	s.DSN = fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", s.Addr)
	args := []string{"-D", data, "-p", strconv.Itoa(n), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"}
	for _, line := range settings {
		args = append(args, "-c", line)
	}
	s.command = func() *exec.Cmd {
		c := exec.Command(filepath.Join(bin, "postgres"), args...)
		c.Dir, c.SysProcAttr = dir, as
		return c
	}
	s.answers = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c, err := pgconn.Connect(ctx, s.DSN)
		if err != nil {
			return err
		}
		return c.Close(ctx)
	}
	s.Start()
	return s
}

// postgresBin is the folder of initdb: in PATH, or where Debian has its versions.
func postgresBin() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is well-formed
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// Exec runs statements on a connection of its own each.
func (s *Server) Exec(statements ...string) {
	s.t.Helper()
	for _, sql := range statements {
		if err := s.exec(sql); err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// Connect returns a connection to a postgres that stays open until the test ends: a
// function that sends a statement and returns the first value of its first row.
func (s *Server) Connect() (do func(sql string) string) {
	s.t.Helper()
	c, err := pgconn.Connect(context.Background(), s.DSN)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close(context.Background()) }) // nothing is lost with it
	return func(sql string) string {
		s.t.Helper()
		results, err := c.Exec(context.Background(), sql).ReadAll()
		if err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
		if len(results) == 0 || len(results[0].Rows) == 0 {
			return ""
		}
		return string(results[0].Rows[0][0])
	}
}

func (s *Server) exec(sql string) error {
	ctx := context.Background()
	c, err := pgconn.Connect(ctx, s.DSN)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return c.Exec(ctx, sql).Close()
}

// Start starts the server and waits until it answers. Redis and Postgres have called it.
func (s *Server) Start() {
	s.t.Helper()
	cmd := s.command()
	log := &tail{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = cmd
	exited := make(chan struct{})
	s.exited = exited
	go func() { _ = cmd.Wait(); close(exited) }()
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		select {
		case <-exited:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-exited
		}
	})
	late := time.After(start)
	for {
		err := s.answers()
		if err == nil {
			return
		}
		select {
		case <-exited:
			s.t.Fatalf("%s ended: %s", cmd.Path, log)
		case <-late:
			s.t.Fatalf("%s does not answer: %v\n%s", cmd.Path, err, log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the server as an operator does.
func (s *Server) Stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	s.gone()
}

func (s *Server) gone() {
	for s.answers() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	<-s.exited
}

// Kill ends the server at once, as a crash does.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	s.gone()
}

// Pause stops the server without ending it, as a machine that swaps does; the
// function lets it go on.
func (s *Server) Pause() (resume func()) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(stopSignal); err != nil {
		s.t.Fatal(err)
	}
	resume = func() { _ = s.cmd.Process.Signal(continueSignal) }
	s.t.Cleanup(resume) // before the one that ends it: a stopped process would not see it
	return resume
}

// tail keeps the end of a server's log.
type tail struct{ b []byte }

var _ io.Writer = (*tail)(nil)

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-4000):]
	return len(p), nil
}

func (t *tail) String() string { return string(t.b) }
