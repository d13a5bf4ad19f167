// Package detail is what is known of a recording request by request: how long each took
// and for what, and the way of the slowest ones. A diagnosis is a sum of it.
package detail

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Recording is what is known of the requests that a diagnosis is about. Instants are
// nanoseconds since Start. It does not change; use it from anywhere.
type Recording struct {
	// Start is the beginning of the trace by the wall's clock, the zero time if that is not
	// known; DurationNS is how long it is.
	Start      time.Time
	DurationNS int64
	// StartNS is Start on the trace's clock, CLOCK_MONOTONIC of the target's machine.
	StartNS int64
	// Class is what kind of requests they are: net/http, for example.
	Class string
	// Requests are in order of their beginnings. Of a recording with more than 20,000 of them
	// they are a sample in which slow ones are many: see Request.Weight.
	Requests []Request
	// Whole: every request is slow, so that the leaves' excess is of all of a request's time.
	Whole bool
	// Leaves are what pieces of them are, Frames what stacks consist of.
	Leaves []Leaf
	Frames []Frame
	// Paths are the ways of the slowest requests, the slowest first; Usual that of one
	// typical request of each of their endpoints that has one, and of one that was not seen in
	// its handler if one of their endpoints has none. If they were asked for.
	Paths, Usual []Path
	// STW are the stops of the world, GC the mark phases of the collector, Silences the
	// times in which the operating system had stopped the process.
	STW, GC, Silences []Span
	// Host is what the operating system counted; none if it was not recorded.
	Host []Series
}

// Request is one of them.
type Request struct {
	// ID is how findings call it in their examples.
	ID       string
	Endpoint string
	// Unseen says that nothing was seen of its handler, so that the endpoint may be another one.
	Unseen bool
	// Goroutine is the one that carried the end of it.
	Goroutine           int64
	StartNS, DurationNS int64
	// Band is "tail", "typical" or neither.
	Band string
	// InFlight: it had not ended when the recording did, and its duration is a lower bound.
	InFlight bool
	// Weight is how many requests it stands for; 1 unless they are a sample.
	Weight float64
	// Pieces add up to DurationNS.
	Pieces []Piece
}

// The bands.
const (
	Tail    = "tail"
	Typical = "typical"
)

// Piece is a part of a request's time; Leaf indexes Recording.Leaves.
type Piece struct {
	Leaf int
	NS   int64
}

// Leaf is what a piece finally was.
type Leaf struct {
	// Kind is that of package blame, such as "network", and Text says it of whom and where.
	Kind, Text string
	// Cause is the id of the cause that claims it, of several with "|" between them if they
	// fit, "" if none does.
	Cause string
	// Stack is the way from the endpoint there, the outermost first, as indexes into
	// Recording.Frames: where the request stood, whom it waited for and where that one stood.
	Stack []int
	// ExcessNS is the leaf's part of the mean excess of the tail, or of its mean where every
	// request is slow, as in the diagnosis; TypicalNS is its mean in typical requests.
	ExcessNS, TypicalNS float64
}

// Frame is one function on a stack, or what stands between two stacks: then File is "".
type Frame struct {
	Function, File string
	Line           int
}

// Path is how a request's time was followed.
type Path struct {
	// Request indexes Recording.Requests.
	Request int
	Steps   []Step
}

// Step is what one goroutine did. A step of depth d+1 lies within the one of depth d before
// it, which is a wait: it is what its waker did.
type Step struct {
	Depth int
	// Goroutine is 0 for a message that waits in a queue.
	Goroutine int64
	// Root is the function that the goroutine began with.
	Root         string
	FromNS, ToNS int64
	// State is "running", "runnable", "syscall", "waiting" with the reason behind it, or
	// "unknown".
	State string
	// Stack is where it stood, the outermost first, as indexes into Recording.Frames.
	Stack []int
	// Where is the innermost function on Stack that is the program's own, if there is one,
	// and Call the one outside the runtime that it called; both are "" without a stack.
	Where, Call string
	// Waker is the goroutine that ended a wait, 0 if none did.
	Waker int64
	// Pieces are what of the step is in no deeper one.
	Pieces []Piece
}

// Span is a stretch of time with a name.
type Span struct {
	Name         string
	FromNS, ToNS int64
}

// MaxPaths bounds Options.Paths.
const MaxPaths = 200

// Options say how much.
type Options struct {
	// Paths is how many of the slowest requests are followed, at most MaxPaths.
	Paths int
	// Usual: a typical request of each of their endpoints is, too.
	Usual bool
}

