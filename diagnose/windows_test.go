package diagnose

import (
	"bytes"
	"compress/gzip"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/internal/unpack"
	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/report/detail"
)

// bareTrace is the incident of a bare trace.
func bareTrace(t *testing.T, data []byte) *evidence.Incident {
	t.Helper()
	in, err := evidence.Read(bytes.NewReader(data), int64(len(data)), evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// traceOf is the trace of an incident file.
func traceOf(t *testing.T, file string) []byte {
	t.Helper()
	members, err := unpack.Zip(file)
	if err != nil {
		t.Fatal(err)
	}
	return members[evidence.MemberTrace]
}

// goldenTrace is the trace of a golden incident: seconds of a service.
func goldenTrace(t *testing.T) []byte {
	return traceOf(t, "../cause/timer-wait/testdata/gateway.whylate")
}

func TestALongTraceIsDiagnosedWindowByWindow(t *testing.T) {
	data := goldenTrace(t)
	whole, err := Analyse(bareTrace(t, data), AnalyseOptions{Check: true})
	if err != nil {
		t.Fatal(err)
	}
	if whole.Windows != nil || strings.Contains(whole.Sentence, "windows") {
		t.Errorf("windows of a trace that is one: %+v", whole.Windows)
	}
	d, err := Analyse(bareTrace(t, data), AnalyseOptions{Check: true, Window: int64(len(data) / 3)})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Windows) < 2 || !strings.Contains(d.Sentence, "In the worst of ") {
		t.Fatalf("%d windows: %s", len(d.Windows), d.Sentence)
	}
	if d.Lost != (report.Lost{}) || d.Check.WorstNS != 0 {
		t.Errorf("lost %+v, leaves miss %d ns", d.Lost, d.Check.WorstNS)
	}
	if got := d.DurationNS; got < whole.DurationNS*99/100 || got > whole.DurationNS*101/100 {
		t.Errorf("%d ns, as one %d", got, whole.DurationNS)
	}
	if !d.Started.Equal(whole.Started) {
		t.Errorf("from %v, as one %v", d.Started, whole.Started)
	}
	n, worst := 0, 0
	for i, w := range d.Windows {
		n += w.Requests
		if w.FromNS < 0 || w.ToNS <= w.FromNS || w.ToNS > d.DurationNS {
			t.Errorf("window %d: %+v", i, w)
		}
		if w.Worst {
			worst++
			if w.Requests != d.Requests.Count || w.P99NS != d.Requests.P99NS || w.Verdict != d.Verdict {
				t.Errorf("the worst window is %+v, all else of %+v", w, d.Requests)
			}
		}
	}
	if worst != 1 {
		t.Errorf("%d windows are the worst", worst)
	}
	// A request is in the window in which it begins.
	if c := whole.Requests.Count; n > c || n < c-c/100 {
		t.Errorf("%d requests in windows, %d as one", n, c)
	}
}

// It is said how many windows agree with what the sentence states: a finding beside that is none.
func TestWindowsThatAgree(t *testing.T) {
	for _, c := range []struct {
		causes          []string // of windows, the worst first
		verdict, reason string   // of the worst one
		contrast        string   // of its finding
		says            string
	}{
		{[]string{"a"}, report.VerdictCause, "", cause.TailContrast, ""},
		{[]string{"a", "b", "", "b", "b", "b"}, report.VerdictCause, "", cause.TailContrast, ""},
		{[]string{"a", "b", "a", "b", "b", "b"}, report.VerdictCause, "", cause.TailContrast, ", as in another one"},
		{[]string{"a", "a", "a", "a"}, report.VerdictCause, "", cause.TailContrast, ", as in 3 others"},
		{[]string{"a", "a", "a", "a"}, report.VerdictInconclusive, "level", cause.LevelContrast, ", as in 3 others"},
		{[]string{"a", "a", "a", "a"}, report.VerdictInconclusive, "level", cause.TailContrast, ""},
		{[]string{"a", "a", "a", "a"}, report.VerdictInconclusive, "unexplained", cause.TailContrast, ""},
		{[]string{"", "", ""}, report.VerdictInconclusive, "unexplained", "", ""},
	} {
		var all windows
		for i, id := range c.causes {
			d := &report.Diagnosis{Verdict: c.verdict, Reason: c.reason}
			if id != "" {
				d.Findings = []cause.Finding{{Cause: id, Contrast: c.contrast}}
			}
			d.Requests.Tail = report.Band{Count: 100 - i, MeanNS: 1e6, Episodes: 1}
			all.add(d, "", int64(i), int64(i+1))
		}
		if says := all.others(); says != c.says {
			t.Errorf("%q, %s (%s): %q, want %q", c.causes, c.verdict, c.reason, says, c.says)
		}
	}
}

// What may be one episode that goes on from window to window is not several.
func TestAnEpisodeMayGoOnInTheNextWindow(t *testing.T) {
	data := traceOf(t, "../cause/lock-convoy/testdata/lock-convoy.whylate")
	split, err := gotrace.Split(bytes.NewReader(data), 1)
	if err != nil {
		t.Fatal(err)
	}
	first, err := split.Next()
	if err != nil {
		t.Fatal(err)
	}
	one, err := Analyse(bareTrace(t, data[:first.End()]), AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		named []bool // by window
		want  string
	}{
		{[]bool{true, true, true}, "one-incident"},
		{[]bool{true, false, true, false, true}, "repeated"},
	} {
		var all windows
		for i, named := range c.named {
			d := &report.Diagnosis{Verdict: report.VerdictCause}
			if named {
				d.Findings = slices.Clone(one.Findings)
			}
			d.Requests.Tail = report.Band{Count: 100 - i, MeanNS: 1e6, Episodes: 2}
			all.add(d, "", int64(i), int64(i+1))
		}
		all.others()
		if got := all.worst.Findings[0].Pattern; got != c.want {
			t.Errorf("%v: %s, want %s", c.named, got, c.want)
		}
	}
}

// What is an incident in each window is a pattern of the trace if they have episodes enough together.
func TestIncidentsOfWindowsMakeAPattern(t *testing.T) {
	for _, c := range []struct {
		cause string
		parts int64
	}{{"back-pressure", 4}, {"fan-in-straggler", 3}, {"lock-convoy", 4}} {
		data := traceOf(t, "../cause/"+c.cause+"/testdata/"+c.cause+".whylate")
		d, err := Analyse(bareTrace(t, data), AnalyseOptions{Window: int64(len(data)) / c.parts})
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Windows) < 3 || len(d.Findings) == 0 || d.Requests.Tail.Episodes >= cause.Pattern || !strings.Contains(d.Sentence, ", as in ") {
			t.Fatalf("%s: %d windows, %d episodes in the worst one: %s", c.cause, len(d.Windows), d.Requests.Tail.Episodes, d.Sentence)
		}
		if f := d.Findings[0]; f.Pattern != "repeated" {
			t.Errorf("%s: %s, %s", c.cause, f.Pattern, f.Confidence)
		}
	}
}

