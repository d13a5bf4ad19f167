package redact

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/whylate/whylate/evidence"
)

// newTest returns a redactor whose key is always the same for a test: a random one makes, once in
// some hundred runs, an address or a number in which what the test looks for is by chance.
func newTest(t testing.TB, salt string) *redactor {
	t.Helper()
	if salt == "" {
		salt = t.Name()
	}
	n, err := newNames(salt)
	if err != nil {
		t.Fatal(err)
	}
	r := &redactor{names: n}
	r.begin()
	return r
}

// like reports whether a text is that of a pattern, in which x stands for a hash and X for
// that of an exported name.
func like(pattern, text string) bool {
	var b strings.Builder
	for _, c := range pattern {
		switch c {
		case 'x', 'X':
			b.WriteString(string(c) + `[a-z2-7]{9}`)
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return regexp.MustCompile("^" + b.String() + "$").MatchString(text)
}

func TestNamesOfFunctionsKeepTheirShape(t *testing.T) {
	for name, want := range map[string]string{
		"main.handle":            "main.x",
		"main.main":              "main.main",
		"main.(*cache).Get":      "main.(*x).X",
		"main.(*cache[...]).Get": "main.(*x[...]).X",
		"main.Map[go.shape.string,github.com/acme/a.T]":     "main.X[x]",
		"main.handle.func1.2.gowrap1":                       "main.x.func1.2.gowrap1",
		"main.handle.func1-range1":                          "main.x.func1-range1",
		"main.(*cache).Get-fm":                              "main.(*x).X-fm",
		"main.init.0":                                       "main.init.0",
		"main._Cfunc_deflate":                               "main._Cfunc_x",
		"github.com/acme/shop/v2/cart.(*Cart).Add":          "x/x/x/v2/x.(*X).X",
		"gopkg.in/acme%2ev3.Do":                             "x/x.X",
		"github.com/acme/shop.(*api).ServeHTTP":             "x/x/x.(*x).ServeHTTP",
		"github.com/acme/shop.(*tee).Write":                 "x/x/x.(*x).Write",
		"type:.eq.github.com/acme/shop.key":                 "type:.eq.x.x/x/x.x",
		"log/acme.Print":                                    "log/x.X",
		"deflate":                                           "x",
		"main.überweisung":                                  "main.x",
		"slices.SortFunc[go.shape.*github.com/acme/shop.T]": "slices.SortFunc[x]",
		"vendor/acme.com/x.F":                               "vendor/x/x.X",
	} {
		r := newTest(t, "salt")
		got := r.symbol(name)
		if !likeParts(want, got) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if again := newTest(t, "salt").symbol(name); again != got {
			t.Errorf("%s: %s and %s with the same salt", name, got, again)
		}
		if other := newTest(t, "").symbol(name); other == got && got != name {
			t.Errorf("%s: %s with another salt, too", name, got)
		}
	}
}

// likeParts compares element by element, so that an x within a word of the pattern is one.
func likeParts(pattern, text string) bool {
	split := regexp.MustCompile(`[^A-Za-z0-9_]+`)
	a, b := split.Split(pattern, -1), split.Split(text, -1)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		hash := a[i] == "x" || a[i] == "X"
		c, called := strings.CutPrefix(b[i], "_Cfunc_")
		if hash && !like(a[i], b[i]) || !hash && !(a[i] == b[i] || called && a[i] == "_Cfunc_x" && like("x", c)) {
			return false
		}
	}
	return strings.Join(split.FindAllString(pattern, -1), " ") == strings.Join(split.FindAllString(text, -1), " ")
}

func TestPublishedFunctionsKeepTheirNames(t *testing.T) {
	r := newTest(t, "")
	for _, name := range []string{
		"", "[not Go]", "runtime.gcBgMarkWorker", "runtime._VDSO", "net/http.(*conn).serve", "net/http.serverHandler.ServeHTTP",
		"internal/poll.(*FD).Read", "internal/runtime/maps.(*table).grow", "sync.(*Mutex).Lock", "net/http/internal/http2.(*ClientConn).RoundTrip",
		"vendor/golang.org/x/net/http/httpguts.ValidHeaderFieldName", "crypto/internal/fips140/aes.encrypt", "runtime/internal/syscall.Syscall6",
		"google.golang.org/grpc.(*Server).serveStreams.func2.1", "github.com/valyala/fasthttp.(*Server).serveConn",
		"github.com/jackc/pgx/v5/pgconn.Connect", "github.com/redis/rueidis.(*pipe).sync", "github.com/urfave/negroni.(*Negroni).ServeHTTP",
		"gopkg.in/natefinch/lumberjack%2ev2.(*Logger).Write", "modernc.org/libc.Xfsync", "github.com/valkey-io/valkey-go.(*pipe).sync",
		"github.com/go-pg/pg/v10.(*DB).Query", "golang.org/x/sync/singleflight.(*Group).doCall", "slices.SortFunc[...]", "sync/atomic.(*Pointer[...]).Load",
	} {
		if got := r.symbol(name); got != name {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// One name is one hash, in an import path, in a file and in the name of a type.
func TestANameHasOneHash(t *testing.T) {
	r := newTest(t, "")
	cart := r.name("cart")
	for _, got := range []string{r.symbol("acme/cart.New"), r.symbol("main.(*cart).add"), r.path("/srv/cart/a"), r.file("/build/cart/a.go"), r.file("/build/shop/cart.go"), r.module("acme/cart")} {
		if !strings.Contains(got, cart) {
			t.Errorf("%s is not in %s", cart, got)
		}
	}
	if r.name("cart") == r.name("Cart") || r.name("cart") == r.name("carts") {
		t.Error("two names have one hash")
	}
	if got := r.symbol("main." + strings.Repeat("a.", 500) + "b"); len(r.bounded(got, "main.(*x).Write")) > 40 || !strings.HasSuffix(r.bounded(got, "main.(*x).Write"), ").Write") {
		t.Errorf("%d bytes", len(r.bounded(got, "")))
	}
}

func TestTheSameHashIsNotGivenTwice(t *testing.T) {
	n := newTest(t, "").names
	same := func(try int) string { return strings.Repeat("h", 1+try) }
	if a, b, c := n.hashed(asName, "a", same), n.hashed(asName, "b", same), n.hashed(asName, "a", same); a != "h" || b != "hh" || c != "h" {
		t.Errorf("%s, %s, %s", a, b, c)
	}
	n.listed = maxListed
	if got := n.hashed(asName, "c", same); got == "" || n.unlisted != 1 || n.byHash[got] == "c" {
		t.Errorf("%s, %d unlisted", got, n.unlisted)
	}
}

func TestFilesKeepOnlyWhatIsPublished(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/local/go/src/net/http/server.go":                         "/x/x/x/src/net/http/server.go",
		"/home/bob/sdk/go1.26.8/src/runtime/proc.go":                   "/x/x/x/x/src/runtime/proc.go",
		"net/http/server.go":                                           "net/http/server.go",
		"/src/internal/billing/invoice.go":                             "/x/x/x/x.go",
		"/src/log/invoice.go":                                          "/x/x/x.go",
		"/home/bob/go/pkg/mod/github.com/jackc/pgx/v5@v5.5.0/conn.go":  "/x/x/x/x/x/github.com/jackc/pgx/v5@v5.5.0/conn.go",
		"github.com/jackc/pgx/v5@v5.5.0/conn.go":                       "github.com/jackc/pgx/v5@v5.5.0/conn.go",
		"/app/vendor/github.com/lib/pq/conn.go":                        "/x/vendor/github.com/lib/pq/conn.go",
		"/home/bob/go/pkg/mod/github.com/acme/pgx/v5@v5.5.0/secret.go": "/x/x/x/x/x/x/x/x/v5@v0/x.go",
		"/app/vendor/github.com/acme/pgx/secret.go":                    "/x/vendor/x/x/x/x.go",
		"github.com/acme/pgx@v1.2.3/secret.go":                         "x/x/x@v0/x.go",
		"./command-line-arguments/main.go":                             "./x/x.go",
		`C:\Users\bob\shop\main.go`:                                    `C:\X\x\x\x.go`,
		"<autogenerated>":                                              "<autogenerated>",
		"_cgo_gotypes.go":                                              "x.go",
		"/app/cart.secret":                                             "/x/x",
	} {
		if got := newTest(t, "").file(name); !likeParts(want, got) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// The list is compared with the toolchain: what is new in it would be hashed.
func TestTheStandardLibraryIsListed(t *testing.T) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no toolchain here: ", err)
	}
	root := filepath.Join(strings.TrimSpace(string(goroot)), "src")
	err = filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "cmd" || d.Name() == "vendor" || d.Name() == "builtin" || d.Name()[0] == '_') {
			return filepath.SkipDir
		}
		if dir := filepath.ToSlash(filepath.Dir(name)); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && dir != filepath.ToSlash(root) {
			pkg := strings.TrimPrefix(dir, filepath.ToSlash(root)+"/")
			if !standardPackage(pkg) {
				t.Errorf("%s is missing", pkg)
				return filepath.SkipDir
			}
		}
		return nil
	})
	if err != nil {
		t.Skip("no toolchain's source here: ", err)
	}
}

