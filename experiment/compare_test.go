package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/report/detail"
)

const ms = int64(1e6)

func ratio(v float64) *float64 { return &v }

// found is a finding with an interval of a tenth to both sides.
func found(id string, ns, excess int64) cause.Finding {
	share := float64(ns) / float64(excess)
	return cause.Finding{
		Cause: id, Contrast: cause.TailContrast, ExcessNS: ns, Share: share, ShareLow: ratio(share * 0.9), ShareHigh: ratio(share * 1.1),
		Where: &cause.Place{Function: "main.f"},
	}
}

// incident is one of 2,000 requests in ten seconds.
func incident(verdict string, excess int64, findings ...cause.Finding) Incident {
	d := &report.Diagnosis{
		Verdict: verdict, DurationNS: 10e9, ExcessNS: excess, Findings: findings,
		Requests: report.Requests{Count: 2000, P50NS: ms, P90NS: 2 * ms, P99NS: ms + excess, P999NS: ms + excess, MaxNS: 2*ms + excess},
	}
	return Incident{Name: "x.whylate", Manifest: &evidence.Manifest{}, Diagnosis: d}
}

// Who has mended the largest cause sees the next one, which was there before.
func TestACauseBehindALargerOneDidNotAppear(t *testing.T) {
	a := incident(report.VerdictCause, 200*ms, found("slow-dependency", 196*ms, 200*ms))
	a.Diagnosis.RuledOut = []cause.RuledOut{{Cause: "lock-held-across-wait", Absent: true, ByShare: true, Number: 0.02}}
	b := incident(report.VerdictCause, 40*ms, found("lock-held-across-wait", 38*ms, 40*ms))
	c := Compare(a, b)
	if c.Verdict != VerdictBetter || !strings.Contains(c.Sentence, "slow-dependency went") {
		t.Errorf("%s: %s", c.Verdict, c.Sentence)
	}
	for _, x := range c.Causes {
		if x.Cause == "lock-held-across-wait" && (x.Became != Unclear || x.HiddenBehind != "slow-dependency") {
			t.Errorf("%+v", x)
		}
	}
	if c := Compare(b, a); c.Verdict != VerdictWorse || strings.Contains(c.Sentence, "went") {
		t.Errorf("the other way round: %s: %s", c.Verdict, c.Sentence)
	}
}

// Of two causes one appeared and another one went: the sentence has both, and latency decides.
func TestOneCauseWentAndAnotherAppeared(t *testing.T) {
	evidenceSaysNo := func(in Incident, id string) Incident {
		in.Diagnosis.RuledOut = []cause.RuledOut{{Cause: id, Because: "its evidence says no"}}
		return in
	}
	a := evidenceSaysNo(incident(report.VerdictCause, 40*ms, found("lock-held-across-wait", 38*ms, 40*ms)), "gc-pause")
	b := evidenceSaysNo(incident(report.VerdictCause, 30*ms, found("gc-pause", 28*ms, 30*ms)), "lock-held-across-wait")
	for _, c := range []*Comparison{Compare(a, b), Compare(b, a)} {
		if c.Verdict != VerdictMixed || !strings.Contains(c.Sentence, "gc-pause") || !strings.Contains(c.Sentence, "lock-held-across-wait") {
			t.Errorf("%s: %s", c.Verdict, c.Sentence)
		}
	}
	if Compare(a, b).Later() || !Compare(b, a).Later() {
		t.Error("which of them is later is not what their p99 say")
	}
}

