package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/demo"
	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/internal/unpack"
	"github.com/whylate/whylate/report"
)

// The test binary becomes a demo's service as the command does.
func TestMain(m *testing.M) {
	if name := os.Getenv(demo.VictimEnv); name != "" {
		os.Exit(demo.Victim(name, os.Args[1:]))
	}
	if to := os.Getenv(relayEnv); to != "" {
		os.Exit(relay(to))
	}
	os.Exit(m.Run())
}

// Recorded traces: healthy, and with too few requests.
const (
	healthyTrace = "../../request/testdata/fasthttp.trace"
	fewTrace     = "../../gotrace/testdata/go1.26.trace.gz"
)

// whylate runs a command line.
func whylate(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	for _, s := range []string{out.String(), err.String()} {
		if strings.ContainsAny(s, "\x1b\r") {
			t.Errorf("whylate %s writes escape sequences although nothing is a terminal: %q", strings.Join(args, " "), s)
		}
	}
	return code, out.String(), err.String()
}

func TestMistakesOfTheCommandLineExitWith2(t *testing.T) {
	const url = "http://127.0.0.1:1"
	for _, line := range []string{
		"--no-such-flag",
		"no-such-command",
		"no-such-command x",
		"diagnose",
		"diagnose a b",
		"diagnose --no-such-flag " + url,
		"diagnose -o xml " + url,
		"diagnose -o  " + url,
		"diagnose --slo -1s " + url,
		"diagnose --slo soon " + url,
		"diagnose --request main.f " + url,
		"diagnose --request func=( " + url,
		"diagnose --max-bytes x " + url,
		"diagnose --max-bytes 0 " + url,
		"diagnose --max-bytes 1 " + url,
		"diagnose --max-bytes -1MiB " + url,
		"diagnose --max-bytes 99999999999GiB " + url,
		"diagnose --for 0s " + url,
		"diagnose --for 10m " + url,
		"diagnose --header nonsense " + url,
		"diagnose --redis redis://:hunter@ " + url,
		"diagnose --postgres postgres://me:hunter@host:port/db " + url,
		"record --redis http://:hunter@host " + url,
		"diagnose" + strings.Repeat(" --redis localhost", 9) + " " + url,
		"diagnose --probes coffee " + url,
		"diagnose --probes func " + url,
		"diagnose --probes func=( " + url,
		"diagnose --probes cgo=main " + url,
		"diagnose --probes  " + url,
		"diagnose --probes func=main,clock " + url,
		"diagnose --probes func=main,clock,tcp " + url,
		"diagnose --json " + url,
		"diagnose --probes func= " + url,
		"diagnose --probes func=a --probes func=b " + url,
		"top --pages -1 1",
		"export",
		"export " + healthyTrace,
		"export --to xml " + healthyTrace,
		"export --to csv " + url,
		"export --to csv --slowest 0 " + healthyTrace,
		"diagnose --jobs 0 " + healthyTrace,
		"export --to csv --slo -1s " + healthyTrace,
		"export --to csv --request main.f " + healthyTrace,
		"redact",
		"redact " + url,
		"redact -o " + healthyTrace + " " + healthyTrace,
		"redact -o - " + healthyTrace,
		"redact -o x.whylate --map x.whylate " + healthyTrace,
		"redact -o x.whylate --map " + healthyTrace + " " + healthyTrace,
		"redact -o x.whylate --map /dev/null " + healthyTrace,
		"diagnose --probes cgo --no-kernel " + url,
		"record --probes cgo --no-host " + url,
		"top",
		"top nobody",
		"top 0",
		"top 1 2",
		"top --every 1ms 1",
		"record",
		"record --for 1ms " + url,
		"record " + healthyTrace,
		"record none.whylate",
		"causes no-such-cause",
		"causes cpu-hog gc-assist",
		"causes --markdown cpu-hog",
		"version x",
		"version -o xml",
		"man",
		"demo no-such-demo",
		"demo -o xml",
		"demo --for 0s",
		"demo --all --times 0",
		"demo --all x",
		"demo --all -o json",
		"demo lock-convoy no-such-demo",
		"compare",
		"compare a.whylate",
		"compare a b c",
		"show",
		"help no-such-command",
	} {
		t.Run(line, func(t *testing.T) {
			code, stdout, stderr := whylate(t, strings.Split(line, " ")...)
			if code != exitUsage || stdout != "" {
				t.Errorf("exit %d, stdout %q", code, stdout)
			}
			see := "whylate --help"
			if cmd, _, err := newRoot(io.Discard, io.Discard).Find(strings.Split(line, " ")); err == nil {
				see = strings.TrimSuffix(cmd.CommandPath(), " help") + " --help"
			}
			if lines := strings.Split(strings.TrimSpace(stderr), "\n"); len(lines) < 2 || !strings.HasPrefix(lines[0], "whylate: ") || lines[len(lines)-1] != see || strings.Contains(stderr, "hunter") {
				t.Errorf("stderr %q", stderr)
			}
		})
	}
}

