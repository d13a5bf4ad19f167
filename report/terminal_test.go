package report

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/whylate/whylate/cause"
	_ "github.com/whylate/whylate/cause/all" // the catalogue
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func render(t testing.TB, d *Diagnosis, o TerminalOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := Terminal(&b, d, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (write it with: go test ./report -update)", err)
	}
	// A checkout on Windows may have turned line ends around.
	if w := strings.ReplaceAll(string(want), "\r\n", "\n"); got != w {
		t.Errorf("%s differs (rewrite with: go test ./report -update)\n--- got\n%s--- want\n%s", file, got, w)
	}
}

func TestTheTerminalReportReadsLikeItsGoldenFile(t *testing.T) {
	for _, c := range []struct {
		name string
		d    *Diagnosis
		o    TerminalOptions
	}{
		{"cause", causeVerdict(), TerminalOptions{}},
		{"cause-80", causeVerdict(), TerminalOptions{Width: 80}},
		{"cause-color", causeVerdict(), TerminalOptions{Width: 100, Color: true}},
		{"healthy", healthy(), TerminalOptions{}},
		{"look-alikes", lookAlikes(), TerminalOptions{Width: 96}},
		{"level", levelFinding(), TerminalOptions{}},
		{"mix", mixed(), TerminalOptions{}},
		{"probed", probed(), TerminalOptions{Width: 80}},
		{"hostile", hostile(), TerminalOptions{Width: 96}},
		{"empty", &Diagnosis{Verdict: VerdictInconclusive, Reason: "no-requests"}, TerminalOptions{}},
	} {
		t.Run(c.name, func(t *testing.T) { golden(t, c.name, render(t, c.d, c.o)) })
	}
}

func TestTheFirstLineIsTheWholeSentence(t *testing.T) {
	d := lookAlikes()
	first, _, _ := strings.Cut(render(t, d, TerminalOptions{}), "\n")
	if first != d.Sentence {
		t.Errorf("got %q, want %q", first, d.Sentence)
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestColourChangesNothingButColour(t *testing.T) {
	for _, d := range []*Diagnosis{causeVerdict(), healthy(), lookAlikes(), levelFinding(), mixed(), hostile()} {
		colored, bare := render(t, d, TerminalOptions{Color: true}), render(t, d, TerminalOptions{})
		if sgr.ReplaceAllString(colored, "") != bare {
			t.Errorf("%.40q: layout depends on colour", d.Sentence)
		}
		if colored == bare {
			t.Errorf("%.40q: no colour was added", d.Sentence)
		}
	}
}

// safe checks what Terminal promises for any diagnosis.
func safe(t *testing.T, out string, width int) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Error("invalid UTF-8")
	}
	for n, l := range strings.Split(out, "\n") {
		for _, r := range l {
			if r != ' ' && !visible(r) && !unicode.In(r, unicode.Mn, unicode.Me) {
				t.Fatalf("line %d has the rune %U: %q", n+1, r, l)
			}
		}
		if strings.Contains(l, "$ ") || strings.Contains(l, "→ ") {
			width := columns(strings.Repeat(" ", fieldColumn)+"$ ") + maxCommand
			if columns(l) > width {
				t.Errorf("line %d: command of %d columns", n+1, columns(l))
			}
			continue
		}
		if columns(l) > width {
			t.Errorf("line %d has %d columns, more than %d: %q", n+1, columns(l), width, l)
		}
	}
}

func TestNothingHostileReachesTheTerminal(t *testing.T) {
	for _, width := range []int{1, 72, 80, 100, 1000} {
		out := render(t, hostile(), TerminalOptions{Width: width})
		safe(t, out, min(max(width, minWidth), maxWidth))
		for _, shown := range []string{`\x1b[31mred\u202egnp.exe`, `\u009b2J`, `\x9b2J`, `zero\u200dwidth`, `\xff\xfe`} {
			if !strings.Contains(strings.ReplaceAll(out, "\n", ""), shown) && width > 72 {
				t.Errorf("width %d: the attempt %s is not shown", width, shown)
			}
		}
		if n := strings.Count(out, "\n"); n > 200 {
			t.Errorf("width %d: %d lines", width, n)
		}
	}
}

