package score

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/cause"
	_ "github.com/whylate/whylate/cause/all" // the catalogue
	"github.com/whylate/whylate/report"
)

// maxTruth bounds a truth file in bytes.
const maxTruth = 64 << 10

// ReadTruth reads a truth file.
func ReadTruth(path string) (*Truth, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(f, maxTruth))
	d.DisallowUnknownFields()
	t := new(Truth)
	if err := d.Decode(t); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, t.Check(path)
}

// Write writes a truth file.
func (t *Truth) Write(path string) error {
	if err := t.Check(path); err != nil {
		return err
	}
	b, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// Check reports what is wrong with a truth; path is its name in errors.
func (t *Truth) Check(path string) error {
	var errs []error
	if t.Schema != Schema {
		errs = append(errs, fmt.Errorf("%s: the schema is %q, not %q", path, t.Schema, Schema))
	}
	if t.Host == "" || t.Case == "" {
		errs = append(errs, fmt.Errorf("%s: host and case must be named", path))
	}
	ids := slices.Clone(t.Beside)
	sum := 0.0
	for _, p := range t.Causes {
		ids = append(append(ids, p.Cause), p.Accept...)
		sum += p.Share
		if p.Share < 0 {
			errs = append(errs, fmt.Errorf("%s: %s has a negative share", path, p.Cause))
		}
	}
	if sum > 1.5 { // removals are measured, and overlap
		errs = append(errs, fmt.Errorf("%s: the shares add up to %.2f", path, sum))
	}
	for _, id := range ids {
		if cause.Lookup(id) == nil {
			errs = append(errs, fmt.Errorf("%s: the catalogue has no cause %q", path, id))
		}
	}
	return errors.Join(errs...)
}

// Incident is the score of one incident.
type Incident struct {
	Name    string   `json:"name"`
	Truth   *Truth   `json:"truth"`
	Verdict string   `json:"verdict"`
	Found   []string `json:"found"`
	Result  Result   `json:"result"`
	// Seconds is what the analysis took.
	Seconds float64 `json:"seconds"`
	// Baselines are the causes that the trivial diagnoses name, and whether they are
	// at the planted place.
	Baselines []Baseline `json:"baselines,omitempty"`

	diagnosis *report.Diagnosis
}

// Baseline is what a trivial diagnosis named.
type Baseline struct {
	Name  string `json:"name"`
	Cause string `json:"cause"`
	Place string `json:"place,omitempty"`
}

// New scores one incident.
func New(name string, t *Truth, d *report.Diagnosis, seconds float64, baselines []Baseline) *Incident {
	return &Incident{
		Name: name, Truth: t, Verdict: d.Verdict, Found: Ranked(d), Result: Of(t, d),
		Seconds: seconds, Baselines: baselines, diagnosis: d,
	}
}

// Ratio counts how many of some incidents.
type Ratio struct {
	N  int `json:"n"`
	Of int `json:"of"`
}

func (r *Ratio) add(yes bool) {
	r.Of++
	if yes {
		r.N++
	}
}

// String is the ratio and its counts.
func (r Ratio) String() string {
	if r.Of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%d of %d)", float64(r.N)/float64(r.Of), r.N, r.Of)
}

// Total is the score of many incidents.
type Total struct {
	// Of the incidents with a planted cause:
	Right  Ratio `json:"right"`
	Honest Ratio `json:"honest"`
	Wrong  Ratio `json:"wrong"`
	Silent Ratio `json:"silent"`
	// AC1 and AC3: the cause is the first, or among the first three, by category; Place:
	// the first is at the planted place.
	AC1   Ratio `json:"ac1"`
	AC3   Ratio `json:"ac3"`
	Place Ratio `json:"ac1_place"`
	// Alarms: of the controls, those with a name that is not real there; Healthy: those
	// that are called so. Without are the same of incidents' programs without what was
	// planted there.
	Alarms         Ratio `json:"alarms"`
	Healthy        Ratio `json:"healthy"`
	WithoutAlarms  Ratio `json:"without_alarms"`
	WithoutHealthy Ratio `json:"without_healthy"`
	// Covered: of the planted shares, those inside the found interval.
	Covered Ratio `json:"covered"`
	// Distance is the mean total variation over Composites incidents with several causes.
	Distance   float64 `json:"distance"`
	Composites int     `json:"composites"`
	// Baselines by name: AC@1 by category and by place.
	Baselines []BaselineTotal `json:"baselines"`
	// Median and longest analysis, in seconds.
	Median  float64 `json:"median_seconds"`
	Longest float64 `json:"longest_seconds"`
}