// What is wrong with a command line is said in words of the command, with no word of the program's.
func TestAMistakeOfTheCommandLineIsSaidInItsOwnWords(t *testing.T) {
	for _, c := range []struct{ line, says string }{
		{"compare a.whylate --jobs two b.whylate", `--jobs wants a whole number such as 1, not "two"`},
		{"compare a.whylate b.whylate --jobs", "--jobs wants a whole number such as 1, and there is none"},
		{"diagnose x --slo soon", `--slo wants a time such as 10s, not "soon"`},
		{"diagnose x --for 10", `--for wants a time such as 10s, not "10"; did you mean 10s?`},
		{"diagnose x --max-bytes much", `--max-bytes wants a size such as 64MiB, not "much"`},
		{"diagnose x --check=perhaps", `--check wants true or false, not "perhaps"`},
		{"show x -o", "--output wants a value (file), and there is none"},
		{"diagnose x -o", "--output wants a value (text, json or html), and there is none"},
		{"diagnose x --baseline ", "--baseline wants a value (file), and there is none"},
		{"diagnose x --header ", "--header wants a value ('Name: value'), and there is none"},
		{"diagnose x --request func=", "--request: func= needs a regular expression"},
		{"show ", "show FILE: argument 1 is empty"},
		{"causes nonsense", "there is no cause \"nonsense\"\nwhylate causes # lists them"},
		{"demo nonsense", "there is no demo \"nonsense\"\nwhylate demo --list"},
		{"diagnose " + healthyTrace + " nofile", "of several targets each must be a file; nofile is none\nls *.whylate # or make one: whylate record http://HOST:PORT --save FILE.whylate"},
		{"diagnose http://x --request func=(", `--request: "(" is no regular expression: missing closing )`},
		{"diagnose http://x --probes func=a)", `--probes: "a)" is no regular expression: unexpected )`},
		{"diagnose http://x --cert c.pem", "--cert and --key go together: one of them is missing"},
		{"diagnose http://x --baseline http://y", "http://y is no file; diagnose wants a recording\nwhylate record http://y --save FILE.whylate"},
		{"diagnose http://x --max-bytes 1", "--max-bytes must be at least 16KiB"},
		{"http://me:hunter2@h:1", "there is no command \"http://h:1\"\nwhylate diagnose http://h:1"},
		{healthyTrace, "there is no command \"" + healthyTrace + "\"\nwhylate diagnose " + healthyTrace},
		{"show x -z", "there is no flag -z (in -z)"},
		{"show x --outptu y", "there is no flag --outptu; did you mean --output?"},
		{"diagnose x --json", "there is no flag --json; JSON is -o json"},
		{"compare", "compare A B: A and B are missing\nwhylate compare A B"},
		{"compare a.whylate --slo 1s", "compare A B: B is missing\nwhylate compare a.whylate B --slo=1s"},
		{"compare a b c", "compare A B: \"c\" is too much\nwhylate compare a b"},
		{"diagnose", "diagnose TARGET | RECORDING...: TARGET is missing\nwhylate diagnose TARGET"},
		{"record http://me:hunter2@h:1 http://me:hunter2@h:1", "record TARGET: \"http://h:1\" is too much\nwhylate record http://h:1"},
		{"version x", "version: \"x\" is too much\nwhylate version"},
		{"export a.trace", "--to is missing: one of pprof, speedscope, perfetto, csv, parquet, states, wakeups\nwhylate export a.trace --to csv"},
		{"completion bash x", "bash: \"x\" is too much\nwhylate completion bash"},
		{"completion bsh", `there is no command "bsh"; did you mean bash?`},
		{"help diagnos", `there is no command "diagnos"; did you mean diagnose?`},
	} {
		code, stdout, stderr := whylate(t, strings.Split(c.line, " ")...)
		if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "whylate: "+c.says+"\nwhylate ") {
			t.Errorf("%s: exit %d, %s", c.line, code, stderr)
		}
	}
	for _, line := range []string{"help", "help diagnose", "help completion bash"} {
		if code, stdout, stderr := whylate(t, strings.Split(line, " ")...); code != exitOK || stderr != "" || !strings.Contains(stdout, "Usage:\n") {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
	}
}

