package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/whylate/whylate/report/detail"
)

// The page's program and its style, made of ui/report by go generate.
//
//go:generate env GOWORK=off go -C ../ui run ./bundle report/main.tsx ../report/page/page.js
var (
	//go:embed page/page.js
	pageScript string
	//go:embed page/page.css
	pageStyle string
	//go:embed page/page.html
	pageHTML string
)

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// PageDetail is what a page wants to know of requests.
var PageDetail = detail.Options{Paths: 20, Usual: true}

// HTML writes d and what is known of each request, d.Detail, as one page that needs nothing
// else: no server, no network, and for the text no script. Nothing that comes from a target
// can become a part of the page's markup or program. d is not changed; the error is that of
// a share which is no number, or w's.
func HTML(w io.Writer, d *Diagnosis) error {
	var doc, text bytes.Buffer
	if err := JSON(&doc, d); err != nil {
		return err
	}
	if err := Terminal(&text, d, TerminalOptions{}); err != nil {
		return err
	}
	data := pageOf(d)
	data.Diagnosis = doc.Bytes()
	b, err := json.Marshal(data) // with <, > and & as \u escapes: it cannot end its element
	if err != nil {
		return fmt.Errorf("writing the diagnosis as HTML: %w", err)
	}
	sentence := quote(d.Sentence, maxSentence)
	return pageTemplate.Execute(w, struct {
		Verdict, Sentence, Text string
		ScriptHash, StyleHash   string
		Style                   template.CSS
		Script                  template.JS
		Data                    template.JS
	}{
		quote(d.Verdict, maxName), sentence, text.String(), hashOf(pageScript), hashOf(pageStyle),
		template.CSS(pageStyle), template.JS(pageScript), template.JS(EscapeInvisible(b)),
	})
}

// hashOf is how a content security policy names a script or a style (CSP level 2, 4.2.5).
func hashOf(s string) string {
	h := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(h[:])
}

// Bounds of what a page holds, so that it stays below three megabytes.
const (
	maxPoints  = 5000 // requests drawn one by one
	maxSteps   = 200  // of one path
	maxPieces  = 24   // of a step, the largest; the others are one
	maxFrames  = 40   // of one stack, the innermost
	maxLeaves  = 2000 // of the flame graph
	maxText    = 400  // bytes of a name
	perDecade  = 20   // columns of the histogram
	maxColumns = 300
	maxSpans   = 4000 // of one kind
)

// A document is what the page's program gets; ui/report/data.ts has the same.
type document struct {
	Diagnosis json.RawMessage   `json:"diagnosis"`
	Accounts  []docAccount      `json:"accounts"`
	Groups    map[string]string `json:"groups"` // of the elimination table, by cause
	Whole     bool              `json:"whole"`
	StartNS   int64             `json:"start_ns"`
	Points    *docPoints        `json:"points"`
	Histogram *docHistogram     `json:"histogram"`
	Endpoints []string          `json:"endpoints"`
	Leaves    []docLeaf         `json:"leaves"`
	Frames    []docFrame        `json:"frames"`
	Stacks    [][]int           `json:"stacks"` // of Frames, the outermost first
	Slowest   []docPath         `json:"slowest"`
	Usual     []docPath         `json:"usual"`
	Spans     []docSpans        `json:"spans"`
	Series    []docSeries       `json:"series"`
	Edges     []int64           `json:"edges"` // of Series, ns since the beginning
}

type docAccount struct {
	Contrast string   `json:"contrast"`
	ExcessNS int64    `json:"excess_ns"`
	Rows     []docRow `json:"rows"`
}

type docRow struct {
	Kind     string `json:"kind"` // named, consistent or rest
	Mark     string `json:"mark"`
	Label    string `json:"label"`
	Tenths   int    `json:"tenths"`
	ExcessNS int64  `json:"excess_ns"`
	Interval string `json:"interval"`
}

// docPoints are requests, a column each.
type docPoints struct {
	Of       int     `json:"of"` // how many requests they are a sample of
	ID       []int   `json:"id"` // without the letter
	StartNS  []int64 `json:"start"`
	TookNS   []int64 `json:"took"`
	Band     []int   `json:"band"` // 0 neither, 1 typical, 2 tail
	Endpoint []int   `json:"endpoint"`
}

// docHistogram counts requests between edges, in ns.
type docHistogram struct {
	Edges   []float64 `json:"edges"`
	Neither []float64 `json:"neither"`
	Typical []float64 `json:"typical"`
	Tail    []float64 `json:"tail"`
}

