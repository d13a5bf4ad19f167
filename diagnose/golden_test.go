package diagnose

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/report"
)

// The sizes of golden incidents: every go install downloads them.
const (
	maxGolden  = 300_000
	maxGoldens = 20_000_000
)

// golden is a recorded incident and the diagnosis that it must get.
type golden struct {
	path string
	// id is the cause in whose directory it lies, "" for a control.
	id   string
	want want
}

// want is the file beside an incident, NAME.want.json.
type want struct {
	Verdict string `json:"verdict"`
	// Finding is the cause of the first finding, or if Consistent is not empty,
	// the one among Consistent that is the truth. Empty: nothing may be named.
	Finding  string `json:"finding"`
	Contrast string `json:"contrast"`
	// Where is the end of the name of the function to blame.
	Where string `json:"where"`
	// Consistent is the set of causes that the trace alone cannot tell apart.
	Consistent []string `json:"consistent,omitempty"`
	// Also are other causes that are true: of who holds a lock across a call it is true
	// that the peer is slow.
	Also []string `json:"also,omitempty"`
}

// goldens reads every incident of the causes and of the controls.
func goldens(t *testing.T) []golden {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../cause/*/testdata/*", "testdata/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	var out []golden
	for _, file := range files {
		if base, ok := strings.CutSuffix(file, ".want.json"); ok {
			if _, err := os.Stat(base + ".whylate"); err != nil {
				t.Errorf("%s has no incident beside it", file)
			}
		}
		base, ok := strings.CutSuffix(file, ".whylate")
		if !ok {
			continue
		}
		g := golden{path: file}
		if dir := filepath.Dir(filepath.Dir(file)); dir != "." {
			g.id = filepath.Base(dir)
		}
		text, err := os.ReadFile(base + ".want.json")
		if err != nil {
			t.Errorf("%s has no want.json beside it: %v", file, err)
			continue
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&g.want); err != nil {
			t.Errorf("%s.want.json: %v", base, err)
			continue
		}
		out = append(out, g)
	}
	return out
}

// some returns golden incidents to diagnose: all, but under the race detector, with which an
// analysis takes twenty times as long, a quarter and the controls. `make test` does both.
func some(t *testing.T) (out []golden) {
	t.Helper()
	for i, g := range goldens(t) {
		if !need.Raced || i%4 == 0 || g.id == "" {
			out = append(out, g)
		}
	}
	return out
}

// truth says why a golden incident's want cannot be right, or "".
func (g *golden) truth() string {
	w := g.want
	switch {
	case !slices.Contains([]string{report.VerdictCause, report.VerdictHealthy, report.VerdictInconclusive}, w.Verdict):
		return "there is no such verdict"
	case w.Verdict == report.VerdictCause && w.Finding == "":
		return "the cause has no name"
	case w.Finding != "" && cause.Lookup(w.Finding) == nil:
		return "there is no such cause"
	case w.Finding != "" && !slices.Contains([]string{cause.TailContrast, cause.LevelContrast, cause.BeforeContrast}, w.Contrast):
		return "there is no such contrast"
	case len(w.Consistent) > 0 && !slices.Contains(w.Consistent, w.Finding):
		return "the causes that look alike do not hold the true one"
	}
	return ""
}

func TestGoldenIncidentsGetTheirDiagnosis(t *testing.T) {
	gs := some(t)
	if len(gs) == 0 {
		t.Fatal("there are no golden incidents")
	}
	for _, g := range gs {
		t.Run(filepath.ToSlash(strings.TrimPrefix(g.path, "../cause/")), func(t *testing.T) {
			t.Parallel()
			if why := g.truth(); why != "" {
				t.Fatalf("%+v: %s", g.want, why)
			}
			d := diagnosed(t, g.path)
			compare(t, d, g.want)
			if d.Check.WorstNS != 0 || d.Check.Requests == 0 {
				t.Errorf("closure: %+v", d.Check)
			}
			if sum := shares(d); d.Requests.Count+d.Requests.InFlight >= cause.MinRequests && math.Abs(sum-1) > 1e-6 {
				t.Errorf("shares add up to %v", sum)
			}
			if again := diagnoseFile(t, g.path); document(t, d) != document(t, again) {
				t.Errorf("two runs differ:\n%s\n%s", document(t, d), document(t, again))
			}
		})
	}
}

// diagnoses are those of golden incidents, made once for all tests that only read them.
var diagnoses sync.Map // by path: func() (*report.Diagnosis, error)

// diagnosed returns the diagnosis of a golden incident, which other tests read, too.
func diagnosed(t *testing.T, path string) *report.Diagnosis {
	t.Helper()
	once, _ := diagnoses.LoadOrStore(path, sync.OnceValues(func() (*report.Diagnosis, error) { return analyseFile(path) }))
	d, err := once.(func() (*report.Diagnosis, error))()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func diagnoseFile(t *testing.T, path string) *report.Diagnosis {
	t.Helper()
	d, err := analyseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func analyseFile(path string) (*report.Diagnosis, error) {
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return Analyse(in, AnalyseOptions{Check: true})
}

// compare checks a diagnosis against what it must be.
func compare(t *testing.T, d *report.Diagnosis, w want) {
	t.Helper()
	if d.Verdict != w.Verdict {
		t.Errorf("verdict %s (%s), want %s: %s", d.Verdict, d.Reason, w.Verdict, d.Sentence)
	}
	finding, contrast := "", ""
	var where *cause.Place
	var set []string
	switch {
	case len(d.Findings) > 0:
		finding, contrast, where = d.Findings[0].Cause, d.Findings[0].Contrast, d.Findings[0].Where
	case len(d.ConsistentWith) > 0:
		c := d.ConsistentWith[0]
		set, contrast, where = slices.Clone(c.Causes), c.Contrast, c.Where
	}
	alike := slices.Clone(w.Consistent)
	slices.Sort(set)
	slices.Sort(alike)
	switch {
	case w.Finding == "" && finding == "" && set == nil:
		return
	case len(set) > 0 && slices.Equal(set, alike):
	case finding != w.Finding || w.Finding == "":
		t.Errorf("found %q or one of %q, want %q or one of %q: %s", finding, set, w.Finding, alike, d.Sentence)
		return
	}
	if contrast != w.Contrast {
		t.Errorf("contrast %s, want %s", contrast, w.Contrast)
	}
	if function := placeName(where); !strings.HasSuffix(function, w.Where) {
		t.Errorf("in %s, want %s", function, w.Where)
	}
}

func placeName(p *cause.Place) string {
	if p == nil {
		return ""
	}
	return p.Function
}

// shares adds up what the excess of the tail was split into.
func shares(d *report.Diagnosis) float64 {
	sum := d.Mix.Share + d.UnresolvedShare
	for _, f := range d.Findings {
		if f.Contrast == cause.TailContrast {
			sum += f.Share
		}
	}
	for _, c := range d.ConsistentWith {
		if c.Contrast == cause.TailContrast {
			sum += c.Share
		}
	}
	for _, u := range d.Unnamed {
		sum += u.Share
	}
	return sum
}

// document is a diagnosis as JSON but for what the diagnosis itself cost.
func document(t *testing.T, d *report.Diagnosis) string {
	t.Helper()
	c := *d
	c.Cost = report.Cost{}
	var b bytes.Buffer
	if err := report.JSON(&b, &c); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGoldenIncidentsAreSmall(t *testing.T) {
	var total int64
	for _, g := range goldens(t) {
		st, err := os.Stat(g.path)
		if err != nil {
			t.Fatal(err)
		}
		if st.Size() > maxGolden {
			t.Errorf("%s has %d bytes, at most %d: record it for a shorter time", g.path, st.Size(), maxGolden)
		}
		total += st.Size()
	}
	if total > maxGoldens {
		t.Errorf("%d bytes in all, at most %d", total, maxGoldens)
	}
}

// Every registered cause is shown by an incident in its own directory, named or
// at least not excluded.
func TestEveryCauseHasAGoldenIncident(t *testing.T) {
	shown := map[string]bool{}
	for _, g := range goldens(t) {
		if g.id != "" && g.want.Finding == g.id {
			shown[g.id] = true
		}
	}
	for _, e := range cause.Entries() {
		if !shown[e.ID] {
			t.Errorf("cause/%s/testdata holds no incident with that finding", e.ID)
		}
	}
}

// A directory below cause that is no cause's would never be tested.
func TestGoldenIncidentsLieWithACauseOrTheControls(t *testing.T) {
	for _, g := range goldens(t) {
		switch {
		case g.id == "" && g.want.Verdict == report.VerdictCause:
			t.Errorf("%s is no control: it belongs to %s", g.path, g.want.Finding)
		case g.id != "" && cause.Lookup(g.id) == nil:
			t.Errorf("%s: there is no cause %s", g.path, g.id)
		}
	}
	if _, err := os.Stat("testdata"); errors.Is(err, fs.ErrNotExist) {
		t.Error("there are no controls")
	}
}

// What only the host decides is not named without it, and nothing else is named
// instead: the truth is among what looks alike, or nothing is said.
func TestWithoutTheHostNothingWrongIsNamed(t *testing.T) {
	tested := 0
	for _, g := range some(t) {
		in, err := evidence.Open(g.path, evidence.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !in.Has(evidence.MemberHost) {
			in.Close()
			continue
		}
		tested++
		t.Run(filepath.Base(g.path), func(t *testing.T) {
			t.Parallel()
			defer in.Close()
			d, err := Analyse(in, AnalyseOptions{NoHost: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range d.Findings {
				if f.Cause != g.want.Finding && !slices.Contains(weaker[g.want.Finding], f.Cause) && !slices.Contains(g.want.Also, f.Cause) {
					t.Errorf("%s is named: %s", f.Cause, d.Sentence)
				}
			}
			if len(d.Findings) == 0 && len(d.ConsistentWith) > 0 && !slices.Contains(d.ConsistentWith[0].Causes, g.want.Finding) {
				t.Errorf("consistent with %v only", d.ConsistentWith[0].Causes)
			}
		})
	}
	if tested < 8 && !need.Raced {
		t.Errorf("only %d golden incidents have the host's evidence", tested)
	}
}

// weaker are names that are right as far as a trace alone can tell.
var weaker = map[string][]string{"gomaxprocs-too-low": {"overload"}, "slow-clock": {"expensive-request"}}