func TestFlagsOfARecordingAreMistakesWithAFile(t *testing.T) {
	for flag, value := range map[string]string{
		"--save": "copy.whylate", "--for": "5s", "--max-bytes": "64MiB", "--header": "A: b", "--ca-file": "ca.pem", "--cert": "c.pem",
		"--key": "k.pem", "--insecure": "", "--no-cpu-profile": "", "--all-goroutines": "", "--probes": "cgo",
		"--redis": "localhost", "--postgres": "postgres://localhost",
	} {
		args := []string{"diagnose", healthyTrace, flag}
		if value != "" {
			args = append(args, value)
		}
		code, stdout, stderr := whylate(t, args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, flag+" only applies to a live target; "+healthyTrace+" is a file\n") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", flag, code, stdout, stderr)
		}
	}
}

// liar answers every request with the bytes given.
func liar(t *testing.T, answer string) (url string) {
	t.Helper()
	return listen(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, answer)
		}
	})
}

func TestWhatAServerAnswersReachesTheTerminalHarmless(t *testing.T) {
	const body = "one\x1b]0;title\a\u009b31m\u202e\u2066 two\r\nthree"
	for name, c := range map[string]struct{ answer, want string }{
		"its own status text": {"HTTP/1.1 500 \x1b[31mboo\r\nContent-Length: 0\r\n\r\n", "answered 500 Internal Server Error\n"},
		"an unknown status":   {"HTTP/1.1 599 \x1b[31mboo\r\nContent-Length: 0\r\n\r\n", "answered 599\n"},
		"a body":              {fmt.Sprintf("HTTP/1.1 500 x\r\nContent-Length: %d\r\n\r\n%s", len(body), body), "answered 500 Internal Server Error: one]0;title31m two\n"},
		"a place to sign in":  {"HTTP/1.1 302 \x1b[31mboo\r\nLocation: http://\u009b31m\u202e.invalid/\r\nContent-Length: 0\r\n\r\n", ""},
		"no HTTP":             {"\x1b[31mboo\u009b\u202e\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, command := range []string{"diagnose", "record"} {
				code, _, stderr := whylate(t, command, liar(t, c.answer), "--for", "1s")
				if code != exitFailure || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "\nwhylate: ") {
					t.Errorf("%s: exit %d, stderr %q", command, code, stderr)
				}
				for _, r := range stderr {
					if r != '\n' && (r == '\uFFFD' || !unicode.IsPrint(r)) {
						t.Errorf("%s: %U in stderr %q", command, r, stderr)
					}
				}
			}
		})
	}
}

