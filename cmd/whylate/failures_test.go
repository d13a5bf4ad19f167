package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// relayEnv makes the test binary forward connections to an address, as kubectl port-forward
// and ssh -L do: it prints where it listens.
const relayEnv = "WHYLATE_TEST_RELAY"

func relay(to string) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(l.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }() // ends with its parent
	accept(l, func(c net.Conn) { forward(c, to) })
	return 1
}

// accept gives each connection to a goroutine, until the listener is closed.
func accept(l net.Listener, handle func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			handle(c)
		}()
	}
}

// forward copies between a connection and an address, until either side ends.
func forward(c net.Conn, to string) {
	d, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer d.Close()
	go io.Copy(d, c)
	io.Copy(c, d)
}

// listen handles connections to an address of its own, until the test ends.
func listen(t *testing.T, handle func(net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go accept(l, handle)
	return "http://" + l.Addr().String()
}

// A scene is what a first failure needs: files, and servers that misbehave.
type scene struct {
	*testing.T
	dir string
}

// file writes a file and returns its path.
func (s scene) file(name string, content []byte) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

// content reads a file, unpacked if it is packed.
func (s scene) content(path string) []byte {
	s.Helper()
	b, err := os.ReadFile(path)
	if err == nil && strings.HasSuffix(path, ".gz") {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
			b, err = io.ReadAll(z)
		}
	}
	if err != nil {
		s.Fatal(err)
	}
	return b
}

// service is a server with net/http/pprof and a health check.
func (s scene) service() *httptest.Server { return s.serve(httptest.NewServer(endpoint())) }

func endpoint() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/healthz", healthz)
	return mux
}

func healthz(http.ResponseWriter, *http.Request) { time.Sleep(time.Millisecond) }

func (s scene) serve(server *httptest.Server) *httptest.Server {
	s.Cleanup(server.Close)
	s.Cleanup(server.CloseClientConnections) // before it
	return server
}

// answers is the URL of a server that has one answer.
func (s scene) answers(status int, body string) string {
	return s.serve(httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))).URL
}

// cut is the URL of a proxy of a service that ends each connection after a time.
func (s scene) cut(after time.Duration) string {
	s.Helper()
	to := strings.TrimPrefix(s.service().URL, "http://")
	return listen(s.T, func(c net.Conn) {
		time.AfterFunc(after, func() { c.Close() })
		forward(c, to)
	})
}

// dies is the URL of a service whose second trace, behind the one that is only measured, breaks
// before anything of it can be read, and which then answers nothing, unless it survives.
func (s scene) dies(survives bool) string {
	s.Helper()
	begun, live := s.content(healthyTrace)[:2000], endpoint()
	var traces atomic.Int32
	return s.serve(httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isTrace := r.URL.Path == "/debug/pprof/trace"
		if isTrace && traces.Add(1) == 2 {
			w.Write(begun)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		if traces.Load() > 1 && !survives {
			panic(http.ErrAbortHandler)
		}
		live.ServeHTTP(w, r)
	}))).URL
}

// ask sends requests to a path of a service until the test ends.
func (s scene) ask(url string, every time.Duration) {
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	s.Cleanup(func() { cancel(); <-done })
}

// forwarded is the URL of another process, which forwards to a service.
func (s scene) forwarded(to *url.URL) string {
	s.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), relayEnv+"="+to.Host)
	in, err := cmd.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { in.Close(); cmd.Wait() })
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		s.Fatal(err)
	}
	return "http://" + addr
}

// other is the id of a process that is no Go program.
func (s scene) other() string {
	s.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return strconv.Itoa(cmd.Process.Pid)
}