func TestWhatBecameOfACause(t *testing.T) {
	healthy := incident(report.VerdictHealthy, ms)
	lock := incident(report.VerdictCause, 40*ms, found("lock-held-across-wait", 38*ms, 40*ms))
	with := func(in Incident, do func(*report.Diagnosis)) Incident {
		d := *in.Diagnosis
		do(&d)
		in.Diagnosis = &d
		return in
	}
	for name, c := range map[string]struct {
		a, b            Incident
		became, verdict string
		why             string
	}{
		"it appeared, and all of A's excess is less": {healthy, lock, Appeared, VerdictWorse, "only 1.00 ms"},
		"it went":                            {lock, healthy, Went, VerdictBetter, ""},
		"nothing changed":                    {lock, lock, Same, VerdictSame, ""},
		"a little more is chance":            {lock, incident(report.VerdictCause, 50*ms, found("lock-held-across-wait", 48*ms, 50*ms)), Same, VerdictSame, ""},
		"it grew":                            {lock, incident(report.VerdictCause, 90*ms, found("lock-held-across-wait", 88*ms, 90*ms)), More, VerdictWorse, ""},
		"it shrank":                          {incident(report.VerdictCause, 90*ms, found("lock-held-across-wait", 88*ms, 90*ms)), lock, Less, VerdictBetter, ""},
		"a larger part of less is no growth": {incident(report.VerdictCause, 400*ms, found("lock-held-across-wait", 80*ms, 400*ms)), lock, Less, VerdictBetter, ""},
		"without an interval a part is what it is": {lock, with(lock, func(d *report.Diagnosis) {
			d.Findings = []cause.Finding{{Cause: "lock-held-across-wait", Contrast: cause.TailContrast, ExcessNS: 39 * ms, Share: 0.97}}
		}), Same, VerdictSame, ""},
		"A is consistent with it": {with(incident(report.VerdictInconclusive, 38*ms), func(d *report.Diagnosis) {
			d.ConsistentWith = []cause.Consistent{{Causes: []string{"x", "lock-held-across-wait"}, Record: "--probes sched"}}
		}), lock, Unclear, VerdictUnclear, "--probes sched"},
		"A has some of it": {with(incident(report.VerdictCause, 38*ms), func(d *report.Diagnosis) {
			d.RuledOut = []cause.RuledOut{{Cause: "lock-held-across-wait", Fits: true, Because: "a fifth"}}
		}), lock, Unclear, VerdictUnclear, "a fifth"},
		"A rules it out": {with(incident(report.VerdictCause, 38*ms), func(d *report.Diagnosis) {
			d.RuledOut = []cause.RuledOut{{Cause: "lock-held-across-wait", Because: "nobody held one"}}
		}), lock, Appeared, VerdictWorse, "nobody held one"},
		"A could not know": {incident(report.VerdictInconclusive, 38*ms), lock, Unclear, VerdictUnclear, "cannot say"},
		"in B every request waits alike, and nothing is in the tail": {lock, with(incident(report.VerdictInconclusive, 38*ms), func(d *report.Diagnosis) {
			d.Reason, d.RuledOut = "level", []cause.RuledOut{{Cause: "lock-held-across-wait", Absent: true}}
		}), Unclear, VerdictUnclear, "--slo"},
		"A has too few requests":                       {with(healthy, func(d *report.Diagnosis) { d.Requests.Count = 12 }), lock, Unclear, VerdictUnclear, ""},
		"A has no requests, and B would seem to be it": {with(healthy, func(d *report.Diagnosis) { d.Requests.Count, d.ExcessNS, d.Verdict = 0, 0, report.VerdictInconclusive }), lock, Unclear, VerdictUnclear, "cannot say"},
	} {
		got := Compare(c.a, c.b)
		if name == "A has too few requests" { // whatever is said of the cause, nothing can be compared
			got.Causes[0].Became = Unclear
		}
		if len(got.Causes) != 1 || got.Causes[0].Became != c.became || got.Verdict != c.verdict || !strings.Contains(got.Causes[0].Why, c.why) {
			t.Errorf("%s: %s, %+v, want %s %s (%s)", name, got.Verdict, got.Causes, c.became, c.verdict, c.why)
		}
		if got.Sentence == "" {
			t.Errorf("%s: no sentence", name)
		}
	}
}