// An error has a line for its cause and lines for what to do about it.
func TestErrorsArePrintedLineByLine(t *testing.T) {
	var b bytes.Buffer
	complain(&b, "it failed\x1b[2J\nrun this\nor\u202ethat\n")
	if want := "whylate: it failed\\x1b[2J\nrun this\nor\\u202ethat\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func emptyIncident(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "empty.whylate")
	w, err := evidence.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheVerdictDecidesTheExitCode(t *testing.T) {
	for _, c := range []struct {
		name, verdict string
		code          int
		args          []string
	}{
		{"healthy", report.VerdictHealthy, exitOK, []string{healthyTrace}},
		{"healthy by the objective", report.VerdictHealthy, exitOK, []string{healthyTrace, "--slo", "10ms"}},
		{"too few requests", report.VerdictInconclusive, exitInconclusive, []string{fewTrace}},
		{"no requests", report.VerdictInconclusive, exitInconclusive, []string{healthyTrace, "--request", "func=^nobody$"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := whylate(t, append([]string{"diagnose", "-o", "json", "--check"}, c.args...)...)
			d := decode(t, stdout)
			if code != c.code || d.Verdict != c.verdict || stderr != "" {
				t.Errorf("exit %d, verdict %s (%s), stderr %q", code, d.Verdict, d.Reason, stderr)
			}
			if d.Check == nil || d.Check.WorstNS != 0 {
				t.Errorf("closure %+v", d.Check)
			}
			code, stdout, stderr = whylate(t, append([]string{"diagnose"}, c.args...)...)
			if code != c.code || !strings.Contains(stdout, c.verdict) || !strings.HasPrefix(stdout, d.Sentence[:20]) || stderr != "" {
				t.Errorf("exit %d, stderr %q, stdout\n%s", code, stderr, stdout)
			}
		})
	}
}

// decode reads a standard output that must be one diagnosis and nothing else.
func decode(t *testing.T, stdout string) *report.Diagnosis {
	t.Helper()
	d := &report.Diagnosis{}
	dec := json.NewDecoder(strings.NewReader(stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if rest, err := io.ReadAll(io.MultiReader(dec.Buffered())); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("after the document: %q, %v", rest, err)
	}
	return d
}

func TestAnIncidentWithoutATraceIsInconclusiveAndSaysWhatToDo(t *testing.T) {
	code, stdout, stderr := whylate(t, "diagnose", emptyIncident(t))
	if code != exitInconclusive || stderr != "" || !strings.Contains(stdout, diagnose.AddEndpoint) || !strings.Contains(stdout, "(no-trace)") {
		t.Errorf("exit %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
}

func TestALostPartIsOneLineOnStandardError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.whylate")
	w, err := evidence.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := os.ReadFile(healthyTrace)
	if err != nil {
		t.Fatal(err)
	}
	m, err := w.Member(evidence.MemberTrace)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Write(trace); err != nil {
		t.Fatal(err)
	}
	m.Incomplete("the target ended\x1b[2J")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := whylate(t, "diagnose", path, "-o", "json")
	if d := decode(t, stdout); code != exitOK || d.Lost.Detail == "" {
		t.Errorf("exit %d, lost %+v", code, d.Lost)
	}
	if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "lost: the target ended") {
		t.Errorf("stderr %q", stderr)
	}
	_, stdout, _ = whylate(t, "diagnose", path)
	if above, _, _ := strings.Cut(stdout, "\n  latency "); !strings.Contains(above, "\n  lost        a part of the recording: the target ended") || strings.Count(stdout, "the target ended") != 1 {
		t.Errorf("it does not say so once, at the top:\n%s", stdout)
	}
}

func TestRecordWritesWhatDiagnoseReads(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	s := httptest.NewServer(mux)
	defer s.Close()
	path := filepath.Join(t.TempDir(), "x.whylate")
	code, stdout, stderr := whylate(t, "record", s.URL, "--for", "1s", "--max-bytes", "64MiB", "--save", path)
	if code != exitOK || !strings.HasPrefix(stdout, path+": ") || !strings.Contains(stdout, "\nwhylate diagnose "+path+"\n") {
		t.Errorf("exit %d, stdout %q", code, stdout)
	}
	for _, phase := range []string{"connect\n", "trace (1 s)\n"} {
		if !strings.Contains(stderr, phase) {
			t.Errorf("stderr %q has no %q", stderr, phase)
		}
	}
	code, stdout, stderr = whylate(t, "diagnose", path, "-o", "json")
	d := decode(t, stdout)
	if code != exitInconclusive || d.Reason != "no-requests" || d.Target.URL != s.URL+"/debug/pprof" || stderr != "" {
		t.Errorf("exit %d, %s (%s), target %+v, stderr %q", code, d.Verdict, d.Reason, d.Target, stderr)
	}
}

func TestMistypedWordsAreCorrected(t *testing.T) {
	for _, c := range []struct{ line, says string }{
		{"diagnos x", "did you mean diagnose?"},
		{"causse", "did you mean causes?"},
		{"something", ""},
		{"help diagnos", "did you mean diagnose?"},
		{"help something", ""},
		{"help completion bsh", "did you mean bash?"},
		{"diagnose --sloo 1s x", "did you mean --slo?"},
		{"diagnose --no-such-flag x", ""},
		{"record -z x", ""},
		{"causes cpu-hogs", "did you mean cpu-hog?"},
		{"causes lock-held-accross-wait", "did you mean lock-held-across-wait?"},
		{"causes lock-held", "did you mean lock-held-across-wait or lock-held-across-work?"},
		{"causes l", ""},
		{"causes nonsense", ""},
		{"demo cpuhog", "did you mean cpu-hog?"},
		{"causes CPU-HOG", "did you mean cpu-hog?"},
	} {
		code, _, stderr := whylate(t, strings.Split(c.line, " ")...)
		if code != exitUsage || !strings.Contains(stderr, c.says) || c.says == "" && strings.Contains(stderr, "did you mean") {
			t.Errorf("%s: exit %d, %s", c.line, code, stderr)
		}
	}
	if d := distance("", "abc"); d != 3 {
		t.Errorf("distance to nothing %d", d)
	}
}

// What the catalogue will name one day is no mistake of the user's.
func TestAPlannedCauseIsCalledSo(t *testing.T) {
	for _, id := range []string{"growth", "locked-thread", "runtime-lock", "accept-queue", "slow-client", "late-timer"} {
		code, stdout, stderr := whylate(t, "causes", id)
		if cause.Lookup(id) != nil {
			if code != exitOK || !strings.HasPrefix(stdout, id) {
				t.Errorf("%s: exit %d, %s", id, code, stderr)
			}
		} else if code != exitUsage || !strings.Contains(stderr, "planned") {
			t.Errorf("%s: exit %d, %s", id, code, stderr)
		}
	}
}

// What is committed is what go generate writes.
func TestTheDocumentOfCausesIsCurrent(t *testing.T) {
	want, err := os.ReadFile("../../docs/causes.md")
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := whylate(t, "causes", "--markdown")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if stdout != string(want) {
		t.Error("docs/causes.md is not current: run go generate ./cmd/whylate")
	}
}

func TestCausesListsAndExplainsTheCatalogue(t *testing.T) {
	code, stdout, stderr := whylate(t, "causes")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != exitOK || stderr != "" || len(lines) != len(cause.Entries()) {
		t.Fatalf("exit %d, %d lines, stderr %q", code, len(lines), stderr)
	}
	for i, e := range cause.Entries() {
		if f := strings.Fields(lines[i]); len(f) < 4 || f[0] != e.ID || !strings.HasSuffix(lines[i], ".") {
			t.Errorf("%q", lines[i])
		}
		code, stdout, stderr := whylate(t, "causes", e.ID)
		if code != exitOK || stderr != "" {
			t.Errorf("exit %d, stderr %q", code, stderr)
		}
		for _, part := range append([]string{e.ID, e.Title, e.What, e.MustHold, e.MustNot, e.Verify}, append(e.Fix, e.LookAlikes...)...) {
			if !strings.Contains(stdout, part) {
				t.Errorf("%s is not explained: %q is missing", e.ID, part)
			}
		}
	}
}

// A list that is cut is no answer.
func TestWhatCannotBeWrittenIsAFailure(t *testing.T) {
	for _, line := range []string{"causes", "causes cpu-hog", "causes --markdown", "demo --list", "version", "version -o json", "doctor", "doctor -o json"} {
		if runtime.GOOS != "linux" && strings.HasPrefix(line, "doctor") {
			continue
		}
		var stderr bytes.Buffer
		if code := run(t.Context(), strings.Split(line, " "), noRoom{}, &stderr); code != exitFailure || stderr.String() != "whylate: no space left on device\n" {
			t.Errorf("%s: exit %d, %q", line, code, &stderr)
		}
	}
}

// noRoom takes nothing.
type noRoom struct{}

func (noRoom) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestVersion(t *testing.T) {
	code, stdout, stderr := whylate(t, "version")
	if code != exitOK || stderr != "" || !strings.HasPrefix(stdout, "whylate ") || !strings.Contains(stdout, "built with "+runtime.Version()) || !strings.Contains(stdout, evidence.Schema) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// What the design promises is in the help.
func TestHelp(t *testing.T) {
	for args, want := range map[string][]string{
		"":         {"Exit codes: 0 healthy or done, 1 failure, 2 usage, 3 a cause was named, 4 inconclusive", "diagnose", "record", "causes", "demo", "version"},
		"diagnose": {"http://host:port[/prefix]", "--for", "--max-bytes", "--slo", "--baseline", "--request", "func=REGEXP", "-o, --output", "--save", "--check", "--header", "--ca-file"},
		"record":   {"--for", "--max-bytes", "--save", "--header"},
		"causes":   {"causes [ID]"},
		"demo":     {"demo [NAME...]", "--all", "--times", "by URL", "--list", "--for", "--save", "exit code 3"},
		"version":  {"version"},
	} {
		t.Run("whylate "+args, func(t *testing.T) {
			code, stdout, stderr := whylate(t, append(strings.Fields(args), "--help")...)
			if code != exitOK || stderr != "" {
				t.Errorf("exit %d, stderr %q", code, stderr)
			}
			for _, w := range want {
				if !strings.Contains(stdout, w) {
					t.Errorf("%q is missing in\n%s", w, stdout)
				}
			}
		})
	}
	if code, stdout, _ := whylate(t); code != exitOK || !strings.Contains(stdout, "Exit codes") {
		t.Errorf("without arguments: exit %d, %q", code, stdout)
	}
}

func TestSizes(t *testing.T) {
	for s, want := range map[string]byteSize{
		"64MiB": 64 << 20, "1KiB": 1 << 10, "2GiB": 2 << 30, "5kB": 5e3, "5MB": 5e6, "5GB": 5e9, "17": 17,
		"": -1, "MiB": -1, "1.5MiB": -1, "-1": -1, "0": -1, "1 MiB": -1, "64MiBs": -1, "20000GiB": -1, "9223372036854775807": -1,
	} {
		b := byteSize(-1)
		if err := b.Set(s); b != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", s, b, err)
		}
	}
}

func TestProbesAreSplitAtCommasButNotARegularExpression(t *testing.T) {
	f := recordFlags{probes: []string{"clock,cgo", "tcp,func=^a{1,3}$"}}
	sets, re, err := f.sets()
	if err != nil || strings.Join(sets, " ") != "clock cgo tcp func" || re.String() != "^a{1,3}$" {
		t.Errorf("%q, %v, %v", sets, re, err)
	}
	f.probes = []string{"sched"} // and none of those that are there if nobody asks
	if sets, _, err := f.sets(); sets == nil || len(sets) != 0 || err != nil {
		t.Errorf("%q, %v", sets, err)
	}
}

// What cannot be read is no healthy service, and is said once.
func TestAFolderWithWhatCannotBeReadIsNotHealthy(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.trace")
	if err := os.WriteFile(bad, []byte("no recording"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := whylate(t, "diagnose", dir)
	if code != exitFailure || stdout != "" || strings.Count(stderr, bad) != 1 || !strings.Contains(stderr, "whylate record") {
		t.Errorf("one that cannot be read: exit %d, %q", code, stderr)
	}
	code, _, stderr = whylate(t, "diagnose", bad, bad+"/", dir+"/other.trace")
	if code != exitFailure || strings.Count(stderr, "bad.trace") > 2 {
		t.Errorf("none that can: exit %d, %q", code, stderr)
	}
	code, stdout, stderr = whylate(t, "diagnose", dir, healthyTrace)
	if code != exitFailure || stdout == "" || strings.Count(stderr, bad) != 1 {
		t.Errorf("one of two: exit %d, %q", code, stderr)
	}
	code, _, _ = whylate(t, "diagnose", dir, lockIncident)
	if code != exitCause {
		t.Errorf("with a cause: exit %d", code)
	}
}

// Who exports or looks at a trace of several windows hears that it is not all of it.
func TestWhatIsOfTheWorstWindowSaysSo(t *testing.T) {
	members, err := unpack.Zip(lockIncident)
	if err != nil {
		t.Fatal(err)
	}
	data := members[evidence.MemberTrace]
	clear(data[len(data)/2:][:256])
	file := filepath.Join(t.TempDir(), "damaged.trace")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"export", file, "--to", "csv"}, {"show", file, "-o", "-"}} {
		code, stdout, stderr := whylate(t, line...)
		if code != exitOK || stdout == "" || !strings.Contains(stderr, "windows: this is of the worst one") || !strings.Contains(stderr, "is lost") {
			t.Errorf("%q: exit %d, %q", line, code, stderr)
		}
	}
	_, stdout, _ := whylate(t, "diagnose", file)
	if !strings.Contains(stdout, " of the worst window, found by") {
		t.Error(stdout)
	}
}

// The exit code of several recordings is that of all of them, not of the one that is explained.
func TestTheExitCodeIsThatOfAllRecordings(t *testing.T) {
	const healthy, named, open = report.VerdictHealthy, report.VerdictCause, report.VerdictInconclusive
	of := func(file string, verdicts ...string) (ws []report.Window) {
		for _, v := range verdicts {
			ws = append(ws, report.Window{File: file, Verdict: v})
		}
		return ws
	}
	for _, c := range []struct {
		verdict string
		windows []report.Window
		want    error
	}{
		{healthy, nil, nil},
		{named, nil, exitError(exitCause)},
		{open, nil, exitError(exitInconclusive)},
		{healthy, of("a.whylate", healthy, open), exitError(exitInconclusive)},
		{open, of("a.whylate", open, named, healthy), exitError(exitCause)},
		{named, of("a.whylate", named, open), exitError(exitCause)},
		{healthy, of("", healthy, named), nil}, // windows of one trace
	} {
		if got := verdictExit(&report.Diagnosis{Verdict: c.verdict, Windows: c.windows}); got != c.want {
			t.Errorf("%s %+v: %v, want %v", c.verdict, c.windows, got, c.want)
		}
	}
}