// fill puts s and n into every field of the value and m elements into every list.
func fill(v reflect.Value, s string, n int64, f float64, m int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), s, n, f, m)
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() { // what is not exported is not written
				fill(v.Field(i), s, n, f, m)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), m, m))
		for i := range m {
			fill(v.Index(i), s, n, f, m)
		}
	case reflect.String:
		v.SetString(s)
	case reflect.Int, reflect.Int64:
		v.SetInt(n)
	case reflect.Bool:
		v.SetBool(n > 0)
	case reflect.Float64:
		v.SetFloat(f)
	default:
		panic("fill: a field of kind " + v.Kind().String())
	}
}

func FuzzEveryFieldIsSafe(f *testing.F) {
	f.Add(attack, int64(1), 0.3, uint8(3))
	f.Add("", int64(math.MinInt64), math.NaN(), uint8(1))
	f.Add("日本語日本語", int64(math.MaxInt64), math.Inf(1), uint8(2))
	f.Add(strings.Repeat("a\u0301\u0302\u0303", 300), int64(-1), -1e308, uint8(13))
	f.Add("tail", int64(999_999_999), 1.0/3, uint8(0))
	f.Add("gc-pause", int64(58), -1.25e307, uint8(21))
	f.Add("level", int64(999_500), 0.5, uint8(1))
	f.Fuzz(func(t *testing.T, s string, n int64, share float64, m uint8) {
		d := &Diagnosis{}
		fill(reflect.ValueOf(d).Elem(), s, n, share, int(m)%40)
		safe(t, render(t, d, TerminalOptions{Width: minWidth + int(m)%29}), minWidth+int(m)%29)
		var b bytes.Buffer
		if err := JSON(&b, d); err != nil {
			if math.IsNaN(share) || math.IsInf(share, 0) {
				return
			}
			t.Fatal(err)
		}
		for _, r := range b.String() {
			if r != '\n' && !visible(r) && !unicode.In(r, unicode.Mn, unicode.Me) {
				t.Fatalf("the JSON document has the rune %U", r)
			}
		}
	})
}