type docLeaf struct {
	Kind      string  `json:"kind"`
	Text      string  `json:"text"`
	Cause     string  `json:"cause,omitempty"`
	Stack     int     `json:"stack"`
	ExcessNS  float64 `json:"excess"`
	TypicalNS float64 `json:"typical"`
}

type docFrame struct {
	Function string `json:"f"`
	File     string `json:"p,omitempty"`
	Line     int    `json:"l,omitempty"`
}

type docPath struct {
	ID        string    `json:"id"`
	Endpoint  string    `json:"endpoint"`
	Goroutine int64     `json:"g"`
	StartNS   int64     `json:"start"`
	TookNS    int64     `json:"took"`
	Band      string    `json:"band"`
	InFlight  bool      `json:"open,omitempty"`
	Unseen    bool      `json:"unseen,omitempty"`
	Pieces    [][2]int  `json:"pieces"` // leaf, or -1 for the rest, and ns; the largest first
	Steps     []docStep `json:"steps"`
}

type docStep struct {
	Depth     int      `json:"d"`
	Goroutine int64    `json:"g"`
	Root      string   `json:"root,omitempty"`
	FromNS    int64    `json:"from"` // since the beginning of the request
	ToNS      int64    `json:"to"`
	State     string   `json:"state"`
	Stack     int      `json:"stack"` // -1 without
	Where     string   `json:"where,omitempty"`
	Call      string   `json:"call,omitempty"`
	Waker     int64    `json:"waker,omitempty"`
	Pieces    [][2]int `json:"pieces,omitempty"`
	Several   int      `json:"several,omitempty"` // how many short steps it stands for
}

type docSpans struct {
	Name string   `json:"name"`
	From []int64  `json:"from"`
	To   []int64  `json:"to"`
	What []string `json:"what,omitempty"` // the name of each, if they have any
	Cut  int      `json:"cut,omitempty"`  // how many more there are
}

type docSeries struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
}