// BaselineTotal is the score of a trivial diagnosis.
type BaselineTotal struct {
	Name  string `json:"name"`
	AC1   Ratio  `json:"ac1"`
	Place Ratio  `json:"ac1_place"`
}

// Sum adds incidents up.
func Sum(all []*Incident) *Total {
	t := &Total{}
	var seconds []float64
	for _, i := range all {
		seconds = append(seconds, i.Seconds)
		if i.Truth.Control() {
			alarms, healthy := &t.Alarms, &t.Healthy
			if i.Truth.Without() {
				alarms, healthy = &t.WithoutAlarms, &t.WithoutHealthy
			}
			alarms.add(i.Result == Wrong)
			healthy.add(i.Result == Right)
			continue
		}
		t.Right.add(i.Result == Right)
		t.Honest.add(i.Result == Honest)
		t.Wrong.add(i.Result == Wrong)
		t.Silent.add(i.Result == Silent)
		t.AC1.add(At(i.Truth, i.Found, 1))
		t.AC3.add(At(i.Truth, i.Found, 3))
		if right, known := AtPlace(i.Truth, i.diagnosis); known {
			t.Place.add(right)
		}
		in, of := Covered(i.Truth, i.diagnosis)
		t.Covered.N, t.Covered.Of = t.Covered.N+in, t.Covered.Of+of
		if tv, known := Distance(i.Truth, i.diagnosis); known && len(i.Truth.Causes) > 1 {
			t.Distance += tv
			t.Composites++
		}
		for k, b := range i.Baselines {
			if k == len(t.Baselines) {
				t.Baselines = append(t.Baselines, BaselineTotal{Name: b.Name})
			}
			t.Baselines[k].AC1.add(i.Truth.isLargest(b.Cause))
			if p := i.Truth.Causes[0].Place; p != "" {
				t.Baselines[k].Place.add(SamePlace(b.Place, p))
			}
		}
	}
	if t.Composites > 0 {
		t.Distance /= float64(t.Composites)
	}
	if sort.Float64s(seconds); len(seconds) > 0 {
		t.Median, t.Longest = seconds[len(seconds)/2], seconds[len(seconds)-1]
	}
	return t
}

// Confusion counts, for each planted cause, what was answered: the first finding, or
// the first set of look-alikes in braces, or the verdict.
func Confusion(all []*Incident) map[string]map[string]int {
	m := map[string]map[string]int{}
	for _, i := range all {
		truth := "healthy"
		if !i.Truth.Control() {
			truth = i.Truth.Causes[0].Cause
		}
		if m[truth] == nil {
			m[truth] = map[string]int{}
		}
		m[truth][answer(i.diagnosis)]++
	}
	return m
}

func answer(d *report.Diagnosis) string {
	switch {
	case len(d.Findings) > 0:
		return d.Findings[0].Cause
	case len(d.ConsistentWith) > 0:
		return "{" + strings.Join(d.ConsistentWith[0].Causes, ", ") + "}"
	}
	return d.Verdict
}

// ratios are the rows of totals.
var ratios = []struct {
	name  string
	value func(*Total) Ratio
}{
	{"right", func(t *Total) Ratio { return t.Right }},
	{"honest", func(t *Total) Ratio { return t.Honest }},
	{"wrong", func(t *Total) Ratio { return t.Wrong }},
	{"silent", func(t *Total) Ratio { return t.Silent }},
	{"AC@1 by category", func(t *Total) Ratio { return t.AC1 }},
	{"AC@3 by category", func(t *Total) Ratio { return t.AC3 }},
	{"AC@1 by place", func(t *Total) Ratio { return t.Place }},
	{"false alarms on controls", func(t *Total) Ratio { return t.Alarms }},
	{"controls called healthy", func(t *Total) Ratio { return t.Healthy }},
	{"false alarms on incidents' programs without what is planted", func(t *Total) Ratio { return t.WithoutAlarms }},
	{"incidents' programs without what is planted, called healthy", func(t *Total) Ratio { return t.WithoutHealthy }},
	{"planted shares inside the interval", func(t *Total) Ratio { return t.Covered }},
}

