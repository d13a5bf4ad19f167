package report

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/report/detail"
)

func pageText(t testing.TB, d *Diagnosis) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// element is the text of the only element that begins like this.
func element(t testing.TB, page, begin, end string) string {
	t.Helper()
	if n := strings.Count(page, begin); n != 1 {
		t.Fatalf("%d times %q", n, begin)
	}
	_, rest, _ := strings.Cut(page, begin)
	text, _, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%q has no end", begin)
	}
	return text
}

const markup = "</script><script>alert(1)</script><!--\u2028\u202e\x00\x1b[31m\"'&amp;{{.Style}}<img src=http://127.0.0.1/x onerror=alert(2)>"

// spoiled is a diagnosis in which all that can come from a target is hostile.
func spoiled() *Diagnosis {
	d := causeVerdict()
	d.Sentence, d.Target.URL, d.Target.Go, d.Requests.FoundBy = markup, markup, markup, markup
	d.Notes = []string{markup}
	for i := range d.Findings {
		d.Findings[i].Summary, d.Findings[i].Where.Function, d.Findings[i].Where.File = markup, markup, markup
		d.Findings[i].Evidence = []string{markup}
	}
	d.NotRecorded = []NotRecorded{{What: markup, Why: markup, Command: markup}}
	d.Lost = Lost{Bytes: 5, Detail: markup}
	d.RuledOut[0].Because = markup
	frames := []detail.Frame{{Function: markup, File: markup, Line: 3}}
	stack := []int{0}
	d.Requests.Count, d.Requests.MaxNS = 1, 100
	d.Detail = &detail.Recording{
		DurationNS: 1e9, Frames: frames, Leaves: []detail.Leaf{{Kind: "network", Text: markup, Cause: markup, Stack: stack, ExcessNS: 5}},
		Requests: []detail.Request{{ID: "r1", Endpoint: markup, StartNS: 5, DurationNS: 100, Band: detail.Tail, Weight: 1, Pieces: []detail.Piece{{Leaf: 0, NS: 100}}}},
		Paths: []detail.Path{{Request: 0, Steps: []detail.Step{{
			Goroutine: 1, Root: markup, FromNS: 5, ToNS: 105, State: "waiting: " + markup, Stack: stack, Where: markup, Call: markup, Pieces: []detail.Piece{{Leaf: 0, NS: 100}},
		}}}},
		STW: []detail.Span{{Name: markup, FromNS: 1, ToNS: 2}},
	}
	return d
}

// What comes from a target is text in the page, and never its markup or its program: a
// browser runs the one script that the page allows, by its hash, and asks nobody.
func TestNothingFromATargetIsMarkup(t *testing.T) {
	page := pageText(t, spoiled())
	for _, s := range []string{"alert(1)</script>", "<img", "\u202e", "\x00", "\x1b"} {
		if strings.Contains(page, s) {
			t.Errorf("the page holds %q", s)
		}
	}
	policy := strings.NewReplacer("&#43;", "+", "&#39;", "'").Replace(element(t, page, `<meta http-equiv="Content-Security-Policy" content="`, `">`))
	for _, hash := range []string{hashOf(element(t, page, "<script>", "</script>")), hashOf(element(t, page, "<style>", "</style>"))} {
		if !strings.Contains(policy, "'"+hash+"'") {
			t.Errorf("the policy %q does not allow %s", policy, hash)
		}
	}
	if rest := regexp.MustCompile(`'sha256-[^']*'`).ReplaceAllString(policy, "hash"); rest != "default-src 'none'; script-src hash; style-src hash; img-src data:" {
		t.Errorf("the policy is %s", rest)
	}
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("%d scripts", n)
	}
	var doc document
	if err := json.Unmarshal([]byte(element(t, page, `<script type="application/json" id="data">`, "</script>")), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Slowest[0].Endpoint != markup || doc.Frames[0].Function != markup || doc.Leaves[0].Text != markup {
		t.Error("the document does not hold what it was made of")
	}
	if text := element(t, page, "<noscript><pre>", "</pre>"); !strings.Contains(text, "verdict") || !strings.Contains(text, "alert(1)&lt;/script&gt;") {
		t.Errorf("without scripts: %.300s", text)
	}
}

// The page's own bytes are what its sources make, and small.
func TestThePageIsMadeOfItsSources(t *testing.T) {
	_, err := os.Stat("../ui/node_modules/uplot")
	if err == nil {
		_, err = exec.LookPath("node")
	}
	if err != nil {
		err = fmt.Errorf("npm ci in ui: %w", err)
	}
	need.Feature(t, "page", err)
	out := filepath.Join(t.TempDir(), "page.js")
	for _, args := range [][]string{{"go", "run", "./bundle", "report/main.tsx", out}, {"node", "node_modules/typescript/bin/tsc", "-p", "."}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = "../ui", append(os.Environ(), "GOWORK=off")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, text)
		}
	}
	for file, committed := range map[string]string{out: pageScript, strings.TrimSuffix(out, "js") + "css": pageStyle} {
		made, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(made) != committed {
			t.Errorf("%s is not what ui/report makes: go generate ./report", filepath.Base(file))
		}
	}
}