func TestQuoteCutsAtTheLimitAndShowsWhatIsInvisible(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"main.handle", 20, "main.handle"},
		{"main.handle", 11, "main.handle"},
		{"main.handle", 10, "main.hand…"},
		{"  two \n\t words ", 20, "two words"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"a\x00b", 20, `a\x00b`},
		{"a\x1b[0mb", 20, `a\x1b[0mb`},
		{"a\u202eb\U000e0041", 40, `a\u202eb\U000e0041`},
		{"\xc3(", 20, `\xc3(`},
		{"\u0301x", 20, `\u0301x`},
		{"e\u0301", 1, "e\u0301"},
		{"\u05d0", 20, `\u05d0`},
		{"\u3164", 20, `\u3164`},
		{"", 5, ""},
	} {
		if got := quote(c.in, c.limit); got != c.want {
			t.Errorf("quote(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"/a/b/cache.go", 20, "/a/b/cache.go"},
		{"/a/b/cache.go", 13, "/a/b/cache.go"},
		{"/a/b/cache.go", 9, "…cache.go"},
		{"日本語.go", 6, "…語.go"},
		{strings.Repeat("x", 10000) + "/y.go", 6, "…/y.go"},
	} {
		if got := quoteEnd(c.in, c.limit); got != c.want {
			t.Errorf("quoteEnd(%.20q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func TestQuantitiesAreWrittenAsPeopleSayThem(t *testing.T) {
	for want, ns := range map[string]int64{
		"0 ms": 0, "850 ns": 850, "-850 ns": -850, "1.00 µs": 1000, "310 µs": 310_000, "1.00 ms": 999_950, "41.2 ms": 41_200_000,
		"-38.4 ms": -38_400_000, "9.99 ms": 9_990_000, "10.0 ms": 9_999_999, "999 ms": 999_400_000, "1.00 s": 999_900_000, "1.93 s": 1_930_000_000, "3600 s": 3_600_000_000_000,
	} {
		if got := duration(ns); got != want {
			t.Errorf("duration(%d) = %q, want %q", ns, got, want)
		}
	}
	for want, n := range map[string]int64{"0": 0, "999": 999, "1,000": 1000, "12,034": 12034, "-1,234,567": -1234567} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	for want, v := range map[string]float64{"0": 0, "0.005": 0.005, "<0.001": 0.0001, "1.1": 1.1, "12,034": 12034, "unknown": math.NaN()} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

// Where slow requests take hardly longer than typical ones, parts that make up for
// each other may be many times the excess.
func TestSharesThatAreCutNeedNotAddUp(t *testing.T) {
	d := base()
	d.Unnamed = []cause.Unnamed{{Share: 30, Leaf: "here"}, {Share: -29.5, Leaf: "there"}, {Share: 0.5, Leaf: "rest"}}
	d.Findings, d.ConsistentWith, d.UnresolvedShare = nil, nil, 0
	for _, a := range accounts(d) {
		if a.contrast == tail && !a.cut() {
			t.Errorf("not cut: %+v", a.rows)
		}
	}
	d.Unnamed[0].Share, d.Unnamed[1].Share = 2, -1.7
	for _, a := range accounts(d) {
		if a.cut() {
			t.Errorf("cut: %+v", a.rows)
		}
	}
}

func TestEverythingAddsUpAsPrinted(t *testing.T) {
	whole := func(d *Diagnosis, contrast string) {
		t.Helper()
		for _, a := range accounts(d) {
			if a.contrast != contrast {
				continue
			}
			n := 0
			for _, r := range a.rows {
				n += r.tenths
				if math.Abs(float64(r.tenths)-r.share*1000) >= 2 {
					t.Errorf("%s: %v printed as %d tenths", r.label, r.share, r.tenths)
				}
			}
			if n != 1000 || a.total != 1000 {
				t.Errorf("%.30s: %s rows print %d tenths, total %d", d.Sentence, contrast, n, a.total)
			}
			return
		}
		t.Errorf("%.30s: no account of the %s", d.Sentence, contrast)
	}
	for _, d := range []*Diagnosis{causeVerdict(), healthy(), lookAlikes(), levelFinding(), mixed()} {
		whole(d, tail)
	}
	whole(levelFinding(), level)

	t.Run("many findings still add up", func(t *testing.T) {
		d := base()
		for range 50 {
			d.Findings = append(d.Findings, cause.Finding{Cause: "cpu-hog", Share: 0.02})
		}
		whole(d, tail)
		if rows := accounts(d)[0].rows; len(rows) != maxFindings+2 {
			t.Errorf("%d rows", len(rows))
		}
	})
	t.Run("a diagnosis that does not add up says so", func(t *testing.T) {
		d := causeVerdict()
		d.UnresolvedShare += 0.1
		if out := render(t, d, TerminalOptions{}); !strings.Contains(out, "110.0 %\n") || !strings.Contains(out, "should add up to 100 %") {
			t.Error("110 % was printed without comment")
		}
	})
}

func TestTheEliminationTableRunsFromNetworkToCode(t *testing.T) {
	var ids, want []string
	for _, e := range elimination {
		want = append(want, e.causes...)
	}
	want = append(want, "not-in-the-table")
	var ruledOut []cause.RuledOut
	for i := len(want) - 1; i >= 0; i-- {
		ruledOut = append(ruledOut, cause.RuledOut{Cause: want[i]})
	}
	for _, r := range eliminated(ruledOut) {
		ids = append(ids, r.Cause)
	}
	if !reflect.DeepEqual(ids, want) {
		t.Errorf("got  %v\nwant %v", ids, want)
	}
	var groups []string
	for _, e := range elimination {
		groups = append(groups, e.group)
	}
	if got := strings.Join(groups, ", "); got != "network, load, client library, GC, scheduler, host, code" {
		t.Errorf("groups: %s", got)
	}
	if len(suspects) != len(want)-1 {
		t.Error("a cause stands in two groups")
	}
}

// The catalogue is one directory per cause, so a new one without a group is seen
// here and not only as "other" in somebody's report.
func TestEveryCauseOfTheCatalogueHasAGroup(t *testing.T) {
	dirs, err := os.ReadDir("../cause")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range dirs {
		switch e.Name() {
		case "all", "internal", "testdata":
			continue
		}
		if e.IsDir() && suspectOf(e.Name()).group == unsuspected {
			t.Errorf("cause %s has no group: add it to the table in elimination.go", e.Name())
		}
	}
}

type broken struct{}

var errBroken = errors.New("broken pipe")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteErrorsAreReturned(t *testing.T) {
	if err := Terminal(broken{}, healthy(), TerminalOptions{}); !errors.Is(err, errBroken) {
		t.Errorf("Terminal: %v", err)
	}
	if err := JSON(broken{}, healthy()); !errors.Is(err, errBroken) {
		t.Errorf("JSON: %v", err)
	}
}

func TestWhatAskingADependencyCostIsPrinted(t *testing.T) {
	d := &Diagnosis{Cost: Cost{Asked: []Asked{{"redis 10.0.0.7:6379", 15, 2_440_000}, {"redis \x1b[31m\u202e", 1, 1}}}}
	var b strings.Builder
	if err := Terminal(&b, d, TerminalOptions{Width: 100}); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	if want := `redis 10.0.0.7:6379 asked 15 questions, which took it 2.44 ms at most · redis \x1b[31m\u202e asked 1 question,`; !strings.Contains(text, want) {
		t.Errorf("%s\nwant %s", text, want)
	}
}

// Advice fits what the sentence says: of most of an excess at one place, to look there.
func TestWhatFitsNoCauseSendsToItsPlace(t *testing.T) {
	const there, anywhere = "what main.withFileLock does fits no cause of the catalogue; look at its code", "the causes that hold explain too little of the excess"
	at := func(line int) *cause.Place {
		return &cause.Place{Function: "example.com/flags/main.withFileLock", File: "main.go", Line: line}
	}
	for _, c := range []struct {
		name     string
		unnamed  []cause.Unnamed
		sentence string
		says     string
	}{
		{"two leaves at one place", []cause.Unnamed{{Share: 0.4, Leaf: "a", Where: at(22)}, {Share: 0.2, Leaf: "b", Where: at(22)}}, "", there},
		{"two places", []cause.Unnamed{{Share: 0.4, Leaf: "a", Where: at(22)}, {Share: 0.4, Leaf: "b", Where: at(30)}}, "", anywhere},
		{"no place", []cause.Unnamed{{Share: 0.9, Leaf: "a"}}, "", anywhere},
		{"what a cause claims", []cause.Unnamed{{Share: 0.9, Leaf: cause.Lookup("slow-disk").Title, Where: at(22)}}, "", anywhere},
		{"the process was made to stop", []cause.Unnamed{{Share: 0.9, Leaf: "a"}}, "90 % passed while " + cause.Suspended + ".", "look for who stops it"},
	} {
		d := base()
		d.Sentence = c.sentence
		d.Verdict, d.Reason, d.Unnamed = VerdictInconclusive, "unexplained", c.unnamed
		if got := strings.Join(strings.Fields(render(t, d, TerminalOptions{})), " "); !strings.Contains(got, c.says) {
			t.Errorf("%s: no %q in\n%s", c.name, c.says, got)
		}
	}
}