// New collects what is known of the requests that a verdict is about; of none if it found
// none. h is what the operating system told, nil if it was not recorded.
func New(a *blame.Attribution, v *cause.Verdict, h *host.Recording, o Options) *Recording {
	t := a.Timeline()
	r := &Recording{
		DurationNS: int64(t.Duration()), StartNS: int64(t.Start),
		STW: spans(t, t.STW), GC: spans(t, t.GC), Silences: spans(t, t.Silences), Host: series(h, int64(t.Start), int64(t.End)),
	}
	if t.Wall != 0 {
		r.Start = time.Unix(0, t.Wall-int64(t.WallAt-t.Start)).UTC()
	}
	if v.Role == nil {
		return r
	}
	r.Class = a.Found().Roles[v.Role.Role].Name
	c := &collector{a: a, t: t, r: r, frames: map[Frame]int{}, stacks: map[gotrace.StackID][]int{}, leaves: map[leafID]int{}, claimed: v.Claimed(cause.TailContrast)}
	if len(c.claimed) == 0 {
		c.claimed = v.Claimed(cause.LevelContrast)
	}
	r.Whole = v.Whole
	c.requests(v.Role)
	c.contrast(v.Role, v.Whole)
	c.paths(v.Role, min(max(o.Paths, 0), MaxPaths))
	if o.Usual {
		c.usual(v.Role)
	}
	return r
}

func spans(t *timeline.Timeline, list []timeline.Span) (out []Span) {
	for _, s := range list {
		out = append(out, Span{s.Name, int64(s.Start - t.Start), int64(s.End - t.Start)})
	}
	return out
}

// leafID tells leaves apart: those of other endpoints have other stacks.
type leafID struct {
	key      blame.KeyID
	endpoint int
}

type collector struct {
	a       *blame.Attribution
	t       *timeline.Timeline
	r       *Recording
	frames  map[Frame]int
	stacks  map[gotrace.StackID][]int
	leaves  map[leafID]int
	claimed map[blame.KeyID]string
	of      []leafID       // the leaves' own
	at      map[string]int // the requests' places by their ids
}

// requests collects those of a population.
func (c *collector) requests(p *blame.Population) {
	band := map[int]string{}
	for _, i := range p.Requests(p.Typical()) {
		band[i] = Typical
	}
	for _, i := range p.Requests(p.Tail()) {
		band[i] = Tail
	}
	all := p.All()
	slices.SortStableFunc(all, func(x, y int) int {
		return cmp.Compare(c.found(x).Start(), c.found(y).Start())
	})
	for _, i := range all {
		f, at := c.found(i), &c.a.Requests[i]
		c.r.Requests = append(c.r.Requests, Request{
			ID: id(at.Request), Endpoint: c.endpoint(f.Endpoint), Unseen: f.Unseen, Goroutine: c.goid(f.Parts[len(f.Parts)-1].G),
			StartNS: int64(f.Start() - c.t.Start), DurationNS: at.D, Band: band[i], InFlight: f.InFlight, Weight: c.a.Weight[i],
			Pieces: c.pieces(at.Pieces, f.Endpoint),
		})
	}
}

func (c *collector) goid(g timeline.GID) int64 {
	if g == timeline.NoG || c.t.Gs[g].Message {
		return 0
	}
	return int64(c.t.Gs[g].ID)
}

func (c *collector) endpoint(i int) string {
	if list := c.a.Found().Endpoints; i >= 0 && i < len(list) {
		return list[i]
	}
	return ""
}

func (c *collector) pieces(list []blame.Piece, endpoint int) (out []Piece) {
	for _, p := range list {
		out = append(out, Piece{c.leaf(leafID{p.Key, endpoint}), p.NS})
	}
	return out
}

// leaf is the number of a leaf.
func (c *collector) leaf(id leafID) int {
	if n, ok := c.leaves[id]; ok {
		return n
	}
	k := c.a.Keys[id.key]
	l := Leaf{Kind: k.Kind.String(), Text: cause.LeafText(c.a, k), Cause: c.claimed[id.key]}
	l.Stack = append(l.Stack, c.frame(Frame{Function: c.endpoint(id.endpoint)}))
	for i, h := range []blame.Hop{k.First, k.Last} {
		if h.Site == 0 || i > 0 && h == k.First {
			continue
		}
		l.Stack = append(l.Stack, c.stack(c.a.Sites[h.Site].Stack)...)
		l.Stack = append(l.Stack, c.frame(Frame{Function: "waits for " + c.a.Classes[h.Waker].Name}))
	}
	if k.Site != 0 {
		l.Stack = append(l.Stack, c.stack(c.a.Sites[k.Site].Stack)...)
	}
	l.Stack = append(l.Stack, c.frame(Frame{Function: l.Text}))
	n := len(c.r.Leaves)
	c.leaves[id], c.of = n, append(c.of, id)
	c.r.Leaves = append(c.r.Leaves, l)
	return n
}

func (c *collector) frame(f Frame) int {
	n, ok := c.frames[f]
	if !ok {
		n = len(c.r.Frames)
		c.frames[f] = n
		c.r.Frames = append(c.r.Frames, f)
	}
	return n
}

// stack is one of the trace's, the outermost first: many steps and leaves share it.
func (c *collector) stack(id gotrace.StackID) []int {
	if out, ok := c.stacks[id]; ok {
		return out
	}
	var out []int
	for _, f := range slices.Backward(c.t.Stacks.Frames(id)) {
		out = append(out, c.frame(Frame{f.Func, f.File, f.Line}))
	}
	c.stacks[id] = out
	return out
}