// What goes wrong first, for everybody: one line that says what happened, and one to paste.
// A line to paste that calls whylate is understood by whylate.
func TestAFirstFailureHasItsCauseAndALineToPaste(t *testing.T) {
	const short = "--for=1s"
	for _, c := range []struct {
		name  string
		args  func(scene) []string
		code  int
		cause string
		paste string // beginning of a line behind it
	}{
		{"a file that is not there", func(s scene) []string { return []string{"diagnose", s.dir + "/none.whylate"} },
			exitFailure, "no such file", "ls /"},
		{"a mistyped file", func(s scene) []string {
			s.Chdir(s.dir)
			s.file("monday.whylate", nil)
			return []string{"diagnose", "mnoday.whylate"}
		}, exitFailure, "no such file", "ls *.whylate # did you mean monday.whylate?"},
		{"a file without its end", func(s scene) []string {
			s.Chdir(s.dir)
			s.file("monday.whylate", nil)
			return []string{"compare", "monday", "tuesday"}
		}, exitFailure, "stat monday: no such file", "ls *.whylate # did you mean monday.whylate?"},
		{"a word that is no file for redact", func(s scene) []string { return []string{"redact", "nofile"} },
			exitFailure, "stat nofile: no such file", "ls *.whylate # or make one: "},
		{"a word that is no file for show", func(s scene) []string { return []string{"show", "nofile"} },
			exitFailure, "stat nofile: no such file", "ls *.whylate # or make one: "},
		{"a word that is no file for export", func(s scene) []string { return []string{"export", "nofile", "--to", "csv"} },
			exitFailure, "stat nofile: no such file", "ls *.whylate # or make one: "},
		{"a baseline that is not there", func(s scene) []string {
			return []string{"diagnose", healthyTrace, "--baseline", s.dir + "/none"}
		}, exitFailure, "no such file", "ls /"},
		{"certificates that are not there", func(s scene) []string {
			return []string{"diagnose", s.service().URL, short, "--ca-file", s.dir + "/ca.pem"}
		}, exitFailure, "no such file or directory", "ls -l /"},
		{"a baseline without a trace", func(s scene) []string {
			return []string{"diagnose", healthyTrace, "--baseline", emptyIncident(s.T)}
		}, exitFailure, "no execution trace", "whylate record "},
		{"not a trace", func(s scene) []string { return []string{"diagnose", s.file("a.trace", []byte("it was slow"))} },
			exitFailure, "want an incident", "whylate record "},
		{"an empty file", func(s scene) []string { return []string{"show", s.file("a.trace", nil)} },
			exitFailure, "the file is empty", "whylate record "},
		{"a folder", func(s scene) []string { return []string{"export", s.dir, "--to", "csv"} },
			exitFailure, "is a folder; export wants one recording", "ls /"},
		{"a folder without recordings", func(s scene) []string { return []string{"diagnose", s.dir} },
			exitFailure, "no file is named *.whylate, *.trace or *.out", "whylate record "},
		{"a trace from before Go 1.22", func(s scene) []string {
			return []string{"diagnose", s.file("a.trace", []byte("go 1.21 trace\x00\x00\x00"))}
		}, exitFailure, "written by Go 1.21", "GOTOOLCHAIN=go1.26.0 go build "},
		{"a trace of a Go that is not known yet", func(s scene) []string {
			return []string{"diagnose", s.file("a.trace", []byte("go 1.99 trace\x00\x00\x00"))}
		}, exitFailure, "written by go1.99", "go install github.com/whylate/whylate/cmd/whylate@"},
		{"a recording that was cut", func(s scene) []string {
			b := s.content(lockIncident)
			return []string{"diagnose", s.file("a.whylate", b[:len(b)/2])}
		}, exitFailure, "cut short", "sha256sum "},
		{"a recording with flipped bits", func(s scene) []string {
			b := s.content(lockIncident)
			for i := range 3 {
				b[len(b)/3+i] ^= 0xff
			}
			return []string{"diagnose", s.file("a b.whylate", b)}
		}, exitCause, "a part of the recording is lost: trace damaged or cut", "sha256sum '/"},
		{"a trace that was cut", func(s scene) []string {
			return []string{"compare", lockIncident, s.file("b.trace", s.content(fewTrace)[:300])}
		}, exitFailure, "trace damaged or cut", "sha256sum /"},
		{"a trace of which only the header is there", func(s scene) []string {
			return []string{"diagnose", s.file("b.trace", s.content(fewTrace)[:16])}
		}, exitFailure, "nothing stands behind its header", "sha256sum /"},
		{"a baseline that was cut", func(s scene) []string {
			return []string{"diagnose", lockIncident, "--baseline", s.file("b.trace", s.content(fewTrace)[:300])}
		}, exitFailure, "trace damaged or cut", "sha256sum /"},
		{"a trace that was cut, for export", func(s scene) []string {
			return []string{"export", "--to=states", "-o", s.dir + "/states", s.file("b.trace", s.content(fewTrace)[:300])}
		}, exitFailure, "trace damaged or cut", "sha256sum /"},
		{"a trace with flipped bits for redact", func(s scene) []string {
			b := s.content(healthyTrace)
			b[len(b)/2] ^= 0xff
			return []string{"redact", s.file("a.trace", b)}
		}, exitFailure, "trace damaged or cut", "sha256sum /"},
		{"a recording that ended too early", func(s scene) []string {
			kept := s.dir + "/a.whylate"
			whylate(s.T, "record", s.dies(false), short, "--save="+kept)
			return []string{"diagnose", kept}
		}, exitFailure, "nothing that can be diagnosed was recorded: the connection broke after ", "whylate record http://HOST:PORT "},
		{"a trace with flipped bits", func(s scene) []string {
			b := s.content(healthyTrace)
			b[len(b)/2] ^= 0xff
			return []string{"diagnose", s.file("a.trace", b)}
		}, exitInconclusive, "a part of the recording is lost: trace damaged or cut", "sha256sum /"},

		{"nobody listens", func(s scene) []string {
			closed := httptest.NewServer(nil)
			closed.Close()
			return []string{"diagnose", closed.URL, short}
		}, exitFailure, "nothing listens on", "ss -ltnp"},
		{"no such host", func(s scene) []string { return []string{"diagnose", "http://no-such-host.invalid:6060", short} },
			exitFailure, "there is no host named", "getent hosts no-such-host.invalid"},
		{"a name of a file that may be one of a host", func(s scene) []string {
			s.file("a.invalid.whylate", nil)
			s.Chdir(s.dir)
			return []string{"diagnose", "a.invalid", short}
		}, exitFailure, "there is no host named a.invalid", "ls *.whylate # did you mean a.invalid.whylate?"},
		{"no such port", func(s scene) []string { return []string{"record", "http://127.0.0.1:99999", short} },
			exitFailure, "99999 is no port", "ss -ltnp"},
		{"404", func(s scene) []string { return []string{"diagnose", s.answers(404, ""), short} },
			exitFailure, "has no /debug/pprof/trace (404 Not Found)", `in the program: import _ "net/http/pprof"`},
		{"401", func(s scene) []string {
			return []string{"record", s.answers(401, ""), short, "--save=" + s.dir + "/a.whylate"}
		}, exitFailure, "does not let us in (401", "whylate record http://127.0.0.1:"},
		{"503", func(s scene) []string { return []string{"diagnose", s.answers(503, "later"), short} },
			exitFailure, "answered 503 Service Unavailable: later", "curl "},
		{"a page", func(s scene) []string { return []string{"diagnose", s.answers(200, "<!doctype html>"), short} },
			exitFailure, "is not a pprof endpoint: it answers with an HTML page", "in the program:"},
		{"something else that listens", func(s scene) []string {
			return []string{"diagnose", listen(s.T, func(c net.Conn) { io.WriteString(c, "220 mail.example ESMTP\r\n"); io.Copy(io.Discard, c) }), short}
		}, exitFailure, "does not speak HTTP", "ss -ltnp"},
		{"a certificate that is not known", func(s scene) []string {
			return []string{"diagnose", s.serve(httptest.NewTLSServer(nil)).URL, short}
		}, exitFailure, "is not trusted", "whylate diagnose https://127.0.0.1:"},
		{"https where http is", func(s scene) []string {
			return []string{"diagnose", strings.Replace(s.service().URL, "http:", "https:", 1), short}
		}, exitFailure, "speaks plain HTTP", "whylate diagnose http://127.0.0.1:"},
		{"http where https is", func(s scene) []string {
			return []string{"diagnose", strings.Replace(s.serve(httptest.NewTLSServer(nil)).URL, "https:", "http:", 1), short}
		}, exitFailure, "speaks HTTPS", "whylate diagnose https://127.0.0.1:"},
		{"a proxy that cuts long answers", func(s scene) []string {
			return []string{"diagnose", s.cut(2500 * time.Millisecond), "--for=4s"}
		}, exitInconclusive, "a part of the recording is lost: the connection broke after 2.5s of 4s", "whylate diagnose http://127.0.0.1:"},
		{"a target that ends too early", func(s scene) []string {
			return []string{"record", s.dies(false), short, "--save=" + s.dir + "/a.whylate"}
		}, exitFailure, "nothing that can be diagnosed was recorded: the connection broke after ", "whylate record http://127.0.0.1:"},
		{"a process that ends too early", func(s scene) []string {
			s.dies(false)
			return []string{"record", strconv.Itoa(os.Getpid()), short, "--save=" + s.dir + "/a.whylate"}
		}, exitFailure, "the target does not answer any more, and a trace can be read from about a second on; what was recorded beside it stays in ", "whylate record http://127.0.0.1:"},
		{"a proxy that cuts all but the beginning", func(s scene) []string {
			return []string{"record", s.dies(true), "--for=2s", "--save=" + s.dir + "/a.whylate"}
		}, exitFailure, "nothing that can be diagnosed was recorded: the connection broke after ", "whylate record http://127.0.0.1:"},
		{"a target that ends too early for a diagnosis", func(s scene) []string { return []string{"diagnose", s.dies(false), short} },
			exitFailure, "nothing that can be diagnosed was recorded: the connection broke after ", "whylate diagnose http://127.0.0.1:"},
		{"two recorders", func(s scene) []string {
			live := s.service()
			resp, err := http.Get(live.URL + "/debug/pprof/trace?seconds=60") // its header comes when the trace runs
			if err != nil {
				s.Fatal(err)
			}
			s.Cleanup(func() { resp.Body.Close() })
			return []string{"diagnose", live.URL, short}
		}, exitFailure, "somebody else is recording an execution trace", "whylate diagnose http://127.0.0.1:"},

		{"no requests", func(s scene) []string { return []string{"diagnose", s.service().URL, short} },
			exitInconclusive, "No requests were found", "whylate diagnose http://127.0.0.1:"},
		{"few requests", func(s scene) []string {
			live := s.service()
			s.ask(live.URL+"/healthz", 100*time.Millisecond)
			return []string{"diagnose", live.URL, short}
		}, exitInconclusive, " requests were found; 50 are needed.", "whylate diagnose http://127.0.0.1:"},
		{"few requests in a file", func(s scene) []string { return []string{"diagnose", fewTrace} },
			exitInconclusive, "Only 6 requests were found; 50 are needed.", "whylate record http://HOST:PORT --for 60s "},

		{"no such process", func(s scene) []string { return []string{"diagnose", "999999", short} },
			exitFailure, "no such process", "pgrep -a "},
		{"no such process for top", func(s scene) []string { return []string{"top", "2147483647"} },
			exitFailure, "no such process", "pgrep -a "},
		{"no such process for doctor", func(s scene) []string { return []string{"doctor", "2147483647"} },
			exitFailure, "there is no process 2147483647", "pgrep -a "},
		{"a process that is no Go program", func(s scene) []string { return []string{"diagnose", s.other(), short} },
			exitFailure, "is no Go program", "pgrep -a -P "},
		{"a forwarded port", func(s scene) []string {
			u, err := url.Parse(s.service().URL)
			if err != nil {
				s.Fatal(err)
			}
			return []string{"diagnose", s.forwarded(u), short}
		}, exitInconclusive, "(it forwards the port?)", "whylate diagnose PID"},

		{"a mux without the command line, on a socket that another process has too", func(s scene) []string {
			mux := http.NewServeMux()
			mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
			live := s.serve(httptest.NewServer(mux))
			s.share(live.Listener)
			return []string{"record", live.URL, short, "--save=" + s.dir + "/a.whylate"}
		}, exitOK, "host evidence: the endpoint does not serve its command line", `mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)`},

		{"a folder to write to that is not there", func(s scene) []string {
			return []string{"diagnose", s.service().URL, short, "--save", s.dir + "/none/a.whylate"}
		}, exitFailure, "no such file or directory", "mkdir -p "},
		{"a folder for manual pages that cannot be made", func(s scene) []string { return []string{"man", s.file("man1", nil)} },
			exitFailure, "not a directory", "whylate man /"},
		{"a page in a folder that is not there", func(s scene) []string {
			return []string{"show", lockIncident, "-o", s.dir + "/none/a.html"}
		}, exitFailure, "no such file or directory", "mkdir -p "},
		{"a copy in a folder that is not there", func(s scene) []string {
			return []string{"redact", lockIncident, "-o", s.dir + "/none/a.whylate"}
		}, exitFailure, "no such file or directory", "mkdir -p "},
		{"a table in a folder that is not there", func(s scene) []string {
			return []string{"redact", lockIncident, "-o", s.dir + "/a.whylate", "--map", s.dir + "/none/names.json"}
		}, exitFailure, "no such file or directory", "mkdir -p "},
		{"a folder where the file should be", func(s scene) []string { return []string{"record", s.service().URL, short, "--save", s.dir} },
			exitFailure, "is a directory", "whylate record http://127.0.0.1:"},
		{"a folder where a page should be", func(s scene) []string { return []string{"show", lockIncident, "-o", s.dir} },
			exitFailure, "is a directory", "whylate show " + lockIncident + " --output "},
		{"a place for a process of the kernel's", func(s scene) []string {
			return []string{"record", s.service().URL, short, "--save", "/proc/x.whylate"}
		}, exitFailure, "create /proc/x.whylate: no such file or directory", "whylate record http://127.0.0.1:"},
		{"a place for a process of the kernel's, for a table", func(s scene) []string {
			return []string{"redact", lockIncident, "-o", s.dir + "/a.whylate", "--map", "/proc/x.json"}
		}, exitFailure, "create /proc/x.json: no such file or directory", "whylate redact " + lockIncident + " --output="},
		{"a full disk", func(s scene) []string {
			dir := full(s)
			return []string{"record", s.service().URL, short, "--save", dir + "/a.whylate"}
		}, exitFailure, "no space left on device", "df -h "},
		{"a full disk for a table", func(s scene) []string {
			if _, err := os.Stat("/dev/full"); err != nil {
				s.Skip("no /dev/full here")
			}
			return []string{"export", lockIncident, "--to", "csv", "-o", "/dev/full"}
		}, exitFailure, "no space left on device", "df -h "},

		{"a number that is none", func(s scene) []string { return []string{"diagnose", healthyTrace, "--jobs", "two"} },
			exitUsage, `--jobs wants a whole number such as 1, not "two"`, "whylate diagnose --help"},
		{"one recording to compare", func(s scene) []string { return []string{"compare", healthyTrace} },
			exitUsage, "B is missing", "whylate compare " + healthyTrace + " B"},
		{"a live target to show", func(s scene) []string { return []string{"show", "localhost:6060"} },
			exitUsage, "localhost:6060 is no file; show wants a recording", "whylate record localhost:6060 --save FILE.whylate"},
		{"a format to show", func(s scene) []string { return []string{"show", healthyTrace, "-o", "html"} },
			exitUsage, "-o names the file of the page here", "whylate show " + healthyTrace + " --output FILE.html"},
		{"no format", func(s scene) []string { return []string{"export", healthyTrace} },
			exitUsage, "--to is missing", "whylate export " + healthyTrace + " --to csv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if runtime.GOOS != "linux" && (strings.Contains(c.name, "process") || c.name == "a forwarded port") {
				t.Skip("only on Linux a process is looked at")
			}
			args := c.args(scene{t, t.TempDir()})
			code, stdout, stderr := whylate(t, args...)
			if code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			// An error is said on standard error, a diagnosis that is not one on standard output.
			cause, paste := false, ""
			for line := range strings.Lines(stderr + stdout) {
				line = strings.TrimPrefix(strings.TrimSpace(line), "next        ")
				line = strings.TrimPrefix(line, "$ ")
				switch {
				case strings.Contains(line, c.cause):
					cause = true
				case cause && paste == "" && strings.HasPrefix(line, c.paste):
					paste = line
				}
			}
			if !cause || paste == "" {
				t.Fatalf("it does not say %q and behind it %q:\n%s%.3000s", c.cause, c.paste, stderr, stdout)
			}
			understood(t, paste)
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(args[len(args)-1]), ".*.part")); left != nil {
				t.Errorf("it left %q", left)
			}
		})
	}
}