// clipped is a name with a bound.
func clipped(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// pager makes a document.
type pager struct {
	r      *detail.Recording
	doc    *document
	leaf   map[int]int
	frame  map[int]int
	stacks map[string]int
}

func pageOf(d *Diagnosis) *document {
	doc := &document{
		Groups: map[string]string{}, Endpoints: []string{}, Leaves: []docLeaf{}, Frames: []docFrame{}, Stacks: [][]int{},
		Slowest: []docPath{}, Usual: []docPath{}, Spans: []docSpans{}, Series: []docSeries{}, Edges: []int64{}, Accounts: []docAccount{},
	}
	for _, a := range accounts(d) {
		x := docAccount{Contrast: a.contrast, ExcessNS: excessOf(d, a.contrast)}
		for _, row := range a.rows {
			kind := map[rowKind]string{rowNamed: "named", rowConsistent: "consistent", rowRest: "rest"}[row.kind]
			x.Rows = append(x.Rows, docRow{kind, row.mark, row.label, row.tenths, row.excess, row.interval})
		}
		doc.Accounts = append(doc.Accounts, x)
	}
	for _, x := range d.RuledOut {
		doc.Groups[x.Cause] = suspectOf(x.Cause).group
	}
	r := d.Detail
	if r == nil {
		return doc
	}
	p := &pager{r, doc, map[int]int{}, map[int]int{}, map[string]int{}}
	doc.Whole, doc.StartNS = r.Whole, r.StartNS
	p.points()
	p.histogram()
	p.flame()
	for _, x := range r.Paths {
		doc.Slowest = append(doc.Slowest, p.path(x))
	}
	for _, x := range r.Usual {
		doc.Usual = append(doc.Usual, p.path(x))
	}
	p.spans("garbage collector marks", r.GC, false)
	p.spans("the world is stopped", r.STW, true)
	p.spans("no event from the process", r.Silences, false)
	for _, s := range r.Host {
		doc.Edges = s.EdgesNS
		v := make([]float64, len(s.Values))
		for i, x := range s.Values {
			v[i] = math.Round(x*1e4) / 1e4
		}
		doc.Series = append(doc.Series, docSeries{s.Name, s.Unit, v})
	}
	return doc
}

// points are all slow requests, and others evenly over the recording.
func (p *pager) points() {
	all := p.r.Requests
	if len(all) == 0 {
		return
	}
	var slow int
	for i := range all {
		if all[i].Band == detail.Tail {
			slow++
		}
	}
	rest := max(1, (len(all)-slow+maxPoints-1)/max(1, maxPoints-slow))
	every := max(1, (slow+maxPoints-1)/maxPoints) // of the slow ones
	d := &docPoints{Of: len(all)}
	endpoints := map[string]int{}
	seen := [2]int{}
	for i := range all {
		q := &all[i]
		band := map[string]int{detail.Typical: 1, detail.Tail: 2}[q.Band]
		which, each := 0, rest
		if band == 2 {
			which, each = 1, every
		}
		if seen[which]++; (seen[which]-1)%each != 0 {
			continue
		}
		e, ok := endpoints[q.Endpoint]
		if !ok {
			e = len(endpoints)
			endpoints[q.Endpoint] = e
			p.doc.Endpoints = append(p.doc.Endpoints, clipped(q.Endpoint))
		}
		var id int
		fmt.Sscanf(q.ID, "r%d", &id)
		d.ID = append(d.ID, id)
		d.StartNS = append(d.StartNS, q.StartNS)
		d.TookNS = append(d.TookNS, q.DurationNS)
		d.Band = append(d.Band, band)
		d.Endpoint = append(d.Endpoint, e)
	}
	p.doc.Points = d
}

// histogram counts all requests in columns of equal width on a logarithmic scale.
func (p *pager) histogram() {
	lo, hi := int64(math.MaxInt64), int64(0)
	for i := range p.r.Requests {
		ns := max(p.r.Requests[i].DurationNS, 1)
		lo, hi = min(lo, ns), max(hi, ns)
	}
	if hi == 0 {
		return
	}
	first := int(math.Floor(math.Log10(float64(lo)) * perDecade))
	n := min(int(math.Floor(math.Log10(float64(hi))*perDecade))-first+1, maxColumns)
	h := &docHistogram{Neither: make([]float64, n), Typical: make([]float64, n), Tail: make([]float64, n)}
	for i := range n + 1 {
		h.Edges = append(h.Edges, math.Round(math.Pow(10, float64(first+i)/perDecade)))
	}
	for i := range p.r.Requests {
		q := &p.r.Requests[i]
		k := int(math.Floor(math.Log10(float64(max(q.DurationNS, 1)))*perDecade)) - first
		k = min(max(k, 0), n-1)
		switch q.Band {
		case detail.Tail:
			h.Tail[k] += q.Weight
		case detail.Typical:
			h.Typical[k] += q.Weight
		default:
			h.Neither[k] += q.Weight
		}
	}
	p.doc.Histogram = h
}

// flame takes the leaves with the largest parts of the excess first: of thousands, those
// that no pixel would show stay away.
func (p *pager) flame() {
	order := make([]int, len(p.r.Leaves))
	for i := range order {
		order[i] = i
	}
	size := func(i int) float64 { return math.Abs(p.r.Leaves[i].ExcessNS) }
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := size(a), size(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for _, i := range order[:min(len(order), maxLeaves)] {
		if size(i) > 0 {
			p.leafOf(i)
		}
	}
}

func (p *pager) leafOf(i int) int {
	if n, ok := p.leaf[i]; ok {
		return n
	}
	l := &p.r.Leaves[i]
	n := len(p.doc.Leaves)
	p.leaf[i] = n
	p.doc.Leaves = append(p.doc.Leaves, docLeaf{l.Kind, clipped(l.Text), l.Cause, p.stack(l.Stack), math.Round(l.ExcessNS), math.Round(l.TypicalNS)})
	return n
}

func (p *pager) stack(frames []int) int {
	if len(frames) == 0 {
		return -1
	}
	cut := frames[max(0, len(frames)-maxFrames):]
	key := fmt.Sprint(cut)
	if n, ok := p.stacks[key]; ok {
		return n
	}
	list := make([]int, len(cut))
	for i, f := range cut {
		n, ok := p.frame[f]
		if !ok {
			n = len(p.doc.Frames)
			p.frame[f] = n
			x := p.r.Frames[f]
			p.doc.Frames = append(p.doc.Frames, docFrame{clipped(x.Function), clipped(x.File), x.Line})
		}
		list[i] = n
	}
	n := len(p.doc.Stacks)
	p.stacks[key] = n
	p.doc.Stacks = append(p.doc.Stacks, list)
	return n
}

func (p *pager) path(x detail.Path) docPath {
	q := &p.r.Requests[x.Request]
	out := docPath{ID: q.ID, Endpoint: clipped(q.Endpoint), Goroutine: q.Goroutine, StartNS: q.StartNS, TookNS: q.DurationNS, Band: q.Band, InFlight: q.InFlight, Unseen: q.Unseen, Steps: []docStep{}}
	out.Pieces = p.pieces(q.Pieces)
	for _, s := range shortened(x.Steps, q.DurationNS) {
		out.Steps = append(out.Steps, docStep{
			Depth: s.Depth, Goroutine: s.Goroutine, Root: clipped(s.Root), FromNS: s.FromNS - q.StartNS, ToNS: s.ToNS - q.StartNS,
			State: clipped(s.State), Stack: p.stack(s.Stack), Where: clipped(s.Where), Call: clipped(s.Call), Waker: s.Waker, Pieces: p.pieces(s.Pieces), Several: s.several,
		})
	}
	return out
}

func (p *pager) pieces(list []detail.Piece) [][2]int {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b detail.Piece) int { return cmp.Compare(b.NS, a.NS) })
	var out [][2]int
	for i, x := range list {
		switch {
		case i < maxPieces:
			out = append(out, [2]int{p.leafOf(x.Leaf), int(x.NS)})
		case i == maxPieces:
			out = append(out, [2]int{-1, int(x.NS)})
		default:
			out[maxPieces][1] += int(x.NS)
		}
	}
	return out
}

