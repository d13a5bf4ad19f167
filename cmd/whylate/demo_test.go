package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/demo"
	"github.com/whylate/whylate/report"
)

func TestDemoListsItsScenarios(t *testing.T) {
	code, stdout, stderr := whylate(t, "demo", "--list")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != exitOK || stderr != "" || len(lines) != len(demo.All()) {
		t.Fatalf("exit %d, %d lines, stderr %q", code, len(lines), stderr)
	}
	for i, s := range demo.All() {
		if !strings.HasPrefix(lines[i], s.Name+" ") || !strings.HasSuffix(lines[i], s.Title) {
			t.Errorf("%q", lines[i])
		}
	}
}

// The first demo, end to end: a process of its own, load, a recording over HTTP,
// the diagnosis, and the recording diagnosed once more from the file that the last line names.
// About 6 s.
func TestTheFirstDemoNamesItsPlantedCause(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := demo.Default()
	code, stdout, stderr := whylate(t, "demo", "--for", "3s")
	for range 3 { // while something else has the machine's CPUs, that is the truth
		if code == exitCause || !strings.Contains(stdout, "host-contention") {
			break
		}
		t.Logf("once more: %s", strings.SplitN(stdout, "\n", 2)[0])
		code, stdout, stderr = whylate(t, "demo", "--for", "3s")
	}
	if code != exitCause {
		t.Fatalf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	if !strings.Contains(stdout, s.Cause) || strings.Contains(stdout, "planted") {
		t.Errorf("stdout\n%s", stdout)
	}
	for _, part := range []string{"demo " + s.Name, "trace (3 s)\n", "analysing\n", "planted: " + s.Cause + "; found: cause:" + s.Cause} {
		if !strings.Contains(stderr, part) {
			t.Errorf("%q is missing in\n%s", part, stderr)
		}
	}
	_, next, _ := strings.Cut(stderr, "\nnext: ")
	_, file, _ := strings.Cut(strings.TrimSpace(next), " show ")
	if code, page, stderr := whylate(t, "show", file, "-o", "-"); code != exitOK || !strings.Contains(page, s.Cause) {
		t.Errorf("the last line shows nothing: exit %d\n%s", code, stderr)
	}
	for _, c := range []struct {
		name, verdict string
		code          int
		args          []string
	}{
		{"the file has the same cause", report.VerdictCause, exitCause, nil},
		{"an objective that holds makes it healthy", report.VerdictHealthy, exitOK, []string{"--slo", "1m"}},
		{"itself is no baseline against which it is slower", report.VerdictCause, exitCause, []string{"--baseline", file}},
		{"without requests there is no answer", report.VerdictInconclusive, exitInconclusive, []string{"--request", "func=^nobody$"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := whylate(t, append([]string{"diagnose", "-o", "json", file}, c.args...)...)
			d := decode(t, stdout)
			if code != c.code || d.Verdict != c.verdict || stderr != "" {
				t.Errorf("exit %d, %s (%s), stderr %q", code, d.Verdict, d.Reason, stderr)
			}
			if c.verdict == report.VerdictCause && (len(d.Findings) == 0 || d.Findings[0].Cause != s.Cause || !strings.HasPrefix(d.Findings[0].Where.Function, s.Place)) {
				t.Errorf("%+v", d.Findings)
			}
		})
	}
}

// The verdict of a demo is right if it is what was planted, by name or among the
// causes that the trace alone cannot tell apart.
func TestJudge(t *testing.T) {
	fault := demo.Scenario{Cause: "cpu-hog", Contrast: "tail", Accept: []string{"overload"}, Verdicts: []string{"cause", "inconclusive"}}
	control := demo.Scenario{Verdicts: []string{"healthy", "inconclusive"}, Accept: []string{"timer-wait"}}
	named := func(verdict string, ids ...string) *report.Diagnosis {
		d := &report.Diagnosis{Verdict: verdict}
		for _, id := range ids {
			d.Findings = append(d.Findings, cause.Finding{Cause: id, Contrast: "tail"})
		}
		return d
	}
	alike := func(ids ...string) *report.Diagnosis {
		return &report.Diagnosis{Verdict: "inconclusive", ConsistentWith: []cause.Consistent{{Causes: ids}}}
	}
	level := named("cause", "cpu-hog")
	level.Findings[0].Contrast = "level"
	for _, c := range []struct {
		name string
		s    demo.Scenario
		d    *report.Diagnosis
		want bool
	}{
		{"the planted cause", fault, named("cause", "cpu-hog"), true},
		{"the planted cause before another", fault, named("cause", "cpu-hog", "timer-wait"), true},
		{"the planted cause behind another", fault, named("cause", "timer-wait", "cpu-hog"), false},
		{"one that is right too", fault, named("cause", "overload"), true},
		{"another", fault, named("cause", "timer-wait"), false},
		{"the other contrast", fault, level, false},
		{"another verdict", fault, named("healthy"), false},
		{"among those that look alike", fault, alike("overload", "cpu-hog"), true},
		{"not among those that look alike", fault, alike("overload", "gc-assist"), false},
		{"nothing at all", fault, named("inconclusive"), false},
		{"a control without a name", control, named("healthy"), true},
		{"a control with a name", control, named("inconclusive", "cpu-hog"), false},
		{"a control with a name that is right", control, named("inconclusive", "timer-wait"), true},
		{"a control with a cause", control, named("cause", "timer-wait"), false},
	} {
		if got, why := judge(c.s, c.d); got != c.want {
			t.Errorf("%s: %v, %s", c.name, got, why)
		}
	}
	for _, c := range []struct {
		want string
		s    demo.Scenario
		d    *report.Diagnosis
	}{
		{"right", fault, named("cause", "cpu-hog")},
		{"right", fault, named("cause", "overload")},
		{"WRONG", fault, named("cause", "timer-wait", "cpu-hog")},
		{"honest", fault, alike("gc-assist", "cpu-hog")},
		{"silent", fault, alike("gc-assist")},
		{"silent", fault, named("inconclusive")},
		{"missed", fault, named("healthy")},
		{"right", control, named("healthy")},
		{"right", control, named("inconclusive", "timer-wait")},
		{"WRONG", control, named("cause", "cpu-hog")},
		{"silent", control, alike("cpu-hog")},
	} {
		if got := grade(c.s, c.d); got != c.want {
			t.Errorf("%s of %s: grade %q, want %q", found(c.d), planted(c.s), got, c.want)
		}
	}
}

// A run beside stolen CPU is another incident: it neither fails a table nor passes
// for one that was run.
func TestWhatCountsInATable(t *testing.T) {
	for _, c := range []struct {
		sum  tally
		want string
	}{
		{tally{right: 3}, ""},
		{tally{right: 3, busy: 4}, ""},
		{tally{right: 2, wrong: 1, busy: 5, lost: 1}, "1 of 3 verdicts are not the planted ones"},
		{tally{right: 2, busy: 5, lost: 1}, "1 runs are worth nothing"},
	} {
		if err := c.sum.err(); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.sum, err, c.want)
		}
	}
}

// Several demos, or one several times, are a table, and their recordings can be kept.
func TestATableOfDemos(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "kept")
	s := demo.Default()
	code, stdout, stderr := whylate(t, "demo", "--for", "2s", "--times", "2", "--save", folder, s.Name)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) < 4 || !strings.HasPrefix(lines[0], "scenario ") {
		t.Fatalf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	runs := 0
	for _, line := range lines[1 : len(lines)-1] {
		if !strings.HasPrefix(line, s.Name+" ") {
			t.Errorf("%q", line)
		}
		if !strings.Contains(line, " busy ") { // the hypervisor's doing, tried again
			runs++
		}
	}
	if runs > 2 {
		t.Errorf("%d runs\n%s", runs, stdout)
	}
	if right := strings.Count(stdout, " yes "); (code == exitOK) != (right == 2) {
		t.Errorf("exit %d with %d right\n%s", code, right, stdout)
	}
	for _, name := range []string{"-1.whylate", "-2.whylate"} {
		if _, err := os.Stat(filepath.Join(folder, s.Name+name)); err != nil {
			t.Error(err)
		}
	}
}