// Markdown writes the totals of the programs that rules were developed with and of
// those that were held out, then the incidents, then the confusion table.
func Markdown(w io.Writer, all []*Incident) error {
	var b strings.Builder
	row := func(cells ...any) {
		for _, c := range cells {
			fmt.Fprintf(&b, "| %v ", c)
		}
		b.WriteString("|\n")
	}
	var parts []*Total
	head, rule := []any{""}, []any{"---"}
	for _, part := range []struct {
		name    string
		heldOut bool
	}{{"development", false}, {"held out", true}} {
		if some := keep(all, part.heldOut); len(some) > 0 {
			parts = append(parts, Sum(some))
			head, rule = append(head, part.name), append(rule, "---")
		}
	}
	row(head...)
	row(rule...)
	line := func(name string, value func(*Total) string) {
		cells := []any{name}
		for _, t := range parts {
			cells = append(cells, value(t))
		}
		row(cells...)
	}
	for _, r := range ratios {
		line(r.name, func(t *Total) string { return r.value(t).String() })
	}
	line("total variation on composites", func(t *Total) string {
		if t.Composites == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f (mean of %d)", t.Distance, t.Composites)
	})
	for k := range parts[0].Baselines {
		at := func(value func(BaselineTotal) Ratio) func(*Total) string {
			return func(t *Total) string {
				if k >= len(t.Baselines) { // only controls
					return "-"
				}
				return value(t.Baselines[k]).String()
			}
		}
		name := "baseline, " + parts[0].Baselines[k].Name + ": AC@1"
		line(name+" by category", at(func(b BaselineTotal) Ratio { return b.AC1 }))
		line(name+" by place", at(func(b BaselineTotal) Ratio { return b.Place }))
	}
	line("seconds to analyse, median and longest", func(t *Total) string { return fmt.Sprintf("%.2f, %.2f", t.Median, t.Longest) })
	b.WriteString("\n")
	row("incident", "times", "planted", "removal", "answers")
	row("---", "---", "---", "---", "---")
	for _, g := range byCase(all) {
		row(g.cells()...)
	}
	b.WriteString("\n")
	row("planted", "answered", "times")
	row("---", "---", "---")
	confusion := Confusion(all)
	for _, truth := range sorted(confusion) {
		for _, a := range sorted(confusion[truth]) {
			row(truth, a, confusion[truth][a])
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func keep(all []*Incident, heldOut bool) (some []*Incident) {
	for _, i := range all {
		if i.Truth.HeldOut == heldOut {
			some = append(some, i)
		}
	}
	return some
}

// byCase are the runs of each case, in order of their names.
func byCase(all []*Incident) (groups []group) {
	for _, i := range all {
		k := slices.IndexFunc(groups, func(g group) bool { return g[0].Truth.Case == i.Truth.Case })
		if k < 0 {
			k, groups = len(groups), append(groups, nil)
		}
		groups[k] = append(groups[k], i)
	}
	slices.SortStableFunc(groups, func(x, y group) int { return strings.Compare(x[0].Truth.Case, y[0].Truth.Case) })
	return groups
}

// A group are runs of one case.
type group []*Incident

// cells are the group's row in the table of incidents.
func (g group) cells() []any {
	t := g[0].Truth
	var planted []string
	for _, p := range t.Causes {
		s := p.Cause
		if p.Share > 0 {
			s += fmt.Sprintf(" %.0f%%", 100*p.Share)
		}
		planted = append(planted, s)
	}
	removal := "-"
	if s := t.Severity(); s > 0 {
		removal = fmt.Sprintf("%.1fx", s)
	}
	var answers []string
	times := map[string]int{}
	for _, i := range g {
		a := fmt.Sprintf("%s: %s", i.Result, answer(i.diagnosis))
		if times[a]++; times[a] == 1 {
			answers = append(answers, a)
		}
	}
	for k, a := range answers {
		if times[a] > 1 {
			answers[k] += fmt.Sprintf(" (%d)", times[a])
		}
	}
	name := t.Case
	if t.HeldOut {
		name += " (held out)"
	}
	return []any{name, len(g), strings.Join(planted, " + "), removal, strings.Join(answers, "; ")}
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
