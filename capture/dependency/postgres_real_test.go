package dependency_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/dependency/dependencytest"
)

const preload = "shared_preload_libraries=pg_stat_statements"

func TestPostgresTellsWhatItDidInTheWindow(t *testing.T) {
	s := dependencytest.Postgres(t, preload)
	s.Exec("CREATE EXTENSION pg_stat_statements", "CREATE TABLE orders (id int, name text)", "SELECT pg_sleep(0.4)")
	got := watch(t, func() {
		for range 5 {
			s.Exec("SELECT name FROM orders WHERE id = 471148151623 AND name = 'customer-7'")
		}
		s.Exec("/* traceparent=471148151623 */ SELECT count(*), pg_sleep(2.2) FROM orders", "CREATE USER somebody PASSWORD 'hunter-zwei'")
	}, postgresAt(t, s.DSN))[0]
	if !got.Answered() || got.Restarted || got.Reset || got.Peer != s.Addr || !strings.HasPrefix(got.Version, "1") {
		t.Errorf("%+v", got)
	}
	if c := call(got, "SELECT name FROM orders WHERE id = $1 AND name = $2"); c == nil || c.Count != 5 || c.NS <= 0 {
		t.Errorf("%+v in %+v", c, got.Calls)
	}
	c := call(got, "SELECT count(*), pg_sleep")
	if c == nil || c.Count != 1 || !c.Exact || c.MaxNS < 2.2e9 || c.MaxNS > c.NS+1000 {
		t.Errorf("%+v", c)
	}
	if name, ns := got.Longest(); c != nil && (name != c.Name || ns != c.MaxNS || got.BoundNS < ns) {
		t.Errorf("the longest is %s, %d ns, the bound %d", name, ns, got.BoundNS)
	}
	if c := call(got, "SELECT pg_sleep"); c != nil {
		t.Errorf("a statement from before the window: %+v", c)
	}
	if len(got.Waits) == 0 || got.Waits[0].Type != "Timeout" || got.Waits[0].Event != "PgSleep" || got.Looks < 2 {
		t.Errorf("%d looks: %+v", got.Looks, got.Waits)
	}
	text, _ := json.Marshal(got)
	for _, secret := range []string{"471148151623", "customer-7", "hunter-zwei", "traceparent", "pg_stat_"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s is in the file: %s", secret, text)
		}
	}
	if len(got.Missing) != 0 || got.Asked < 5 || got.Asked > 20 {
		t.Errorf("asked %d times, missing %+v", got.Asked, got.Missing)
	}
}

// await asks until there is an answer.
func await(t *testing.T, ask func(sql string) string, sql string) string {
	t.Helper()
	late := time.After(30 * time.Second) // the test has failed
	for {
		if answer := ask(sql); answer != "" {
			return answer
		}
		select {
		case <-late:
			t.Fatalf("no answer to %s", sql)
		case <-time.After(10 * time.Millisecond): // between two questions
		}
	}
}

func TestSessionsThatWaitForALockAreSeen(t *testing.T) {
	s := dependencytest.Postgres(t)
	s.Exec("CREATE TABLE orders (id int)")
	got := watch(t, func() {
		holder, ask := s.Connect(), s.Connect()
		holder("BEGIN")
		holder("LOCK TABLE orders")
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Exec("SELECT * FROM orders")
		}()
		since := await(t, ask, "SELECT clock_timestamp()::text FROM pg_locks WHERE relation = 'orders'::regclass AND NOT granted")
		for range 2 { // a second look begins when the first one's answer was read
			since = await(t, ask, "SELECT clock_timestamp()::text FROM pg_stat_activity WHERE application_name = 'whylate' AND state = 'idle' AND query_start > '"+since+"'")
		}
		holder("COMMIT")
		<-done
	}, postgresAt(t, s.DSN))[0]
	found := false
	for _, w := range got.Waits {
		found = found || w.Type == "Lock" && w.Event == "relation" && w.Looks >= 1 && w.Most == 1
	}
	if !found || !got.Answered() {
		t.Errorf("%+v", got)
	}
	if m := missing(got, "pg_stat_statements"); !strings.Contains(m, "CREATE EXTENSION pg_stat_statements") {
		t.Errorf("%q", m)
	}
}

