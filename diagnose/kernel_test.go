package diagnose

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
)

// withKernel is a copy of an incident with a kernel.events.
func withKernel(t *testing.T, in *evidence.Incident, file []byte) *evidence.Incident {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.whylate")
	w, err := evidence.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Copy(in); err != nil {
		t.Fatal(err)
	}
	m, err := w.Member(evidence.MemberKernel)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

func open(t *testing.T, path string) *evidence.Incident {
	t.Helper()
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in
}

func TestSchedulingEventsThatCannotBeUsedAreLeftOutAndSaid(t *testing.T) {
	golden := open(t, filepath.Join("testdata", "mixture.whylate"))
	tl, err := readTimeline(golden, AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	start, end := int64(tl.Start), int64(tl.End)
	file := func(h events.Header, a *events.After, tids ...int) []byte {
		var b bytes.Buffer
		h.CPUs = 2
		w, err := events.NewWriter(&b, h, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, tid := range tids {
			if _, err := w.Write(&events.Stretch{TID: tid, Out: end, OnNS: end - start}); err != nil {
				t.Fatal(err)
			}
		}
		if a == nil { // cut off
			a = &events.After{}
			if err := w.Close(*a); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()[:bytes.LastIndexByte(bytes.TrimSpace(b.Bytes()), '\n')+1]
		}
		if err := w.Close(*a); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	var own, others []int
	for _, id := range tl.Threads {
		own, others = append(own, int(id)), append(others, int(id)+1_000_000)
	}
	if len(own) == 0 {
		t.Fatal("the golden incident has no threads")
	}
	good := events.Header{StartNS: start - 1}
	after := events.After{EndNS: end + 1}
	want, err := Analyse(golden, AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file []byte
		why  string
	}{
		"good":               {file(good, &after, own...), ""},
		"junk":               {[]byte("\x7fELF"), "malformed"},
		"cut":                {file(good, nil, own...), "the file was cut"},
		"full":               {file(good, &events.After{EndNS: end - 1, Full: true}, own...), "the bound in bytes was reached"},
		"full at its end":    {file(good, &events.After{EndNS: end + 1, Full: true}, own...), ""},
		"lossy":              {file(good, &events.After{EndNS: end + 1, Lost: 50}, own...), "were lost"},
		"begun late":         {file(events.Header{StartNS: start + 1}, &after, own...), "not taken all the time"},
		"ended early":        {file(good, &events.After{EndNS: end - 1}, own...), "not taken all the time"},
		"of another process": {file(good, &after, others...), "threads belong to process"},
	} {
		in := withKernel(t, golden, c.file)
		watch, err := kernelEvents(in, tl)
		if c.why == "" && (err != nil || watch == nil) || c.why != "" && (err == nil || watch != nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
		d, err := Analyse(in, AnalyseOptions{Check: true})
		if err != nil {
			t.Fatal(err)
		}
		if d.Check.WorstNS != 0 {
			t.Errorf("%s: leaves do not add up: %+v", name, d.Check)
		}
		said := slices.ContainsFunc(d.NotRecorded, func(n report.NotRecorded) bool { return n.What == kernelWord && strings.Contains(n.Why, c.why) })
		if said != (c.why != "") {
			t.Errorf("%s: not recorded: %+v", name, d.NotRecorded)
		}
		if c.why != "" && (d.Verdict != want.Verdict || len(d.Findings) != len(want.Findings)) {
			t.Errorf("%s: the verdict is another one: %s, want %s", name, d.Sentence, want.Sentence)
		}
	}
	in := withKernel(t, golden, file(good, &after, own...))
	for name, o := range map[string]AnalyseOptions{"no host": {NoHost: true}, "no kernel": {NoKernel: true}} {
		d, err := Analyse(in, o)
		if err != nil {
			t.Fatal(err)
		}
		said := func(what string) bool {
			return slices.ContainsFunc(d.NotRecorded, func(n report.NotRecorded) bool { return n.What == what && strings.Contains(n.Why, "left out") })
		}
		if !said(kernelWord) || said("host evidence") != (o.NoHost && golden.Has(evidence.MemberHost)) {
			t.Errorf("%s: not recorded: %+v", name, d.NotRecorded)
		}
	}
}

func TestHowLongCallsTookIsSaid(t *testing.T) {
	if got := callTimes([]events.Call{{From: 10, To: 30, Open: true}}); got != nil {
		t.Errorf("of none that ended: %+v", got)
	}
	calls := []events.Call{{From: 100, To: 1000, Open: true}, {From: 200, To: 1000, Open: true}}
	for i := range int64(1000) {
		calls = append(calls, events.Call{From: 5, To: 6 + (i*7)%1000})
	}
	want := report.CallTimes{Ended: 1000, P50NS: 501, P90NS: 901, P99NS: 991, MaxNS: 1000, Open: 2, OldestNS: 900}
	if got := callTimes(calls); got == nil || *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// What a part of the calls, or of a second, has shown is no health; what shows all is.
func TestAFewCallsThatWereFineAreNoHealth(t *testing.T) {
	for name, c := range map[string]struct {
		toNS, calls, lost int64
		short             bool
		want              string // in the sentence; "" if it stays healthy
	}{
		"the probes had taken their share": {3e8, 80, 0, true, "0.3 s only: then the probes"},
		"most found no room":               {10e9, 80, 1_000_000, false, "1000000 more were lost"},
		"they end early":                   {3e8, 80, 0, false, "0.3 s only."},
		"all of them":                      {10e9, 80, 0, false, ""},
		"almost all of them":               {9.8e9, 80, 2, false, ""},
	} {
		rec := events.New(events.Header{}, &events.After{Func: &events.Calls{Burst: events.Burst{ToNS: c.toNS, Short: c.short, Lost: c.lost}, Functions: []string{"main.handle"}, Calls: c.calls}}, nil)
		d := &report.Diagnosis{Verdict: report.VerdictHealthy, DurationNS: 10e9, Requests: report.Requests{Count: 80}}
		noteCalls(d, rec, nil, &AnalyseOptions{})
		if healthy := d.Verdict == report.VerdictHealthy; healthy != (c.want == "") || !healthy && (d.Reason != "few-requests" || !strings.Contains(d.Sentence, c.want)) {
			t.Errorf("%s: %s (%s): %s", name, d.Verdict, d.Reason, d.Sentence)
		}
	}
}

func TestCallsOfWhichNoneIsARequestAreSaid(t *testing.T) {
	for want, short := range map[string]bool{"called less often": true, "lies within the trace.": false} {
		rec := events.New(events.Header{}, &events.After{Func: &events.Calls{Burst: events.Burst{ToNS: 10e9, Short: short}, Functions: []string{"main.handle"}, Calls: 80}}, nil)
		d := &report.Diagnosis{Verdict: report.VerdictInconclusive}
		noteCalls(d, rec, nil, &AnalyseOptions{})
		if len(d.Notes) != 1 || !strings.Contains(d.Notes[0], want) {
			t.Errorf("short %v: %q", short, d.Notes)
		}
	}
	d := &report.Diagnosis{}
	noteCalls(d, nil, &unusable{"the bound", &events.Calls{Functions: []string{"main.handle"}}}, &AnalyseOptions{})
	if len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "main.handle cannot be used") {
		t.Errorf("%q", d.Notes)
	}
}
