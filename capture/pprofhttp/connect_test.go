package pprofhttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"runtime/trace"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestATargetLeadsToItsEndpoint(t *testing.T) {
	for _, c := range []struct{ target, want string }{
		{"http://h:1", "http://h:1/debug/pprof"},
		{"http://h:1/", "http://h:1/debug/pprof"},
		{"https://h", "https://h/debug/pprof"},
		{"h:1", "http://h:1/debug/pprof"},
		{":6060", "http://localhost:6060/debug/pprof"},
		{"[::1]:6060", "http://[::1]:6060/debug/pprof"},
		{"http://h:1/internal", "http://h:1/internal/debug/pprof"},
		{"h:1/internal/", "http://h:1/internal/debug/pprof"},
		{"http://h:1/debug/pprof", "http://h:1/debug/pprof"},
		{"http://h:1/a/debug/pprof/", "http://h:1/a/debug/pprof"},
		{"http://h:1/debug/pprof/trace?seconds=5", "http://h:1/debug/pprof"},
		{"http://h:1/admin/pprof/", "http://h:1/admin/pprof"},
		{"http://h:1/x?token=1&debug=2", "http://h:1/x/debug/pprof?token=1"},
		{"ftp://h:1", ""},
		{"http://", ""},
		{"http://user:hunter2@h:port", ""},
		{"", ""},
	} {
		t.Run(c.target, func(t *testing.T) {
			u, err := Target{URL: c.target}.endpoint()
			if c.want == "" {
				if err == nil || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("got %v, error %v; want an error without the password", u, err)
				}
				return
			}
			if err != nil || u.String() != c.want {
				t.Errorf("got %v, error %v; want %s", u, err, c.want)
			}
		})
	}
}

func TestAHeaderIsGivenAsInCurl(t *testing.T) {
	var target Target
	for _, line := range []string{"Authorization: Bearer a:b", "X-Team:x"} {
		if err := target.AddHeader(line); err != nil {
			t.Error(err)
		}
	}
	if target.Header.Get("Authorization") != "Bearer a:b" || target.Header.Get("X-Team") != "x" {
		t.Errorf("headers %v", target.Header)
	}
	for _, line := range []string{"hunter2", ": hunter2", "a b: hunter2", "a: hunter2\r\nb: c"} {
		if err := target.AddHeader(line); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: error %v", line, err)
		}
	}
}

// certificates writes the server's certificate as a CA file.
func caFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func serveTLS(t *testing.T, config *tls.Config) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(endpoint())
	s.TLS = config
	s.Config.ErrorLog = quiet
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// guarded lets a request pass if ok says so.
func guarded(ok func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ok(r) {
			http.Error(w, "hunter2 is wrong", http.StatusUnauthorized)
			return
		}
		endpoint().ServeHTTP(w, r)
	})
}

func withUser(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("user", "hunter2")
	return u.String()
}