// contrast gives the leaves their parts of the excess, of what the verdict calls so, and of
// typical requests.
func (c *collector) contrast(p *blame.Population, whole bool) {
	n := len(c.a.Keys)
	cols := make(blame.Columns, n)
	for i := range cols {
		cols[i] = i
	}
	p.Whole = whole
	excess, _ := p.TailMeans(cols, n)
	p.Whole = false
	typical, _ := p.TypicalMeans(cols, n)
	// A key's leaves, one for each endpoint, share its parts as they share its time in slow
	// requests, or typical ones, or all: an endpoint is compared with typical ones of its own.
	parts := func(in func(band string) bool) (of []float64, sum []float64) {
		of, sum = make([]float64, len(c.r.Leaves)), make([]float64, n)
		for i := range c.r.Requests {
			r := &c.r.Requests[i]
			if !in(r.Band) {
				continue
			}
			for _, x := range r.Pieces {
				of[x.Leaf] += r.Weight * float64(x.NS)
				sum[c.of[x.Leaf].key] += r.Weight * float64(x.NS)
			}
		}
		return of, sum
	}
	tail, tailSum := parts(func(b string) bool { return b == Tail })
	mid, midSum := parts(func(b string) bool { return b == Typical })
	all, sum := parts(func(string) bool { return true })
	for i := range c.r.Leaves {
		l, k := &c.r.Leaves[i], c.of[i].key
		switch {
		case tailSum[k] > 0:
			l.ExcessNS = excess[k] * tail[i] / tailSum[k]
		case midSum[k] > 0:
			l.ExcessNS = excess[k] * mid[i] / midSum[k]
		default:
			l.ExcessNS = excess[k] * all[i] / max(sum[k], 1)
		}
		if midSum[k] > 0 {
			l.TypicalNS = typical[k] * mid[i] / midSum[k]
		}
	}
}

// paths follows the slowest requests of a population.
func (c *collector) paths(p *blame.Population, n int) {
	c.at = map[string]int{}
	for i := range c.r.Requests {
		c.at[c.r.Requests[i].ID] = i
	}
	for _, i := range p.Slowest(n) {
		c.r.Paths = append(c.r.Paths, c.path(i))
	}
}

// usual follows of each endpoint of the slowest requests the typical one that takes the
// median of its typical ones.
func (c *collector) usual(p *blame.Population) {
	by := map[string][]int{}
	var unseen []int
	for _, i := range p.Requests(p.Typical()) {
		e := c.endpoint(c.found(i).Endpoint)
		by[e] = append(by[e], i)
		if c.found(i).Unseen {
			unseen = append(unseen, i)
		}
	}
	median := func(list []int) {
		slices.SortStableFunc(list, func(x, y int) int { return cmp.Compare(c.a.Requests[x].D, c.a.Requests[y].D) })
		c.r.Usual = append(c.r.Usual, c.path(list[len(list)/2]))
	}
	done := map[string]bool{}
	for _, x := range c.r.Paths {
		e := c.r.Requests[x.Request].Endpoint
		switch list := by[e]; {
		case done[e]:
		case len(list) > 0:
			median(list)
		case len(unseen) > 0:
			median(unseen)
			unseen = nil
		}
		done[e] = true
	}
}

func (c *collector) path(i int) Path {
	x := Path{Request: c.at[id(c.a.Requests[i].Request)]}
	for _, s := range c.a.Path(i) {
		x.Steps = append(x.Steps, c.step(s, c.found(i).Endpoint))
	}
	return x
}

// id is how findings call a request.
func id(request int) string { return fmt.Sprintf("r%d", request) }

func (c *collector) step(s blame.Step, endpoint int) Step {
	g := &c.t.Gs[s.G]
	out := Step{
		Depth: s.Depth, Goroutine: c.goid(s.G), Root: g.Root(), FromNS: int64(s.From - c.t.Start), ToNS: int64(s.To - c.t.Start),
		State: "unknown", Pieces: c.pieces(s.Pieces, endpoint),
	}
	if s.Segment < 0 {
		return out
	}
	x := g.Seg(s.Segment)
	if g.Message {
		out.State, out.Waker = "waiting: in a queue", c.goid(x.Waker)
		return out
	}
	if out.Stack = c.stack(x.Stack); x.Stack != 0 {
		site := c.a.SiteOf(x.Stack)
		out.Where, out.Call = site.Func, site.Call
	}
	switch x.Kind {
	case timeline.Running:
		out.State = "running"
	case timeline.Runnable:
		out.State = "runnable"
	case timeline.Syscall:
		out.State = "syscall"
	case timeline.Waiting:
		out.State = strings.TrimSuffix("waiting: "+x.Reason.String(), ": ")
		out.Waker = c.goid(x.Waker)
	}
	return out
}

func (c *collector) found(i int) *request.Request {
	return &c.a.Found().Requests[c.a.Requests[i].Request]
}