func TestPortsAreExchanged(t *testing.T) {
	r := newTest(t, "")
	seen := map[uint16]bool{}
	same := 0
	for p := range 1 << 16 {
		to := r.port(uint16(p))
		if seen[to] || (to == 0) != (p == 0) {
			t.Fatalf("%d becomes %d", p, to)
		}
		if seen[to] = true; int(to) == p {
			same++
		}
	}
	if same > 20 {
		t.Errorf("%d ports stay", same)
	}
}

func TestAddressesStayAddresses(t *testing.T) {
	r := newTest(t, "")
	for _, s := range []string{"10.0.0.3:6060", "[2001:db8::1]:443", "192.168.7.9", "[fe80::1%eth0]:80", "[::ffff:10.0.0.3]:6060"} {
		got := r.address(s)
		if _, err := netip.ParseAddrPort(got); err != nil && strings.Contains(s, "]") {
			t.Errorf("%s: %s", s, got)
		}
		if strings.Contains(got, "10.0.0") || strings.Contains(got, "2001:db8") || strings.Contains(got, "192.168") || strings.Contains(got, "eth0") || r.address(s) != got {
			t.Errorf("%s: %s", s, got)
		}
	}
	a, b := netip.MustParseAddrPort(r.address("10.0.0.3:6060")), netip.MustParseAddrPort(r.address("[::ffff:10.0.0.3]:6060"))
	if a.Port() != b.Port() || a.Addr() != b.Addr().Unmap() {
		t.Errorf("%s and %s", a, b)
	}
	for s, pattern := range map[string]string{
		"127.0.0.1": "127.0.0.1", "db.acme.internal": "x", "/var/run/redis.sock": "/x/x/x", "@abstract": "x", "localhost": "localhost",
	} {
		if got := r.address(s); !likeParts(pattern, got) && !like(pattern, got) {
			t.Errorf("%s: %s", s, got)
		}
	}
	if got := r.address("127.0.0.1:80"); !strings.HasPrefix(got, "127.0.0.1:") {
		t.Error(got)
	}
	if got := r.url("http://bob:pw@10.0.0.3:6060/team/debug/pprof?token=1"); !regexp.MustCompile(`^http://2[45]\d\.\d+\.\d+\.\d+:\d+/x[a-z2-7]{9}/debug/pprof$`).MatchString(got) {
		t.Error(got)
	}
}