func TestConnectGetsThrough(t *testing.T) {
	basic := func(r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		return user == "user" && password == "hunter2"
	}
	for _, c := range []struct {
		name   string
		target func(t *testing.T) Target
		path   string // of the endpoint in the end
	}{
		{"to a plain endpoint", func(t *testing.T) Target { return Target{URL: serve(t, endpoint()).URL} }, "/debug/pprof"},
		{"below a prefix", func(t *testing.T) Target {
			return Target{URL: serve(t, http.StripPrefix("/internal", endpoint())).URL + "/internal"}
		}, "/internal/debug/pprof"},
		{"with a user in the URL", func(t *testing.T) Target { return Target{URL: withUser(t, serve(t, guarded(basic)).URL)} }, "/debug/pprof"},
		{"with a header", func(t *testing.T) Target {
			s := serve(t, guarded(func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer x" }))
			return Target{URL: s.URL, Header: http.Header{"Authorization": {"Bearer x"}}}
		}, "/debug/pprof"},
		{"with a token in the query", func(t *testing.T) Target {
			return Target{URL: serve(t, guarded(func(r *http.Request) bool { return r.FormValue("token") == "x" })).URL + "?token=x"}
		}, "/debug/pprof"},
		{"over a redirect on the same host, with the user", func(t *testing.T) Target {
			inner := http.StripPrefix("/moved", guarded(basic))
			return Target{URL: withUser(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, "/moved") {
					http.Redirect(w, r, "/moved"+r.URL.Path, http.StatusFound)
					return
				}
				inner.ServeHTTP(w, r)
			})).URL)}
		}, "/moved/debug/pprof"},
		{"over TLS with a CA file", func(t *testing.T) Target {
			s := serveTLS(t, nil)
			return Target{URL: s.URL, CAFile: caFile(t, s)}
		}, "/debug/pprof"},
		{"over TLS without verification", func(t *testing.T) Target { return Target{URL: serveTLS(t, nil).URL, Insecure: true} }, "/debug/pprof"},
		{"to a mux without cmdline", func(t *testing.T) Target {
			mux := endpoint()
			return Target{URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/cmdline") {
					http.NotFound(w, r)
					return
				}
				mux.ServeHTTP(w, r)
			})).URL}
		}, "/debug/pprof"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := Connect(t.Context(), c.target(t), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			u, err := url.Parse(client.URL())
			if err != nil || u.Path != c.path || u.User != nil || u.RawQuery != "" {
				t.Errorf("endpoint %s, error %v; want the path %s and no credentials", client.URL(), err, c.path)
			}
			if client.Cmdline != nil && client.Cmdline[0] != os.Args[0] {
				t.Errorf("command line %q", client.Cmdline)
			}
		})
	}
}