// Whatever the verdict on them is, which depends on what else the machine does: health checks
// are not what somebody waits for.
func TestNothingButHealthChecksIsSaid(t *testing.T) {
	s := scene{t, t.TempDir()}
	live := s.service()
	s.ask(live.URL+"/healthz", 8*time.Millisecond)
	_, stdout, stderr := whylate(t, "diagnose", live.URL, "--for=1s")
	_, paste, ok := strings.Cut(stdout, "\n  next        $ ")
	paste, _, _ = strings.Cut(paste, "\n")
	if !ok || !strings.HasPrefix(paste, "whylate diagnose http://127.0.0.1:") || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "The requests are health checks, by the name of ") {
		t.Errorf("stdout %s\nstderr %s", stdout, stderr)
	}
	understood(t, paste)
}

// understood asks that a line to paste is a command that whylate knows, if it is whylate's.
func understood(t *testing.T, line string) {
	t.Helper()
	rest, ok := strings.CutPrefix(line, "whylate ")
	if !ok || strings.HasSuffix(rest, "--help") {
		return
	}
	rest, _, _ = strings.Cut(rest, " #")
	args := strings.Fields(strings.NewReplacer("'", "", "Authorization: Bearer TOKEN", "Authorization:TOKEN").Replace(rest))
	cmd, args, err := newRoot(io.Discard, io.Discard).Find(args)
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("%q is not understood: %v", line, err)
	}
}

// What is printed to be pasted stays in terminals and logs.
func TestALineToPasteHoldsNoCredentials(t *testing.T) {
	s := scene{t, t.TempDir()}
	at := strings.TrimPrefix(s.answers(401, ""), "http://")
	for _, target := range []string{"http://me:hunter2@" + at, "http://" + at + "/?token=hunter2", "me:hunter2@" + at} {
		code, stdout, stderr := whylate(t, "record", target, "--for=1s", "--header=X-Token: hunter2",
			"--redis=redis://:hunter2@127.0.0.1:1", "--postgres=postgres://me:hunter2@127.0.0.1:1/x", "--save="+s.dir+"/a.whylate")
		if code != exitFailure || strings.Contains(stdout+stderr, "hunter2") || !strings.Contains(stderr, "--for=1s") {
			t.Errorf("exit %d, %q, %q", code, stdout, stderr)
		}
		if code, stdout, stderr := whylate(t, "show", target); code != exitUsage || strings.Contains(stdout+stderr, "hunter2") || !strings.Contains(stderr, "whylate record ") {
			t.Errorf("exit %d, %q, %q", code, stdout, stderr)
		}
	}
}