// A path keeps at most so many steps; their pieces, and the time of those of the request
// itself, are all there.
func TestShortenedPathsAddUp(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var steps []detail.Step
		var fill func(depth int, from, to int64)
		fill = func(depth int, from, to int64) {
			for from < to && len(steps) < 2000 {
				until := min(to, from+1+r.Int64N(1+(to-from)/(1+r.Int64N(40))))
				s := detail.Step{Depth: depth, Goroutine: int64(depth + 1), FromNS: from, ToNS: until, State: "running"}
				deeper := depth < 6 && r.IntN(3) == 0
				if !deeper {
					s.Pieces = []detail.Piece{{Leaf: r.IntN(9), NS: until - from}}
				}
				steps = append(steps, s)
				if deeper {
					fill(depth+1, from, until)
				}
				from = until
			}
		}
		took := 1 + r.Int64N(1e9)
		fill(0, 0, took)
		sum := func(list []detail.Piece) (ns int64) {
			for _, p := range list {
				ns += p.NS
			}
			return ns
		}
		var want, outer int64
		for _, s := range steps {
			want += sum(s.Pieces)
			if s.Depth == 0 {
				outer += s.ToNS - s.FromNS
			}
		}
		got := shortened(steps, took)
		depth := -1
		for _, s := range got {
			want -= sum(s.Pieces)
			if s.Depth == 0 {
				outer -= s.ToNS - s.FromNS
			}
			if s.Depth > depth+1 {
				t.Errorf("seed %d: a step of depth %d behind one of depth %d", seed, s.Depth, depth)
			}
			depth = s.Depth
		}
		if want != 0 || outer != 0 || len(got) > maxSteps || len(steps) > 0 && len(got) == 0 {
			t.Errorf("seed %d: %d of %d steps, %d ns in pieces and %d in those of the request are missing", seed, len(got), len(steps), want, outer)
		}
	}
}

// However much was recorded, a page stays below three megabytes: 20,000 requests, each of
// them different, and twenty paths of as many steps as there may be.
func TestAPageHasABound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rec := &detail.Recording{DurationNS: 10e9}
	name := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		return base64.StdEncoding.EncodeToString(b)
	}
	for range 4000 {
		rec.Frames = append(rec.Frames, detail.Frame{Function: "example.com/" + name(24), File: "/src/" + name(30) + ".go", Line: r.IntN(5000)})
	}
	stack := func() (list []int) {
		for range 40 {
			list = append(list, r.IntN(len(rec.Frames)))
		}
		return list
	}
	for range 4000 {
		rec.Leaves = append(rec.Leaves, detail.Leaf{Kind: "network", Text: name(60), Stack: stack(), ExcessNS: r.Float64() * 1e4, TypicalNS: 3})
	}
	for i := range 20000 {
		q := detail.Request{ID: fmt.Sprintf("r%d", i), Endpoint: name(20), StartNS: int64(i) * 5e5, DurationNS: 1e6 + r.Int64N(1e9), Weight: 1}
		if i%100 == 0 {
			q.Band = detail.Tail
		}
		rec.Requests = append(rec.Requests, q)
	}
	for i := range 40 {
		q := rec.Requests[i]
		p := detail.Path{Request: i}
		for k := range int64(2000) {
			p.Steps = append(p.Steps, detail.Step{
				Depth: int(k % 3), Goroutine: k, Root: name(30), FromNS: q.StartNS + k*q.DurationNS/2000, ToNS: q.StartNS + (k+1)*q.DurationNS/2000,
				State: "waiting: select", Stack: stack(), Where: name(40), Call: name(30), Pieces: []detail.Piece{{Leaf: r.IntN(4000), NS: q.DurationNS / 2000}},
			})
		}
		if i < 20 {
			rec.Paths = append(rec.Paths, p)
		} else {
			rec.Usual = append(rec.Usual, p)
		}
	}
	d := causeVerdict()
	d.Detail = rec
	page := pageText(t, d)
	t.Logf("%.2f MB", float64(len(page))/1e6)
	if len(page) > 3e6 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

// A diagnosis without requests, or without a trace, has a page, too.
func TestPagesOfLittle(t *testing.T) {
	for name, d := range map[string]*Diagnosis{"nothing": {}, "no requests": {Verdict: VerdictInconclusive, Reason: "no-requests", Detail: &detail.Recording{}}} {
		if page := pageText(t, d); !strings.Contains(page, `id="data"`) {
			t.Errorf("%s: %.200s", name, page)
		}
	}
	d := causeVerdict()
	if err := HTML(failing{}, d); err == nil {
		t.Error("an error of the writer is lost")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