func (p *pager) spans(name string, list []detail.Span, named bool) {
	if len(list) == 0 {
		return
	}
	s := docSpans{Name: name, Cut: max(0, len(list)-maxSpans)}
	for _, x := range list[:min(len(list), maxSpans)] {
		s.From, s.To = append(s.From, x.FromNS), append(s.To, x.ToNS)
		if named {
			s.What = append(s.What, clipped(x.Name))
		}
	}
	p.doc.Spans = append(p.doc.Spans, s)
}

// A pathStep is a step, or several short ones behind each other.
type pathStep struct {
	detail.Step
	several int
	inside  []*pathStep
}

// shortened keeps the steps of a path that can be seen: those that are shorter than a
// thousandth of the request, or twice that and so on as long as there are too many, are
// joined with their neighbours. The pieces still add up.
func shortened(steps []detail.Step, took int64) []pathStep {
	for least := took / 1000; ; least = 2*least + 1 {
		at := 0
		out := flatten(nil, withoutShort(tree(steps, &at, 0), least))
		if len(out) <= maxSteps || least > took {
			return out
		}
	}
}

// tree reads the steps of one depth, and what is inside them.
func tree(steps []detail.Step, at *int, depth int) (list []*pathStep) {
	for *at < len(steps) && steps[*at].Depth >= depth {
		s := &pathStep{Step: steps[*at]}
		*at++
		s.inside = tree(steps, at, s.Depth+1)
		list = append(list, s)
	}
	return list
}

// withoutShort joins neighbours that are shorter than least; one alone says itself what it is.
func withoutShort(list []*pathStep, least int64) (out []*pathStep) {
	short := func(s *pathStep) bool { return s.ToNS-s.FromNS < least }
	for i := 0; i < len(list); {
		n := i
		for n < len(list) && short(list[n]) {
			n++
		}
		switch run := list[i:n]; {
		case len(run) == 0:
			s := *list[i]
			s.inside = withoutShort(s.inside, least)
			out = append(out, &s)
			n++
		case len(run) == 1 && len(run[0].inside) == 0:
			out = append(out, run[0])
		default:
			first := &run[0].Step
			all := &pathStep{Step: detail.Step{Depth: first.Depth, Goroutine: first.Goroutine, Root: first.Root, FromNS: first.FromNS, ToNS: run[len(run)-1].ToNS, State: "short"}}
			for _, s := range run {
				all.take(s)
			}
			out = append(out, all)
		}
		i = n
	}
	return out
}

// take adds a step, and what is inside it.
func (s *pathStep) take(x *pathStep) {
	s.several++
	for _, p := range x.Pieces {
		if i := slices.IndexFunc(s.Pieces, func(q detail.Piece) bool { return q.Leaf == p.Leaf }); i >= 0 {
			s.Pieces[i].NS += p.NS
		} else {
			s.Pieces = append(s.Pieces, p)
		}
	}
	for _, in := range x.inside {
		s.take(in)
	}
}

func flatten(out []pathStep, list []*pathStep) []pathStep {
	for _, s := range list {
		out = append(out, *s)
		out = flatten(out, s.inside)
	}
	return out
}