func TestWhatIsMissingInPostgresComesWithWhatToDo(t *testing.T) {
	s := dependencytest.Postgres(t)
	s.Exec("CREATE EXTENSION pg_stat_statements", "CREATE USER reader")
	reader := strings.Replace(s.DSN, "postgres@", "reader@", 1)
	got := watch(t, func() {}, postgresAt(t, s.DSN), postgresAt(t, reader), postgresAt(t, strings.Replace(s.DSN, "/postgres?", "/nosuch?", 1)))
	if m := missing(got[0], "pg_stat_statements"); !strings.Contains(m, "not loaded") || !strings.Contains(m, "shared_preload_libraries") {
		t.Errorf("%q", m)
	}
	if m := missing(got[1], "other users"); !strings.Contains(m, "GRANT pg_monitor") {
		t.Errorf("%q", m)
	}
	if m := missing(got[2], "own word"); !strings.Contains(m, `"nosuch" does not exist`) {
		t.Errorf("%q", m)
	}
}

func TestStatementsOfOtherUsersAreCountedWithoutTheirText(t *testing.T) {
	s := dependencytest.Postgres(t, preload)
	s.Exec("CREATE EXTENSION pg_stat_statements", "CREATE USER reader")
	got := watch(t, func() { s.Exec("SELECT 1, pg_sleep(0.2)") }, postgresAt(t, strings.Replace(s.DSN, "postgres@", "reader@", 1)))[0]
	if c := call(got, "other users"); c == nil || c.NS < 200e6 {
		t.Errorf("%+v", got.Calls)
	}
}

func TestAPostgresThatRestartsSaysSo(t *testing.T) {
	s := dependencytest.Postgres(t, preload)
	s.Exec("CREATE EXTENSION pg_stat_statements", "SELECT 1", "SELECT 1")
	got := watch(t, func() {
		s.Stop()
		s.Start()
		s.Exec("SELECT pg_stat_statements_reset()", "SELECT 1")
	}, postgresAt(t, s.DSN))[0]
	if !got.Answered() || !got.Restarted {
		t.Errorf("%+v", got)
	}
}

func TestResetStatisticsAreSaid(t *testing.T) {
	s := dependencytest.Postgres(t, preload)
	s.Exec("CREATE EXTENSION pg_stat_statements", "SELECT 1", "SELECT 1")
	got := watch(t, func() { s.Exec("SELECT pg_stat_statements_reset()", "SELECT 1") }, postgresAt(t, s.DSN))[0]
	if !got.Reset || got.Restarted || got.BoundNS != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAPasswordOfPostgresIsNeitherPrintedNorKept(t *testing.T) {
	const secret = "hunter-zwei"
	for _, dsn := range []string{
		"postgres://someone:" + secret + "@host:port/db", "host=x password=" + secret + " port=nan", "postgres://someone:" + secret + "@%zz/",
		"postgres://someone:" + secret + "@127.0.0.1:1/db?sslmode=" + secret,
	} {
		_, err := dependency.NewPostgres(dsn)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	}
	for _, addr := range []string{"redis://:" + secret + "@", "redis://:" + secret + "@%zz", "http://:" + secret + "@host", ":" + secret + "@host:6379", "a b", "host:99999", ""} {
		_, err := dependency.NewRedis(addr)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", addr, err)
		}
	}
	s := dependencytest.Postgres(t)
	s.Exec("CREATE USER somebody PASSWORD '" + secret + "'")
	got := watch(t, func() {}, postgresAt(t, strings.Replace(s.DSN, "postgres@", "somebody:"+secret+"@", 1)))[0]
	if text, _ := json.Marshal(got); strings.Contains(string(text), secret) || !got.Answered() {
		t.Errorf("%s", text)
	}
}