func TestTextsKeepTheVocabulary(t *testing.T) {
	r := newTest(t, "")
	for s, hashed := range map[string][]string{ // the words that are hashed
		"threads, delay_ns": nil,
		"the profile is empty: the target does not sample it":                                                        nil,
		"53 MB are resident: it takes 6.5 ms (7%)":                                                                   nil,
		"sudo sysctl kernel.task_delayacct=1    # and restart the service: threads that run already are not counted": nil,
		"runtime.SetBlockProfileRate(10_000)":                                                                        {"000"},
		"no answer from billing-prod within 5s":                                                                      {"billing", "prod"},
		"sudo whylate record 23351":                                                                                  {"23351"},
		"die Überweisung (acme) steht":                                                                               {"die", "Überweisung", "acme", "steht"},
		"read /home/bob: denied":                                                                                     {"home", "bob"},
	} {
		want := s
		for _, h := range hashed {
			want = strings.Replace(want, h, r.name(h), 1)
		}
		if got := r.text(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	for _, s := range []string{"10.0.0.3", "10.0.0.3:6060", "[2001:db8::1]:443,", "http://10.0.0.3:6060/x", "10.0.0.3:6060->10.0.0.4:5432:", "(10.0.0.3)", "4711"} {
		if got := r.text("dial tcp " + s + " refused"); strings.Contains(got, "10.0.0") || strings.Contains(got, "db8") || strings.Contains(got, "6060") || strings.Contains(got, "4711") {
			t.Errorf("%q: %q", s, got)
		}
	}
}

// A task may be called like a peer's address: what stands for the peer is an address still.
func TestAnAddressThatIsANameFirstStaysAnAddress(t *testing.T) {
	for _, s := range []string{"10.20.30.40", "2001:db8::1"} {
		r := newTest(t, "")
		name := r.name(s)
		got := r.ip(netip.MustParseAddr(s))
		if !got.IsValid() || got.String() == s || got.String() == name {
			t.Errorf("%s: the name is %s, the address %s", s, name, got)
		}
		if again := r.name(s); again != name {
			t.Errorf("%s: the name is %s and then %s", s, name, again)
		}
	}
}

// Addresses pass in no form in which clouds, clusters and tools write them.
func TestAddressesDoNotPassInSentences(t *testing.T) {
	r := newTest(t, "")
	for _, s := range []string{
		"ip-10-20-30-40.ec2.internal", "10-20-30-40.default.pod.cluster.local", "10.20.30.40/24", "addr=10.20.30.40",
		"10.20.30.40,10.20.30.41", "10.20.30.40:http", "a=10.20.30.40:80,b=10.20.30.41:http", "10_20_30_40", "(10.20.30.40/24),",
		"10.20.30", "[10.20.30.40]", "tcp:10.20.30.40:80", "host=ip-10-20-30-40;x", "10:20:30:40:50:60", "2001:db8::20/64",
	} {
		got := r.text("dial " + s + " refused")
		if strings.Contains(got, "20") && strings.Contains(got, "30") || strings.Contains(got, "db8") {
			t.Errorf("%q: %q", s, got)
		}
	}
	if a, b := r.text("10.20.30.40/24"), r.address("10.20.30.40"); a != b+"/24" {
		t.Errorf("%s is not %s/24", a, b)
	}
	for _, s := range []string{"go1.26.8", "6.18.4", "sysctl kernel.task_delayacct=1", "1,5"} {
		if got := r.text(s); got != s {
			t.Errorf("%q: %q", s, got)
		}
	}
}

// Advice that is hashed helps nobody. What names a function or a host of the user's is hashed there, too.
func TestOwnAdvicePasses(t *testing.T) {
	r := newTest(t, "")
	for _, s := range []string{
		"runtime.SetMutexProfileFraction(100)", "runtime.SetBlockProfileRate(1_000_000)", "srv.WriteTimeout = 30 * time.Second",
		`mux.HandleFunc("/debug/pprof/", pprof.Index)`, `mux.HandleFunc("/debug/pprof/profile", pprof.Profile)`,
		`mux.Handle("/debug/pprof/allocs", pprof.Handler("allocs"))`, `mux.Handle("/debug/pprof/goroutine", pprof.Handler("goroutine"))`,
		"run the command again when that profile has ended (a continuous profiler?)", "--for with a shorter time", "--all-goroutines",
		"sudo whylate diagnose 12345", "sudo whylate diagnose 12345; whylate doctor 12345 says what may be recorded",
		"sudo whylate diagnose 12345 --probes 'clock,cgo-return'", "run whylate on the host, or with CAP_SYS_PTRACE",
		"REDISCLI_AUTH=PASSWORD whylate ... --redis HOST:PORT", "REDISCLI_AUTH=PASSWORD whylate ... --redis HOST:PORT, or redis://USER@HOST:PORT",
		"redis-cli CONFIG SET slowlog-log-slower-than 10000", "redis-cli CONFIG SET latency-monitor-threshold 10",
		"redis-cli ACL SETUSER NAME +info +slowlog|get +latency|latest +latency|history +latency|histogram +config|get +time",
		"PGPASSWORD=PASSWORD whylate ... --postgres postgres://USER@HOST:PORT/DATABASE", "psql -c 'GRANT pg_monitor TO NAME'",
		"psql -c 'CREATE EXTENSION pg_stat_statements'", "psql -c 'ALTER EXTENSION pg_stat_statements UPDATE'",
		"psql -c \"ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'\" and restart postgres",
	} {
		if got := r.text(s); got != s {
			t.Errorf("%q: %q", s, got)
		}
	}
	for _, s := range []string{"sudo whylate diagnose 12345 --probes 'clock,func=zorblatt'", "curl -m 5 http://zorblatt:6060/debug/pprof/cmdline"} {
		if got := r.text(s); strings.Contains(got, "zorblatt") {
			t.Errorf("%q: %q", s, got)
		}
	}
}

// Every name costs memory beside its bytes: many short ones do not pass the bound.
func TestManyShortNamesAreBounded(t *testing.T) {
	n := newTest(t, "").names
	n.listed = maxListed - 10*perEntry
	for i := range 100 {
		n.name(string(rune('a'+i%26)) + string(rune('a'+i/26)))
	}
	if len(n.byName) > 10 || n.unlisted < 90 {
		t.Errorf("%d listed, %d not", len(n.byName), n.unlisted)
	}
}

func TestALogOfTooManyLinesIsRefused(t *testing.T) {
	r := newTest(t, "")
	if err := r.log(io.Discard, strings.NewReader(strings.Repeat("a\n", maxLogLines))); err != nil {
		t.Error(err)
	}
	if err := r.log(io.Discard, strings.NewReader(strings.Repeat("a\n", maxLogLines+1))); !errors.Is(err, evidence.ErrTooLarge) {
		t.Error(err)
	}
}
