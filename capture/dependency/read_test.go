package dependency

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/whylate/whylate/evidence"
)

// full is a Server as a recorder may write it.
func full() Server {
	n, busy := int64(10e6), 0.3
	return Server{
		Schema: Schema, Kind: Redis, Address: "127.0.0.1:6379", Peer: "127.0.0.1:6379", Version: "7.0.15", FromNS: 1e18, ToNS: 1e18 + 5e9,
		Count: 12, NS: 4e6, BoundNS: 3e6, Calls: []Call{{Name: "get", Count: 12, NS: 4e6, MaxNS: 3e6, P50NS: 1, P99NS: 2, P999NS: 3}},
		Slow: []Slow{{"EVAL", 31e6, 1e9}}, SlowAboveNS: &n, Events: []Event{{"fork", 1, 20e6}}, EventsAboveNS: &n, Busy: &busy,
		Waits: []Wait{{"Lock", "relation", 3, 2}}, Looks: 5, Asked: 12, AskedNS: 3e6, Missing: []Missing{{"SLOWLOG", "because", "do"}},
	}
}

func line(t testing.TB, s Server) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func TestReadGivesWhatWasWritten(t *testing.T) {
	a, b := full(), full()
	b.Kind = Postgres
	got, err := Read(strings.NewReader(line(t, a) + line(t, b)))
	if err != nil || !reflect.DeepEqual(got, []Server{a, b}) {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = Read(strings.NewReader(line(t, a) + line(t, b)[:100]))
	if err != nil || len(got) != 1 {
		t.Errorf("a cut file gives %+v, %v", got, err)
	}
}

func TestReadRefusesWhatNoRecorderWrites(t *testing.T) {
	with := func(change func(*Server)) string {
		s := full()
		change(&s)
		return line(t, s)
	}
	minus := int64(-2)
	for _, c := range []struct {
		name, file string
		want       error
	}{
		{"nothing", "", evidence.ErrMalformed},
		{"no JSON", "hello\n", evidence.ErrMalformed},
		{"another schema", `{"schema":"whylate.host/1"}`, evidence.ErrMalformed},
		{"a later version", `{"schema":"whylate.dependency/2","kind":7}`, evidence.ErrVersion},
		{"garbage between lines", line(t, full()) + "hello\n" + line(t, full()), evidence.ErrMalformed},
		{"too many servers", strings.Repeat(line(t, full()), MaxServers+1), evidence.ErrTooLarge},
		{"too long a line", `{"schema":"` + strings.Repeat("x", maxLine), evidence.ErrTooLarge},
		{"another kind", with(func(s *Server) { s.Kind = "oracle" }), evidence.ErrMalformed},
		{"too many calls", with(func(s *Server) { s.Calls = make([]Call, MaxCalls+1) }), evidence.ErrTooLarge},
		{"too many slow commands", with(func(s *Server) { s.Slow = make([]Slow, MaxSlow+1) }), evidence.ErrTooLarge},
		{"too long a text", with(func(s *Server) { s.Calls[0].Name = strings.Repeat("x", 3*MaxText) }), evidence.ErrTooLarge},
		{"a window that ends before it begins", with(func(s *Server) { s.ToNS = s.FromNS - 1 }), evidence.ErrMalformed},
		{"a negative sum", with(func(s *Server) { s.NS = -1 }), evidence.ErrMalformed},
		{"an endless call", with(func(s *Server) { s.Calls[0].MaxNS = 1 << 62 }), evidence.ErrMalformed},
		{"a negative entry", with(func(s *Server) { s.Slow[0].NS = -1 }), evidence.ErrMalformed},
		{"a negative event", with(func(s *Server) { s.Events[0].MaxNS = -1 }), evidence.ErrMalformed},
		{"a negative wait", with(func(s *Server) { s.Waits[0].Looks = -1 }), evidence.ErrMalformed},
		{"a threshold below none", with(func(s *Server) { s.SlowAboveNS = &minus }), evidence.ErrMalformed},
		{"ten thousand CPUs", with(func(s *Server) { *s.Busy = 1e4 }), evidence.ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := Read(strings.NewReader(c.file)); !errors.Is(err, c.want) {
				t.Errorf("%+v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// Whatever the recorder may write with all its lists full fits into a line.
func TestTheLargestRecordingCanBeRead(t *testing.T) {
	s, text := full(), strings.Repeat("\u00a0", MaxText/2)
	s.Calls, s.Slow, s.Events, s.Waits, s.Missing = nil, nil, nil, nil, nil
	for range 2 * MaxSlow {
		s.Calls = append(s.Calls, Call{Name: text})
		s.Slow = append(s.Slow, Slow{Command: text})
		s.Events = append(s.Events, Event{Name: text})
		s.Waits = append(s.Waits, Wait{Type: text, Event: text})
		s.Missing = append(s.Missing, Missing{text, text, text})
	}
	s.cut()
	if _, err := Read(strings.NewReader(line(t, s))); err != nil {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(line(f, full())))
	pg := full()
	pg.Kind = Postgres
	f.Add([]byte(line(f, full()) + line(f, pg)[:200]))
	f.Add([]byte(`{"schema":"whylate.dependency/1","kind":"redis","address":"\u202e","slow":[{"ns":1e30}]}`))
	f.Add([]byte(`{"schema":"whylate.dependency/2"}`))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Read(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, evidence.ErrMalformed) && !errors.Is(err, evidence.ErrTooLarge) && !errors.Is(err, evidence.ErrVersion) {
				t.Fatalf("%v", err)
			}
			return
		}
		var again bytes.Buffer
		for i := range got {
			if _, ns := got[i].Longest(); ns < 0 || ns > maxNS || got[i].WindowNS() < 1 {
				t.Fatalf("%+v", got[i])
			}
			again.WriteString(line(t, got[i]))
		}
		if _, err := Read(&again); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}

func TestStatementsHoldNoLiterals(t *testing.T) {
	for _, c := range []struct{ sql, want string }{
		{"SELECT a1 FROM t2 WHERE id = $1", "SELECT a1 FROM t2 WHERE id = $1"},
		{"CREATE USER x PASSWORD 'se''cret'", "CREATE USER x PASSWORD '…''…'"},
		{`SET x = E'a\'secret'`, "SET x = E'…'"},
		{"SELECT /* trace /* 1 */ 2 */ 1 -- secret\n FROM t", "SELECT ? FROM t"},
		{"DO $$ secret $$", "DO '…'"},
		{"DO $body$ secret $ $body$ x", "DO '…' x"},
		{`SELECT "Col 1", 'unfinished`, `SELECT "Col 1", '…'`},
		{"SET a = 4711.5", "SET a = ?"},
		{"a\n\tb\x1b[31m", "a b [?m"},
		{"/* unfinished", ""},
		{"$", "$"},
	} {
		if got := statement(c.sql); got != c.want {
			t.Errorf("%q gives %q, want %q", c.sql, got, c.want)
		}
	}
}

func FuzzStatement(f *testing.F) {
	for _, s := range []string{"SELECT $1", "'a", "$x$", "/*/**/", `"`, "\xff'", "1.2e5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := statement("SET x = '" + strings.ReplaceAll(s, "'", "") + "'"); len(got) > MaxText+3 || strings.ContainsAny(got, "\n\x1b") {
			t.Errorf("%q", got)
		}
	})
}

// FuzzGuard sends replies in pieces through the guard: what it lets pass is bounded.
func FuzzGuard(f *testing.F) {
	for _, s := range []string{"+OK\r\n", "$3\r\nabc\r\n", "*2\r\n:1\r\n*1\r\n$-1\r\n", "*-1\r\n", "$99999999\r\n", "*1\r\n*1\r\n", "-ERR x\r\n", "HTTP/1.1"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		g := &guard{}
		g.next()
		size = 1 + max(0, size)%64
		for len(b) > 0 {
			n := min(size, len(b))
			if g.scan(b[:n]) != nil {
				return
			}
			b = b[n:]
		}
		if len(g.open) > maxDepth || len(g.line) > maxRESPLine || g.skip > maxReply+2 || g.skip < 0 || g.elements < 0 {
			t.Errorf("%+v", g)
		}
	})
}