func TestAWrongTargetGivesItsCauseAndALineToPaste(t *testing.T) {
	answer := func(status int, kind, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, body)
		})
	}
	at := func(h http.Handler) func(*testing.T) Target {
		return func(t *testing.T) Target { return Target{URL: withUser(t, serve(t, h).URL)} }
	}
	traceIs := func(body string) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/debug/pprof/cmdline", answer(200, "text/plain", "server"))
		mux.Handle("/debug/pprof/trace", answer(200, "application/octet-stream", body))
		return mux
	}
	for _, c := range []struct {
		name          string
		target        func(*testing.T) Target
		cause, advice string
		want          error
	}{
		{"nothing listens", func(t *testing.T) Target {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			return Target{URL: l.Addr().String()}
		}, "nothing listens on 127.0.0.1:", "ss -ltnp", ErrUnreachable},
		{"pprof is not registered", at(http.NotFoundHandler()), "has no /debug/pprof/trace (404 Not Found)", `import _ "net/http/pprof"`, ErrNoEndpoint},
		{"credentials are missing", at(answer(401, "text/plain", "no")), "does not let us in (401", "--header", ErrDenied},
		{"credentials are wrong", at(answer(403, "text/plain", "no")), "does not let us in (403", "--header", ErrDenied},
		{"a page answers", at(answer(200, "text/html", "<!doctype html><title>x")), "an HTML page", `import _ "net/http/pprof"`, ErrNoEndpoint},
		{"an API answers", at(answer(200, "application/json", `{"a":1}`)), "JSON", `import _ "net/http/pprof"`, ErrNoEndpoint},
		{"a proxy answers", at(answer(502, "text/plain", "no upstream\nmore\x1b[2J")), "answered 502 Bad Gateway: no upstream", "curl", ErrNoEndpoint},
		{"a sign-in page is in front", func(t *testing.T) Target {
			return Target{URL: serve(t, http.RedirectHandler("https://sso.example/login?secret=hunter2", http.StatusFound)).URL}
		}, "redirects to https://sso.example/login, which", "--header", ErrDenied},
		{"redirects do not end", at(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		})), "too many redirects", "curl", ErrUnreachable},
		{"the server speaks HTTPS", func(t *testing.T) Target {
			return Target{URL: strings.Replace(serveTLS(t, nil).URL, "https:", "http:", 1)}
		}, "speaks HTTPS, the target says http", "https://127.0.0.1:", ErrUnreachable},
		{"the server speaks HTTP", func(t *testing.T) Target {
			return Target{URL: strings.Replace(serve(t, endpoint()).URL, "http:", "https:", 1)}
		}, "speaks plain HTTP, the target says https", "http://127.0.0.1:", ErrUnreachable},
		{"the certificate is not known", func(t *testing.T) Target { return Target{URL: serveTLS(t, nil).URL} }, "certificate", "--ca-file", ErrUnreachable},
		{"a client certificate is wanted", func(t *testing.T) Target {
			s := serveTLS(t, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()})
			return Target{URL: s.URL, Insecure: true}
		}, "refused the TLS connection", "--cert", ErrUnreachable},
		{"the server does not answer", func(t *testing.T) Target {
			done := make(chan struct{})
			s := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
			t.Cleanup(func() { close(done) })
			return Target{URL: s.URL}
		}, "within", "curl", ErrUnreachable},
		{"the server hangs up", at(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })),
			"closed the connection", "curl", ErrUnreachable},
		{"the Go of the target is too old", at(traceIs("go 1.21 trace\x00\x00\x00....")), "older than 1.22", "Go 1.22", ErrOldGo},
		{"the trace is empty", at(traceIs("")), "it is empty", "import", ErrNoEndpoint},
		{"the trace is something else", at(traceIs("all good, thank you")), "answers with something else", "import", ErrNoEndpoint},
		{"a trace is running already", func(t *testing.T) Target {
			if err := trace.Start(io.Discard); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(trace.Stop)
			return Target{URL: serve(t, endpoint()).URL}
		}, "somebody else is recording an execution trace", "", ErrTracing},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.whylate")
			_, err := recordFile(t.Context(), path, c.target(t), Options{For: 100 * time.Millisecond, Timeout: 300 * time.Millisecond})
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want an *Error", err)
			}
			if !strings.Contains(e.Cause, c.cause) || !strings.Contains(e.Advice+e.Target, c.advice) || !errors.Is(err, c.want) {
				t.Errorf("cause %q\nadvice %q %q\nerr %v\nwant %q, %q, %v", e.Cause, e.Advice, e.Target, e.Err, c.cause, c.advice, c.want)
			}
			if strings.ContainsAny(e.Cause, "\n\x1b") || strings.Contains(err.Error(), "hunter2") || strings.Contains(e.Err.Error(), "hunter2") {
				t.Errorf("not one clean line without credentials: %q", err.Error())
			}
			if _, err := os.Stat(path); err == nil {
				t.Error("there is a file after a failure")
			}
		})
	}
}

// A server that speaks first is no HTTP server, whether its greeting comes after our request
// or, what this waits for, before it.
func TestAServerThatGreetsDoesNotSpeakHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	given := make(chan struct{}) // up, by who was greeted
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		io.WriteString(c, "220 mail.example ESMTP\r\n")
		io.Copy(io.Discard, c)
		close(given)
		c.Close()
	}()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { <-given }})
	_, err = Connect(ctx, Target{URL: l.Addr().String()}, Options{})
	if err == nil || !strings.Contains(err.Error(), "does not speak HTTP") || !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v", err)
	}
}

func TestACancelledConnectIsNotTheTargetsFault(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Connect(ctx, Target{URL: serve(t, endpoint()).URL}, Options{})
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v", err)
	}
}

func TestWhatPortWasAskedIsSaid(t *testing.T) {
	for target, want := range map[string]string{
		"http://localhost": "nothing listens on localhost:80", "https://[::1]/x": "nothing listens on [::1]:443",
		"http://localhost:6060": "nothing listens on localhost:6060",
	} {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		var e *Error
		if err := unreachable(syscall.ECONNREFUSED, u, 0); !errors.As(err, &e) || e.Cause != want {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
}