// A damaged generation may hold a time that is years away from all others.
func TestATimeYearsAway(t *testing.T) {
	data := traceOf(t, "../cause/gc-workers/testdata/gc-workers.whylate")
	data[260100] ^= 1
	d, err := Analyse(bareTrace(t, data), AnalyseOptions{Check: true})
	if err != nil || d.Requests.Count == 0 || d.Lost.Bytes == 0 || d.Check.WorstNS != 0 {
		t.Errorf("%v: %s, lost %+v", err, d.Sentence, d.Lost)
	}
}

// How many windows are analysed at the same time changes nothing.
func TestJobsDoNotChangeADiagnosis(t *testing.T) {
	files, err := filepath.Glob("../cause/*/testdata/*.whylate")
	if err != nil {
		t.Fatal(err)
	}
	several := 0
	for i := 1; i < len(files); i += 8 { // of all of them it takes minutes under the race detector
		in, err := evidence.Open(files[i], evidence.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		length := int64(1)
		for _, r := range in.Manifest.Recorded {
			if r.Member == evidence.MemberTrace {
				length = r.Bytes
			}
		}
		o := AnalyseOptions{Check: true, Window: length / 5, Detail: &detail.Options{}}
		one, err := Analyse(in, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Jobs = 4
		four, err := Analyse(in, o)
		if err != nil {
			t.Fatal(err)
		}
		one.Cost, four.Cost = report.Cost{}, report.Cost{}
		if !reflect.DeepEqual(one, four) {
			t.Errorf("%s: %+v\n%+v", files[i], one, four)
		}
		if len(one.Windows) > 1 {
			several++
		}
	}
	if several < 4 {
		t.Errorf("only %d of the recordings have several windows", several)
	}
}

// Damage may lie anywhere in what two windows share: nothing is said twice, nor lost, for it.
func TestDamageIsNothingToTheWindowsOfGoldenIncidents(t *testing.T) {
	files, err := filepath.Glob("../cause/*/testdata/*.whylate")
	if err != nil {
		t.Fatal(err)
	}
	step := 4
	if need.Raced {
		step = 40
	}
	rng := rand.New(rand.NewPCG(7, 9))
	damaged, n := 0, 0
	for i := 0; i < len(files); i += step {
		whole := traceOf(t, files[i])
		for k := range int64(6) {
			data := bytes.Clone(whole)
			for range 1 + rng.IntN(4) {
				at := headerBytes + rng.IntN(len(data)-headerBytes)
				part := data[at:min(at+1+rng.IntN(200), len(data))]
				switch rng.IntN(3) {
				case 0:
					part[0] ^= 1 << rng.IntN(8)
				case 1:
					clear(part)
				default:
					for j := range part {
						part[j] = byte(rng.Uint32())
					}
				}
			}
			o := AnalyseOptions{Check: true, Window: int64(len(data)) / (3 + k)}
			one, err := Analyse(bareTrace(t, data), o)
			if err != nil {
				continue // nothing is left
			}
			o.Jobs = 2
			two, err := Analyse(bareTrace(t, data), o)
			if err != nil {
				t.Fatal(err)
			}
			one.Cost, two.Cost = report.Cost{}, report.Cost{}
			if !reflect.DeepEqual(one, two) {
				t.Errorf("%s, %d: %+v\n%+v", files[i], k, one, two)
			}
			if one.Check.WorstNS != 0 || one.Lost.Bytes < 0 || one.Lost.Bytes > int64(len(data)) {
				t.Errorf("%s, %d: leaves miss %d ns, lost %+v", files[i], k, one.Check.WorstNS, one.Lost)
			}
			if one.Lost.Detail != "" && len(one.Windows) > 1 {
				damaged++
			}
			n++
		}
	}
	if damaged < n/2 {
		t.Errorf("of %d traces only %d have damage and windows", n, damaged)
	}
}

// headerBytes is the length of a trace's header.
const headerBytes = 16

// What lies behind damage is a window, too, and only the damaged generation is lost.
func TestDamageInTheMiddleCostsAGeneration(t *testing.T) {
	data := goldenTrace(t)
	whole, err := Analyse(bareTrace(t, data), AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(data)
	clear(damaged[len(data)/2 : len(data)/2+4096])
	d, err := Analyse(bareTrace(t, damaged), AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Windows) != 2 || d.Lost.Bytes < 4096 || d.Lost.Bytes > int64(len(data)/2) || !strings.Contains(d.Lost.Detail, "damaged") {
		t.Errorf("windows %+v, lost %+v", d.Windows, d.Lost)
	}
	if got := d.Windows[0].Requests + d.Windows[len(d.Windows)-1].Requests; got < whole.Requests.Count/4 || got >= whole.Requests.Count {
		t.Errorf("%d requests of %d", got, whole.Requests.Count)
	}
	slow, err := Analyse(bareTrace(t, damaged), AnalyseOptions{Slow: true})
	if err != nil || slow.Windows != nil || slow.DurationNS >= d.Windows[0].ToNS+1e6 {
		t.Errorf("the Go team's reader ends at damage: %v, windows %+v, lost %+v", err, slow.Windows, slow.Lost)
	}
}

// Both readers give the same diagnosis.
func TestTheSlowReaderGivesTheSameDiagnosis(t *testing.T) {
	data := goldenTrace(t)
	fast, err := Analyse(bareTrace(t, data), AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slow, err := Analyse(bareTrace(t, data), AnalyseOptions{Slow: true})
	if err != nil {
		t.Fatal(err)
	}
	fast.Cost, slow.Cost = report.Cost{}, report.Cost{}
	if !reflect.DeepEqual(fast, slow) {
		t.Errorf("%+v\n%+v", fast, slow)
	}
}

// What is no trace's length by its manifest is a claim: the memory is bounded all the same.
func TestTheLengthOfATraceIsNotBelieved(t *testing.T) {
	for _, c := range []struct {
		says, length int64
		n            int
	}{
		{1, 200, 1}, {100, 200, 1}, {101, 51, 2}, {1000, 100, 10},
		{math.MaxInt64, 100, math.MaxInt64/100 + 1},
	} {
		in := &evidence.Incident{Manifest: evidence.Manifest{Recorded: []evidence.Recorded{{Member: evidence.MemberTrace, Bytes: c.says}}}}
		if length, n := divide(in, AnalyseOptions{Window: 100}); length != c.length || n != c.n {
			t.Errorf("%d bytes: %d windows of %d, want %d of %d", c.says, n, length, c.n, c.length)
		}
	}
	data := goldenTrace(t)
	in := bareTrace(t, data)
	for _, says := range []int64{0, -1} { // nothing
		in.Manifest.Recorded[0].Bytes = says
		if length, n := divide(in, AnalyseOptions{Window: 100}); length != 100 || n != 1 {
			t.Errorf("%d bytes: %d windows of %d", says, n, length)
		}
	}
	in.Manifest.Recorded[0].Bytes = 1
	d, err := Analyse(in, AnalyseOptions{Window: int64(len(data) / 6)})
	if err != nil || len(d.Windows) < 2 {
		t.Errorf("%v, windows %+v", err, d.Windows)
	}
}

// A window with too few requests to say why is not the worst one, however long they took.
func TestTheWorstWindowCanBeExplained(t *testing.T) {
	var w windows
	add := func(reason string, n int, mean int64) {
		w.add(&report.Diagnosis{Reason: reason, Requests: report.Requests{Tail: report.Band{Count: n, MeanNS: mean}}}, "", 0, 1)
	}
	add("no-requests", 0, 0)
	add("few-requests", 3, 1e10)
	add("", 10, 1e6)
	add("look-alikes", 10, 2e6)
	add("few-requests", 4, 1e10)
	if w.at != 3 {
		t.Errorf("the worst is %d", w.at)
	}
}

// All windows are verified, and a rate is of the time in which the requests came.
func TestWhatIsOfAllWindowsAndWhatOfOne(t *testing.T) {
	data := goldenTrace(t)
	whole, err := Analyse(bareTrace(t, data), AnalyseOptions{Check: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := Analyse(bareTrace(t, data), AnalyseOptions{Check: true, Window: int64(len(data) / 3), Baseline: bareTrace(t, data), BaselineName: "itself"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, w := range d.Windows {
		n += w.Requests
	}
	if d.Check.Requests < n || d.Check.Requests <= d.Requests.Count {
		t.Errorf("%d requests verified of %d in all windows, %d in the worst", d.Check.Requests, n, d.Requests.Count)
	}
	rate := func(d *report.Diagnosis) float64 { return float64(d.Requests.Count) / float64(d.CountedNS()) }
	if r := rate(d) / rate(whole); r < 0.5 || r > 2 {
		t.Errorf("%.2f times the rate", r)
	}
	if enough(d, time.Second) != 0 {
		t.Error("a trace of several windows is too short")
	}
}

// The length of a compressed trace is not known before it is read.
func TestWhatIsLostOfACompressedTrace(t *testing.T) {
	data := bytes.Clone(goldenTrace(t))
	clear(data[len(data)/5 : len(data)/5+4096])
	plain, err := Analyse(bareTrace(t, data), AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(data)
	w.Close()
	packed, err := Analyse(bareTrace(t, z.Bytes()), AnalyseOptions{})
	if err != nil || packed.Lost.Bytes != plain.Lost.Bytes || plain.Lost.Bytes < 4096 {
		t.Errorf("%d bytes are lost, compressed %d: %v", plain.Lost.Bytes, packed.Lost.Bytes, err)
	}
}

// The length of a packed trace says nothing of what is in it.
func TestAPackedTraceIsDividedByWhatIsInIt(t *testing.T) {
	data := goldenTrace(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	whole := int64(len(data))
	for name, content := range map[string][]byte{"whole": packed.Bytes(), "cut": packed.Bytes()[:packed.Len()-8]} {
		in := bareTrace(t, content)
		if in.Kind != evidence.KindGzipTrace {
			t.Fatalf("%s: kind %v", name, in.Kind)
		}
		for _, c := range []struct{ window, length int64 }{{whole - 1, whole - 1}, {whole, 2 * whole}, {whole + 1, 2 * (whole + 1)}} {
			if length, n := divide(in, AnalyseOptions{Window: c.window}); length != c.length || n != 1 {
				t.Errorf("%s, windows of %d bytes: %d of %d, want 1 of %d", name, c.window, n, length, c.length)
			}
		}
	}
}

// Windows that are too short for what they have are made longer.
func TestThinWindowsAreSeen(t *testing.T) {
	window := func(requests, tail int, mean int64, hang int) *report.Diagnosis {
		d := &report.Diagnosis{Verdict: report.VerdictHealthy}
		d.Requests.Count, d.Requests.InFlight = requests, hang
		d.Requests.Tail.Count, d.Requests.Tail.MeanNS = tail, mean
		if requests < cause.MinRequests {
			d.Verdict, d.Reason = report.VerdictInconclusive, "few-requests"
		}
		return d
	}
	for _, c := range []struct {
		name string
		list []*report.Diagnosis
		thin bool
	}{
		{"enough requests in each", []*report.Diagnosis{window(100, 2, 5e6, 0), window(100, 2, 9e6, 0)}, false},
		{"one window", []*report.Diagnosis{window(10, 1, 5e6, 3)}, false},
		{"few requests in each", []*report.Diagnosis{window(40, 1, 5e6, 0), window(40, 1, 5e6, 0)}, true},
		{"few and slow ones in one", []*report.Diagnosis{window(400, 4, 5e6, 0), window(40, 1, 90e6, 0)}, true},
		{"few and fast ones in the last", []*report.Diagnosis{window(400, 4, 5e6, 0), window(10, 1, 6e6, 0)}, false},
		{"a third of the requests in windows with few", []*report.Diagnosis{window(60, 1, 50e6, 0), window(35, 1, 5e6, 0)}, true},
		{"open at the end of the first", []*report.Diagnosis{window(400, 4, 5e6, 2), window(400, 4, 5e6, 0)}, true},
		{"open at the end of the last", []*report.Diagnosis{window(400, 4, 5e6, 0), window(400, 4, 5e6, 2)}, false},
	} {
		var all traceWindows
		for _, d := range c.list { // each in a section of its own
			var s traceWindows
			s.windows.add(d, "", 0, 1)
			all.join(&s)
		}
		if all.thin() != c.thin {
			t.Errorf("%s: thin %t", c.name, !c.thin)
		}
	}
}

// Of recordings of a service one that is not healthy is explained, be the slow requests of another endpoint slower in a healthy one;
// of a trace's windows the worst is.
func TestAHealthyRecordingIsNotTheWorst(t *testing.T) {
	of := func(verdict string, tail int64) *report.Diagnosis {
		d := &report.Diagnosis{Verdict: verdict}
		d.Requests.Count, d.Requests.Tail.Count, d.Requests.Tail.MeanNS = 1000, 20, tail
		return d
	}
	for file, want := range map[string]int{"a": 1, "": 2} {
		var w windows
		w.add(of(report.VerdictHealthy, 90e6), file, 0, 1e9)
		w.add(of(report.VerdictCause, 50e6), file, 1e9, 2e9)
		w.add(of(report.VerdictHealthy, 99e6), file, 2e9, 3e9)
		w.add(of(report.VerdictCause, 40e6), file, 3e9, 4e9)
		if w.at != want {
			t.Errorf("of %q: the worst is %d, want %d", file, w.at, want)
		}
	}
}
