package diagnose

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
)

// The recorded traces of other packages: one without requests, one with six, and
// one with 150 that are all alike.
const (
	noRequests  = "../gotrace/testdata/tiny.trace"
	fewRequests = "../gotrace/testdata/go1.26.trace.gz"
	alike       = "../request/testdata/fasthttp.trace"
)

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// analyse diagnoses a file's bytes.
func analyse(data []byte, o AnalyseOptions) (*report.Diagnosis, error) {
	in, err := evidence.Read(bytes.NewReader(data), int64(len(data)), evidence.Options{})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	o.Check = true
	return Analyse(in, o)
}

func TestVerdictOfRecordingsWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		file, verdict, reason, foundBy string
		count                          int
	}{
		{noRequests, report.VerdictInconclusive, "no-requests", "", 0},
		{fewRequests, report.VerdictInconclusive, "few-requests", "main.echo.func1", 6},
		{alike, report.VerdictHealthy, "", "fasthttp", 150},
	} {
		t.Run(filepath.Base(c.file), func(t *testing.T) {
			d, err := analyse(readFile(t, c.file), AnalyseOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if d.Verdict != c.verdict || d.Reason != c.reason || d.Requests.FoundBy != c.foundBy || d.Requests.Count != c.count {
				t.Errorf("%s (%s), %d requests found by %q: %s", d.Verdict, d.Reason, d.Requests.Count, d.Requests.FoundBy, d.Sentence)
			}
			if d.Sentence == "" || len(d.Findings) > 0 || len(d.ConsistentWith) > 0 || d.Lost.Bytes != 0 || d.Check.WorstNS != 0 {
				t.Errorf("%+v", d)
			}
			if d.DurationNS <= 0 || d.Target.Go == "" || d.Target.Kind != "file" || d.Schema != report.Schema {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestFilesThatAreNoRecording(t *testing.T) {
	header := func(minor int) string { return fmt.Sprintf("go 1.%d trace\x00\x00\x00", minor) }
	for _, c := range []struct {
		name, data string
		want       error
	}{
		{"nothing", "", evidence.ErrNotIncident},
		{"text", "it was slow at 9:15\n", evidence.ErrNotIncident},
		{"half a header", header(26)[:9], evidence.ErrNotIncident},
		{"a trace of Go 1.21", header(21), evidence.ErrVersion},
		{"a header without a trace", header(26), io.ErrUnexpectedEOF},
		{"a zip that is cut short", "PK\x03\x04\x14", evidence.ErrMalformed},
		{"gzip of text", packed(t, "it was slow\n"), evidence.ErrNotIncident},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := analyse([]byte(c.data), AnalyseOptions{})
			if d != nil || !errors.Is(err, c.want) {
				t.Errorf("%v, %v, want %v", d, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
		})
	}
}

func packed(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, s) // a Buffer does not fail
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// An incident is whatever was recorded. Without a trace it is one that does not
// tell why; a file that is no incident stays an error.
func TestAnIncidentWithoutATraceIsInconclusive(t *testing.T) {
	in := incident(t, map[string][]byte{evidence.MemberMetrics: []byte("{}\n")}, func(m *evidence.Manifest) {
		m.Target.Kind, m.Target.PID, m.DurationNS = "pid", 42, 3e9
		m.NotRecorded = []evidence.NotRecorded{{What: "kernel", Why: "no CAP_BPF"}}
		m.Recorded = append(m.Recorded, evidence.Recorded{Member: evidence.MemberHost, Incomplete: "the process ended"})
	})
	d, err := Analyse(in, AnalyseOptions{Check: true})
	if err != nil {
		t.Fatal(err)
	}
	if d.Verdict != report.VerdictInconclusive || d.Reason != "no-trace" || d.Schema != report.Schema || d.Tool == "" {
		t.Errorf("%s (%s): %s", d.Verdict, d.Reason, d.Sentence)
	}
	if d.Lost.Detail != "the process ended" {
		t.Errorf("lost %+v", d.Lost)
	}
	if d.Target.PID != 42 || d.DurationNS != 3e9 || len(d.NotRecorded) != 2 {
		t.Errorf("%+v, %d ns, not recorded %+v", d.Target, d.DurationNS, d.NotRecorded)
	}
	var text, doc bytes.Buffer
	if err := errors.Join(report.Terminal(&text, d, report.TerminalOptions{Width: 72}), report.JSON(&doc, d)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), AddEndpoint) {
		t.Errorf("the report does not say how to get one:\n%s", text.String())
	}
	for _, member := range []string{`"findings": []`, `"ruled_out": []`, `"unnamed": []`, `"reason": "no-trace"`} {
		if !strings.Contains(doc.String(), member) {
			t.Errorf("%s is not in\n%s", member, doc.String())
		}
	}
}

// incident writes an incident with members and opens it.
func incident(t testing.TB, members map[string][]byte, edit func(*evidence.Manifest)) *evidence.Incident {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.whylate")
	w, err := evidence.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range members {
		m, err := w.Member(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Write(data)
		if err := errors.Join(err, m.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if edit != nil {
		w.Edit(edit)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in
}

func TestTheManifestReachesTheDiagnosis(t *testing.T) {
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	in := incident(t, map[string][]byte{evidence.MemberTrace: readFile(t, alike)}, func(m *evidence.Manifest) {
		m.Started, m.DurationNS = started, 2e9
		m.Target.Kind, m.Target.URL, m.Target.PID, m.Target.Go = "pprof", "http://user:secret@pod:6060/debug/pprof?x=1", 42, "go1.99"
		m.NotRecorded = []evidence.NotRecorded{{What: "kernel", Why: "no CAP_BPF", Command: "sudo"}}
		m.Notes = []string{"a note"}
		m.Cost.CPUSeconds = 0.01
	})
	d, err := Analyse(in, AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Target.URL != "http://pod:6060/debug/pprof" || d.Target.PID != 42 || d.Target.Go != "go1.99" {
		t.Errorf("%+v", d.Target)
	}
	if began := in.Manifest.Recorded[0].StartedNS; began <= 0 || !d.Started.Equal(started.Add(time.Duration(began))) {
		t.Errorf("a trace that began %d ns behind %v began at %v", began, started, d.Started)
	}
	if len(d.NotRecorded) != 1 || d.NotRecorded[0] != (report.NotRecorded{What: "kernel", Why: "no CAP_BPF", Command: "sudo"}) {
		t.Errorf("%+v", d.NotRecorded)
	}
	if !slices.Contains(d.Notes, "a note") || d.Cost.RecordCPU != 0.005 || d.Check != nil {
		t.Errorf("%q %+v %+v", d.Notes, d.Cost, d.Check)
	}
}

// recorded is a golden incident of 4 s, one generation of the trace for each.
const recorded = "../cause/lock-held-across-wait/testdata/lock-held-across-wait.whylate"

// A recording of several generations that is cut is diagnosed as far as it goes,
// and says so.
func TestCutTraces(t *testing.T) {
	whole := traceOf(t, recorded)
	all, err := analyse(whole, AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var before *report.Diagnosis
	for _, tenths := range []int{4, 6, 8, 10} {
		size := len(whole)*tenths/10 - 1 // the last cut takes one byte
		t.Run(fmt.Sprintf("%d of %d bytes", size, len(whole)), func(t *testing.T) {
			d, err := analyse(whole[:size], AnalyseOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if d.Lost.Bytes <= 0 || d.Lost.Bytes > int64(size) || d.Lost.Detail == "" {
				t.Errorf("lost %+v", d.Lost)
			}
			if d.Verdict != report.VerdictCause || d.Findings[0].Cause != all.Findings[0].Cause || d.Check.WorstNS != 0 {
				t.Errorf("%s (%s), closure %+v", d.Verdict, d.Reason, d.Check)
			}
			if d.DurationNS >= all.DurationNS || d.Requests.Count >= all.Requests.Count || before != nil && (d.DurationNS < before.DurationNS || d.Requests.Count < before.Requests.Count) {
				t.Errorf("%d requests in %d ns of %d in %d", d.Requests.Count, d.DurationNS, all.Requests.Count, all.DurationNS)
			}
			before = d
		})
	}
}

// Within its first generation, a trace cannot be read at all.
func TestATraceCutInItsFirstGenerationIsAnError(t *testing.T) {
	whole := readFile(t, alike)
	for _, tenths := range []int{1, 5, 9} {
		d, err := analyse(whole[:len(whole)*tenths/10], AnalyseOptions{})
		if d != nil || err == nil || !strings.Contains(err.Error(), "cut") {
			t.Errorf("%d tenths: %v, %v", tenths, d, err)
		}
	}
}

// Whatever a byte is changed to, there is a diagnosis whose leaves add up, or an
// error. Only the seed decides which bytes.
func TestFlippedBitsNeitherPanicNorBreakTheClosure(t *testing.T) {
	for _, c := range []struct {
		file  string
		flips int
	}{{noRequests, 200}, {alike, 60}} {
		t.Run(filepath.Base(c.file), func(t *testing.T) {
			whole := readFile(t, c.file)
			rng := rand.New(rand.NewPCG(7, 7))
			failed := 0
			for range c.flips {
				at, bit := rng.IntN(len(whole)), rng.IntN(8)
				data := slices.Clone(whole)
				data[at] ^= 1 << bit
				d, err := analyse(data, AnalyseOptions{})
				switch {
				case err != nil:
					failed++
				case d.Verdict == "" || d.Check.WorstNS != 0 || d.DurationNS <= 0:
					t.Errorf("bit %d of byte %d: %s, closure %+v, %d ns", bit, at, d.Verdict, d.Check, d.DurationNS)
				}
			}
			t.Logf("%d of %d are errors", failed, c.flips)
		})
	}
}

func TestTheUserSaysWhatARequestIs(t *testing.T) {
	for _, c := range []struct {
		expr, foundBy, reason string
	}{
		{`^main\.main\.func1$`, "function", ""},
		{`^nobody$`, "", "no-requests"},
	} {
		d, err := analyse(readFile(t, alike), AnalyseOptions{Request: regexp.MustCompile(c.expr)})
		if err != nil {
			t.Fatal(err)
		}
		if d.Requests.FoundBy != c.foundBy || d.Reason != c.reason {
			t.Errorf("%s: found by %q, reason %q, %d requests", c.expr, d.Requests.FoundBy, d.Reason, d.Requests.Count)
		}
	}
}

func TestBaseline(t *testing.T) {
	read := func(data []byte) *evidence.Incident {
		in, err := evidence.Read(bytes.NewReader(data), int64(len(data)), evidence.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	t.Run("a service that is as it was is healthy", func(t *testing.T) {
		d, err := analyse(readFile(t, alike), AnalyseOptions{Baseline: read(readFile(t, alike)), BaselineName: "itself"})
		if err != nil {
			t.Fatal(err)
		}
		if d.Verdict != report.VerdictHealthy || d.Level != nil {
			t.Errorf("%s, level %+v: %s", d.Verdict, d.Level, d.Sentence)
		}
	})
	t.Run("one that is not needed, of another program, is said to be so", func(t *testing.T) {
		d, err := analyse(readFile(t, recorded), AnalyseOptions{Baseline: read(readFile(t, "../cause/lock-convoy/testdata/fares-sales.whylate"))})
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(d.Notes, "\n")
		if !strings.Contains(notes, "another program, ") || !strings.Contains(notes, "was not needed") {
			t.Errorf("%s: %s", d.Verdict, notes)
		}
	})
	t.Run("a baseline without a trace is an error that says so", func(t *testing.T) {
		_, err := analyse(readFile(t, alike), AnalyseOptions{Baseline: incident(t, nil, nil)})
		if !errors.Is(err, ErrNoTrace) || !strings.Contains(err.Error(), "baseline") {
			t.Errorf("%v", err)
		}
	})
	t.Run("a baseline without requests says nothing", func(t *testing.T) {
		d, err := analyse(readFile(t, alike), AnalyseOptions{Baseline: read(readFile(t, noRequests))})
		if err != nil || d.Verdict != report.VerdictHealthy {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// A p99 above the objective must not be healthy, whatever the ratio.
func TestTheObjectiveDecidesWhatIsHealthy(t *testing.T) {
	for _, c := range []struct {
		slo     time.Duration
		healthy bool
	}{{time.Second, true}, {time.Millisecond, false}} {
		d, err := analyse(readFile(t, alike), AnalyseOptions{SLO: c.slo})
		if err != nil {
			t.Fatal(err)
		}
		if (d.Verdict == report.VerdictHealthy) != c.healthy {
			t.Errorf("p99 %d ns, objective %s: %s", d.Requests.P99NS, c.slo, d.Verdict)
		}
	}
}

func TestWhatIsMostlyLostIsNotHealthy(t *testing.T) {
	for _, c := range []struct {
		lost            string
		trace, recorded int64
		want            string
	}{
		{"the connection broke after 3s of 10s", 1e9, 3e9, report.VerdictInconclusive},
		{"the recording was ended after 3.8s of 10s", 29e8, 38e8, report.VerdictHealthy},
		{"", 1e9, 3e9, report.VerdictHealthy},
		{"the trace is damaged", 1e9, 0, report.VerdictHealthy}, // of a bare trace it is not known how long it was
	} {
		d := &report.Diagnosis{Verdict: report.VerdictHealthy, DurationNS: c.trace, Lost: report.Lost{Detail: c.lost}}
		mostlyLost(d, &evidence.Manifest{DurationNS: c.recorded})
		if d.Verdict != c.want || (d.Reason == "lost") != (c.want == report.VerdictInconclusive) || c.want != report.VerdictHealthy && !strings.Contains(d.Sentence, c.lost) {
			t.Errorf("%+v: %s, %s", c, d.Verdict, d.Sentence)
		}
	}
}
