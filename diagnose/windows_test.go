package diagnose

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
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

// goldenTrace is the trace of a golden incident: seconds of a service.
func goldenTrace(t *testing.T) []byte {
	t.Helper()
	in, err := evidence.Open("../cause/timer-wait/testdata/gateway.whylate", evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := in.Member(evidence.MemberTrace)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
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
	// Requests across a boundary are in none.
	if c := whole.Requests.Count; n > c || n < c/2 {
		t.Errorf("%d requests in windows, %d as one", n, c)
	}
}

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