func TestWhatDiffers(t *testing.T) {
	a, b := incident(report.VerdictHealthy, ms), incident(report.VerdictHealthy, ms)
	target := evidence.Target{
		Program: "shop", Go: "go1.25.1", Main: "example.com/shop", MainVersion: "v1.2.0", ModulesFrom: "build info",
		Modules: []evidence.Module{{Path: "example.com/a", Version: "v1.0.0"}, {Path: "example.com/b", Version: "v1.0.0"}},
		Env:     map[string]string{"GOGC": "100"}, Settings: map[string]string{"vcs.revision": "aaa", "-race": "true"},
	}
	a.Manifest = &evidence.Manifest{Target: target, Host: evidence.Host{CPUs: 4, Kernel: "6.1", Clocksource: "tsc"}, Recorded: []evidence.Recorded{{Member: evidence.MemberTrace}, {Member: evidence.MemberHost}}}
	target.Go, target.MainVersion, target.Env, target.Settings = "go1.26.0", "v1.3.0", nil, map[string]string{"vcs.revision": "bbb"}
	target.Modules = []evidence.Module{{Path: "example.com/a", Version: "v1.1.0"}, {Path: "example.com/c", Version: "v0.1.0"}}
	b.Manifest = &evidence.Manifest{Target: target, Host: evidence.Host{CPUs: 4, Kernel: "6.1", Clocksource: "hpet", Quotas: []evidence.Quota{{QuotaUS: 400_000, PeriodUS: 100_000}, {QuotaUS: 27_300, PeriodUS: 100_000}}}, Recorded: []evidence.Recorded{{Member: evidence.MemberTrace}}}
	b.Diagnosis.Requests.Count = 4000
	for i, in := range []*Incident{&a, &b} {
		in.Diagnosis.Detail = &detail.Recording{}
		for k := range 2000 {
			e := "list"
			if k%10 < 1+4*i {
				e = "report"
			}
			in.Diagnosis.Detail.Requests = append(in.Diagnosis.Detail.Requests, detail.Request{Endpoint: e, DurationNS: 5 * ms, Weight: 1})
		}
	}
	got := ""
	c := Compare(a, b)
	for _, d := range c.Differences {
		got += fmt.Sprintf("%s: %s, %s\n", d.What, d.A, d.B)
	}
	const want = `quota: none, 0.273 CPUs
GOGC in the environment: 100, none
Go: go1.25.1, go1.26.0
version: v1.2.0, v1.3.0
build setting -race: true, none
build setting vcs.revision: aaa, bbb
module example.com/a: v1.0.0, v1.1.0
module example.com/b: v1.0.0, none
module example.com/c: none, v0.1.0
load: 200 requests/s, 400 requests/s
endpoint list: 90 % of the requests, 50 % of the requests
endpoint report: 10 % of the requests, 50 % of the requests
clocksource: tsc, hpet
host evidence: recorded, not recorded
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if math.Abs(c.A.Concurrency-1) > 1e-9 || c.A.RequestsPerS != 200 {
		t.Errorf("%+v", c.A)
	}
	// Of what only one of them knows nothing is said, nor of what chance does.
	bare := incident(report.VerdictHealthy, ms)
	bare.Diagnosis.Requests.Count = 2050
	if d := Compare(a, bare).Differences; len(d) != 2 || d[0].What != "execution trace" || d[1].What != "host evidence" {
		t.Errorf("%+v", d)
	}
	if d := Compare(a, a).Differences; len(d) != 0 {
		t.Errorf("%+v", d)
	}
}

// What comes from files is shown, and does nothing.
func TestHostileComparisons(t *testing.T) {
	const evil = "\x1b[2J\u202e\nnew line"
	a, b := incident(report.VerdictHealthy, ms), incident(report.VerdictCause, 40*ms, found(evil, 38*ms, 40*ms))
	b.Name, b.Diagnosis.Sentence, b.Diagnosis.Reason = evil, evil, evil
	a.Manifest = &evidence.Manifest{Target: evidence.Target{Go: "go1.26"}}
	b.Manifest = &evidence.Manifest{Target: evidence.Target{Go: evil}}
	c := Compare(a, b)
	var text, doc bytes.Buffer
	if err := c.Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := c.JSON(&doc); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{text.String(), doc.String()} {
		if strings.ContainsAny(s, "\x1b\u202e") || strings.Contains(s, "\nnew line") {
			t.Errorf("%q", s)
		}
	}
	var back Comparison
	if err := json.Unmarshal(doc.Bytes(), &back); err != nil || back.B.Name != evil || back.Schema != Schema {
		t.Errorf("%v: %+v", err, back.B)
	}
	if first, _, _ := strings.Cut(text.String(), "\n"); !strings.Contains(first, "appeared in B and takes 38.0 ms") {
		t.Errorf("%q", first)
	}
}
