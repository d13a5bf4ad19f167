package timeline

import (
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/whylate/whylate/gotrace"
)

// Source delivers events in an order in which every event comes after those it
// depends on, as [gotrace.Reader] does.
type Source interface {
	// Next reads the next event. It returns [io.EOF] at the end and a
	// [*gotrace.CorruptError] where a trace is damaged.
	Next(ev *gotrace.Event) error
	// Stacks is the table that the events' stacks refer to.
	Stacks() *gotrace.Stacks
	// Version is the trace format's version.
	Version() string
}

// resumer is a Source that can go on behind damage.
type resumer interface{ Resume() bool }

// Options switch protections off; tests only. The zero value is the right one.
type Options struct {
	// GCIdleBusy takes a P with an idle-priority GC worker for a busy one.
	GCIdleBusy bool
	// StoppedIdle takes a P that stop-the-world stopped for an idle one.
	StoppedIdle bool
	// GoneIdle takes a P that GOMAXPROCS took away for an idle one.
	GoneIdle bool
}

// Read builds the timeline of a trace. Damage splits a trace into parts between which anything
// may have happened: of a damaged trace it is the timeline of the longest part, with Lost set.
// An error means that nothing could be read.
func Read(src Source, o Options) (*Timeline, error) {
	var longest *Timeline
	parts := NewParts(src, o)
	for {
		t, err := parts.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if longest == nil || t.Duration() > longest.Duration() {
			longest = t
		}
	}
	if first := parts.Lost(); first != nil {
		longest.Lost = &gotrace.CorruptError{Offset: first.Offset, Err: first.Err, Good: longest.Bytes}
	}
	return longest, nil
}

// Parts reads a trace, or a section of one, in parts, of which each has a timeline of its own. It is
// not safe for concurrent use.
type Parts struct {
	src    Source
	o      Options
	begin  int64
	end    int64 // what is behind it only completes what began before
	across bool
	// length is about how long parts are that end beside damage and the end, at cut the next one and
	// at last the last one; 0 if none does.
	length, cut, last int64
	n                 int
	lost              *gotrace.CorruptError
	done              bool
	// following is of the part behind a cut, which begins at from in the trace; held is what was read
	// and is its alone.
	following *builder
	from      int64
	held      *read
}

// read is what a source returned.
type read struct {
	ev  gotrace.Event
	err error
}

// NewParts returns the parts of a trace between damages. Sources other than [gotrace.Reader] have
// one, before the first damage.
func NewParts(src Source, o Options) *Parts { return &Parts{src: src, o: o, end: math.MaxInt64} }

// PartsOf returns the parts of a section, of which it takes the Reader. What begins in it may end in
// the next one. If across is set the last timeline goes on behind the section's end (see
// Timeline.Until), so that little of that is in none, and a section that is longer than most, in
// bytes, has parts of about that length, which go on behind their ends, too; 0 is no bound.
func PartsOf(s *gotrace.Section, o Options, across bool, most int64) *Parts {
	p := &Parts{src: s.Reader(), o: o, begin: s.Begin(), end: s.End(), across: across}
	if size := s.Len(); across && most > 0 && size > most {
		n := (size + most/2) / most
		p.length = size / n
		p.cut, p.last = p.begin+p.length, p.begin+p.length*(n-1)
	}
	return p
}

// beyond is for which part of its length a part goes on behind its end, to the end of the
// generation behind it at most.
const beyond = 16

// Lost returns the first damage so far, nil if there was none.
func (p *Parts) Lost() *gotrace.CorruptError { return p.lost }

// Next returns the timeline of the next part, and [io.EOF] behind the last one. The first one
// may be empty, others are not. Other errors are final, and of the source.
func (p *Parts) Next() (*Timeline, error) {
	for !p.done {
		t, err := p.read()
		if err != nil {
			p.done = true
		}
		if p.done {
			p.src = nil // the timeline needs nothing of what it holds of the trace
		}
		if err != nil {
			return nil, err
		}
		p.n++
		if t != nil && (p.n == 1 || t.Duration() > 0) {
			return t, nil
		}
	}
	return nil, io.EOF
}

// next reads the next event, or what is held.
func (p *Parts) next(ev *gotrace.Event) error {
	if h := p.held; h != nil {
		p.held = nil
		*ev = h.ev
		return h.err
	}
	return p.src.Next(ev)
}

// mostBeyond is the part of the length in bytes that is read behind a part's end at most.
const mostBeyond = 4

// cutEvery is how many events are read before it is asked where in the trace they stand.
const cutEvery = 1 << 10

// position is where in the trace the next event stands, if the source knows.
func (p *Parts) position() (at int64, ok bool) {
	src, ok := p.src.(interface{ Position() int64 })
	if !ok {
		return 0, false
	}
	return src.Position(), true
}

// cuts reports whether a part ends here, and where that is in the trace.
func (p *Parts) cuts() (at int64, ok bool) {
	if p.length == 0 || p.cut > p.last {
		return 0, false
	}
	if at, ok = p.position(); !ok || at < p.cut {
		return 0, false
	}
	p.cut += p.length * ((at-p.cut)/p.length + 1)
	return at, true
}

// read builds the timeline of the next part, which is nil if that is the next section's.
func (p *Parts) read() (*Timeline, error) {
	from, to := p.begin, p.begin
	if p.n > 0 {
		from = -1 // it is not known yet
	}
	b := p.following
	if b == nil {
		b = newBuilder(p.src.Stacks(), p.src.Version(), p.o)
		b.t.First = p.n == 0 && p.begin == 0
	} else {
		p.following, from, to = nil, p.from, p.from
	}
	stop := never // where reading ends that goes on behind the end
	var ev gotrace.Event
	for {
		err := p.next(&ev)
		if p.following != nil && (err != nil || ev.Time >= stop || ev.Kind == gotrace.KindSync && int64(ev.Value) >= p.end) {
			if err == nil && ev.Time >= stop {
				b.last = stop
			}
			p.held = &read{ev, err}
			break
		}
		if stop != never && p.following == nil && (err != nil || ev.Time >= stop) {
			if err == nil && p.across {
				b.last = stop // nothing happened until then
			}
			p.done = true
			break
		}
		if err == io.EOF {
			p.done = true
			break
		}
		if err != nil {
			var lost *gotrace.CorruptError
			if !errors.As(err, &lost) {
				return nil, err
			}
			to = min(lost.Good, p.end)
			if lost.Good >= p.end { // the next section says so
				p.done = true
				break
			}
			b.t.Lost = lost
			if p.lost == nil {
				p.lost = lost
			}
			resumes, _ := p.src.(resumer)
			p.done = resumes == nil || !resumes.Resume()
			break
		}
		if ev.Kind == gotrace.KindSync && stop == never {
			to = max(to, int64(ev.Value))
			if from < 0 {
				from = to
			}
			if from >= p.end {
				p.done = true
				return nil, nil
			}
			if to >= p.end {
				to = p.end
				// The clocks were read before the last events of the generation behind.
				stop = b.until(max(ev.Time, b.last+1), p.across)
				continue
			}
		}
		b.add(&ev)
		if p.following != nil {
			p.following.add(&ev)
			// A sixteenth of the time may be most of the bytes, which both parts would hold.
			if b.t.Events%cutEvery == 0 && b.last > b.t.Until {
				if at, _ := p.position(); at >= p.from+p.length/mostBeyond {
					break
				}
			}
		} else if stop == never && b.t.Events%cutEvery == 0 && b.last > b.t.Start {
			if at, ok := p.cuts(); ok {
				to, p.from = at, at
				stop = b.until(b.last+1, p.across)
				p.following = b.follow(b.t.Until)
			}
		}
	}
	b.t.Bytes = max(0, to-max(from, 0))
	b.finish()
	return b.t, nil
}

// until notes where the next part begins, and returns where this one ends.
func (b *builder) until(at Time, across bool) (stop Time) {
	if b.t.Until = at; across {
		return max(at, at+(at-b.t.Start)/beyond) // of a damaged time it may overflow
	}
	return at
}

func newBuilder(stacks *gotrace.Stacks, version string, o Options) *builder {
	b := &builder{
		t:       &Timeline{Stacks: stacks, Version: version, assists: map[GID][]Span{}, roots: []string{""}},
		o:       o,
		open:    map[rangeKey]openSpan{},
		tasks:   map[gotrace.TaskID]*Task{},
		wraps:   []bool{false},
		rootIDs: map[string]int32{},
		wrapped: map[int32]int32{},
		whatIDs: map[what]int32{},
		states:  []*goState{nil},
		threads: map[gotrace.ThreadID]*thread{},
	}
	b.id = func(g GID) gotrace.GoID { return b.at(g).ID }
	return b
}

// builder is the state of the one pass.
type builder struct {
	t     *Timeline
	o     Options
	gs    [][]Goroutine
	n     int // goroutines
	id    func(GID) gotrace.GoID
	slots []sight
	procs []*procState // by id, nil for those not seen
	// resizes are the values of GOMAXPROCS, each different from the one before.
	resizes []resize
	open    map[rangeKey]openSpan
	tasks   map[gotrace.TaskID]*Task
	// states are those of goroutines, by Goroutine.state; free are those of dead ones.
	states []*goState
	free   []int32
	// rootIDs are the indices of Timeline.roots, wraps whether they are compiler wrappers, and
	// wrapped the functions that these call.
	rootIDs map[string]int32
	wraps   []bool
	wrapped map[int32]int32
	// whatIDs are the indices of Timeline.whats, recent those that were looked for last, by hash.
	whatIDs map[what]int32
	recent  [1 << 10]int32
	threads map[gotrace.ThreadID]*thread
	// polls are the deliveries of the network poller by threads without a P.
	polls []poll
	heap  heap
	// regions holds each goroutine's open regions; only the outermost counts.
	regions map[GID]*regionState

	started  bool
	last     Time // of any event
	stopping int  // open stop-the-world ranges
	stopped  Time // when the last P became idle in one
	running  int  // goroutines running now, without those in system calls
	runnable int
	// semaphores are the stacks of waits at semaphores, and whether these are the collector's.
	semaphores map[gotrace.StackID]bool
	// inShared is how many of these are in no P's own queue, shared when any is.
	inShared int
	shared   merged
}

// sight is the goroutine that had a slot last.
type sight struct {
	id gotrace.GoID
	g  GID
}

// goState is the open segment of a goroutine, and what is known of it until it dies.
type goState struct {
	segs   []seg
	wakes  []Wake
	kind   Kind
	exists bool
	since  Time
	stack  gotrace.StackID
	reason Reason
	p      int16
	label  string
	on     *thread // where it ran last
	assist Time    // start of the open assist, 0 if none
}

type rangeKey struct {
	name  string
	scope gotrace.Scope
	id    int64
}

// openSpan is a range that has not ended, and the size of the heap when it began.
type openSpan struct {
	Span
	heap uint64
}

type regionState struct {
	depth int
	task  Task
}

func (b *builder) add(ev *gotrace.Event) {
	t := b.t
	t.Events++
	if !b.started {
		b.started = true
		t.Start, b.last = ev.Time, ev.Time
	}
	if ev.Kind == gotrace.KindMetric {
		b.metric(ev)
		return
	}
	if ev.Kind == gotrace.KindSync {
		if ev.Wall != 0 && t.Wall == 0 {
			t.Wall, t.WallAt = ev.Wall, ev.Time
		}
		return
	}
	if ev.Time < t.Start { // the first Sync may be stamped later than the first event
		t.Start = ev.Time
	}
	if ev.Time-b.last >= SilenceMin && b.running > 0 && b.stopping == 0 {
		s := Span{Start: b.last, End: ev.Time, G: NoG}
		if b.runnable > 0 {
			s.Name = "runnable"
		}
		t.Silences = append(t.Silences, s)
	}
	if ev.Time > b.last {
		b.last = ev.Time
	}
	switch ev.Kind {
	case gotrace.KindGo:
		b.goroutine(ev)
	case gotrace.KindProc:
		b.proc(ev)
	case gotrace.KindRangeBegin, gotrace.KindRangeActive, gotrace.KindRangeEnd:
		b.span(ev)
	case gotrace.KindLabel:
		g := b.g(ev.Go, ev.Slot)
		if g == NoG {
			return
		}
		c := b.state(g)
		c.label = ev.Name
		if p := b.known(ev.P); p != nil && p.g == g {
			p.what = b.activity(g, c) // the label follows the start and holds for all of it
		}
	case gotrace.KindSample:
		if ev.G != gotrace.NoGoroutine {
			t.Samples = append(t.Samples, Sample{Time: ev.Time, G: b.g(ev.G, ev.GSlot), Stack: ev.Stack})
		}
	default:
		b.annotation(ev)
	}
}

// g returns the dense index of a goroutine, making one on first sight. Its slot is that of
// [gotrace.Event], or 0.
func (b *builder) g(id gotrace.GoID, slot int32) GID {
	switch {
	case id == gotrace.NoGoroutine:
		return NoG
	case slot <= 0:
		return b.find(id)
	}
	for int(slot) >= len(b.slots) {
		b.slots = append(b.slots, sight{gotrace.NoGoroutine, NoG})
	}
	s := &b.slots[slot]
	if s.id != id {
		*s = sight{id, b.find(id)}
	}
	return s.g
}

// find is g for who knows no slot.
func (b *builder) find(id gotrace.GoID) GID {
	g, ok := b.t.byID.find(id, b.id)
	if !ok {
		g = GID(b.n)
		if b.n&(1<<gsBits-1) == 0 {
			b.gs = append(b.gs, make([]Goroutine, 1<<gsBits))
		}
		b.n++
		b.t.byID.add(id, g, b.id)
		*b.at(g) = Goroutine{ID: id, Creator: NoG, t: b.t}
	}
	return g
}

// gsBits is the logarithm of the number of goroutines of a chunk: they are not moved while others
// come.
const gsBits = 10

// at returns a goroutine.
func (b *builder) at(g GID) *Goroutine { return &b.gs[g>>gsBits][g&(1<<gsBits-1)] }

// state returns the state of a goroutine.
func (b *builder) state(g GID) *goState {
	me := b.at(g)
	if me.state == 0 {
		if n := len(b.free); n > 0 {
			me.state, b.free = b.free[n-1], b.free[:n-1]
		} else {
			me.state = int32(len(b.states))
			b.states = append(b.states, &goState{})
		}
		if me.Died { // a damaged trace goes on with it
			c := b.states[me.state]
			c.segs, c.wakes = append(c.segs, b.t.segs.of(me.segs)...), append(c.wakes, b.t.wakes.of(me.wakes)...)
		}
	}
	return b.states[me.state]
}

// release keeps what a goroutine did and takes its state back.
func (b *builder) release(me *Goroutine) {
	c := b.states[me.state]
	me.segs, me.wakes = b.t.segs.add(c.segs), b.t.wakes.add(c.wakes)
	*c = goState{segs: c.segs[:0], wakes: c.wakes[:0]}
	if cap(c.segs) > maxSpare {
		c.segs = nil
	}
	if cap(c.wakes) > maxSpare {
		c.wakes = nil
	}
	b.free = append(b.free, me.state)
	me.state = 0
}

// maxSpare is the capacity of slices up to which they wait for the next goroutine.
const maxSpare = 1024

// goroutine handles a change of a goroutine's state.
func (b *builder) goroutine(ev *gotrace.Event) {
	g := b.g(ev.Go, ev.Slot)
	if g == NoG { // no runtime writes that
		return
	}
	c := b.state(g)
	if ev.From == ev.To { // every generation repeats the states
		if c.exists && c.stack == 0 {
			c.stack = ev.GoStack
			b.reasonFromStack(c)
		}
		return
	}
	ready := ev.Time
	switch ev.From {
	case gotrace.Undetermined:
		// The first status of a goroutine may arrive at the end of its
		// generation; it has been so since the trace began.
		c.exists, c.since = true, b.t.Start
	case gotrace.NotExist:
		c.exists, c.since = true, ev.Time
		b.born(g, ev)
	default:
		ready = c.since
		if b.switched(c, ev) {
			c.reason = ReasonSwitch
		}
		b.close(g, c, ev)
	}
	b.note(g, ev.GoStack)
	if c.exists && ev.From != gotrace.Undetermined && ev.From != gotrace.NotExist {
		b.count(c, -1, ev.Time)
	}
	if ev.From != gotrace.Undetermined && ev.From != gotrace.NotExist {
		c.since = ev.Time
	}
	c.stack, c.reason, c.p = ev.GoStack, reasonOf(ev.Reason), -1
	switch ev.To {
	case gotrace.Running:
		c.kind, c.stack, c.p, c.reason = Running, 0, procIndex(ev.P), ReasonNone
		b.ranOn(g, c, ev)
	case gotrace.Runnable:
		c.kind = Runnable
		if ev.From == gotrace.Waiting || ev.From == gotrace.NotExist {
			c.stack = 0 // GoStack is where it waited; that belongs to the wait
			c.p = procIndex(ev.P)
		}
	case gotrace.Waiting:
		c.kind = Waiting
		b.reasonFromStack(c)
		if c.reason == ReasonSync && b.collectorsOwn(c.stack) {
			c.reason = ReasonGC
		}
	case gotrace.Syscall:
		c.kind = Syscall
	case gotrace.NotExist:
		c.exists = false
	}
	if c.exists {
		b.count(c, +1, ev.Time)
	}
	b.occupy(g, c, ev, ready)
	if me := b.at(g); ev.To == gotrace.NotExist && !me.Died {
		me.Died = true
		// That of a thread of C, which dies in a call, comes again when the thread calls Go again.
		if ev.From == gotrace.Running {
			b.release(me)
		}
	}
}

// procIndex is the id of a P as segments have it: -1 for none, and for one beyond those that are
// taken from a trace.
func procIndex(id gotrace.ProcID) int16 {
	if id < 0 || id > maxProcs {
		return -1
	}
	return int16(id)
}

// close ends the open segment of g, which has the state c.
func (b *builder) close(g GID, c *goState, ev *gotrace.Event) {
	if !c.exists {
		return
	}
	t, x, by := b.t, what{stack: c.stack, kind: c.kind, reason: c.reason}, int32(c.p)
	if c.kind == Waiting {
		by = int32(NoG)
		if ev.To == gotrace.Runnable && ev.G != gotrace.NoGoroutine && ev.G != ev.Go && !b.harvest(ev, c.reason) {
			w := b.g(ev.G, ev.GSlot)
			by, x.wakerStack = int32(w), ev.Stack
			waker := b.state(w)
			waker.wakes = append(waker.wakes, Wake{Time: ev.Time, Stack: ev.Stack, whom: g})
		} else if c.reason == ReasonNetwork {
			t.Polls = append(t.Polls, ev.Time)
			if ev.P == gotrace.NoProc && ev.M != gotrace.NoThread {
				b.polls = append(b.polls, poll{ev.Time, ev.M})
			}
		}
	}
	if c.kind == Running && c.assist != 0 {
		// The assist goes on after the wait; its running part ends here.
		t.assists[g] = append(t.assists[g], Span{Start: max(c.assist, c.since), End: ev.Time, G: g})
	}
	if ev.Time > c.since || c.kind == Waiting || c.kind == Syscall {
		b.segment(g, c, ev.Time, by, x)
	}
}

// segment puts the open segment of g, which has the state c, behind those before it.
func (b *builder) segment(g GID, c *goState, end Time, by int32, x what) {
	n := len(c.segs)
	if n == 0 {
		b.at(g).begun = c.since
	} else if c.segs[n-1].end != c.since {
		if b.t.gaps == nil {
			b.t.gaps = map[gap]Time{}
		}
		x.gap, b.t.gaps[gap{b.at(g).ID, n}] = true, c.since
	}
	if x.reason == ReasonYield {
		b.at(g).yields = true
	}
	c.segs = append(c.segs, seg{end, by, b.what(x)})
}

// what returns the index of x.
func (b *builder) what(x what) int32 {
	h := (uint32(x.stack)*31+uint32(x.wakerStack))*31 + uint32(x.kind)<<5 + uint32(x.reason)
	recent := &b.recent[h%uint32(len(b.recent))]
	if int(*recent) < len(b.t.whats) && b.t.whats[*recent].what == x {
		return *recent
	}
	id, ok := b.whatIDs[x]
	if !ok {
		id = int32(len(b.t.whats))
		b.t.whats = append(b.t.whats, store(x))
		b.whatIDs[x] = id
	}
	*recent = id
	return id
}

// harvest reports whether a wake-up by a goroutine is really the network
// poller's: a goroutine that starts the world polls the network and so seems to
// wake others. A deadline or a close has package internal/poll on its stack.
func (b *builder) harvest(ev *gotrace.Event, r Reason) bool {
	if r != ReasonNetwork {
		return false
	}
	for _, f := range b.t.Stacks.Frames(ev.Stack) {
		if strings.HasPrefix(f.Func, "internal/poll.") {
			return false
		}
	}
	return true
}

// store says which of waker and P the segments of x have.
func store(x what) stored {
	switch x.kind {
	case Waiting:
		return stored{what: x, noP: -1}
	case Syscall:
		return stored{x, -1, -1}
	}
	return stored{what: x, noWaker: -1}
}

func (b *builder) born(g GID, ev *gotrace.Event) {
	me := b.at(g)
	me.Born = true
	if ev.G == gotrace.NoGoroutine {
		return
	}
	me.Creator, me.CreatorStack = b.g(ev.G, ev.GSlot), ev.Stack
	c := b.state(me.Creator)
	c.wakes = append(c.wakes, Wake{Time: ev.Time, Stack: ev.Stack, whom: ^g})
}

// note learns the goroutine's root function from one of its stacks.
func (b *builder) note(g GID, s gotrace.StackID) {
	me := b.at(g)
	if s == 0 || me.root != 0 && !b.wraps[me.root] {
		return
	}
	root := b.t.Stacks.Root(s)
	if launches(root) {
		root = launched(b.t.Stacks.Frames(s))
	}
	if root == b.t.roots[me.root] || root == "" {
		return
	}
	id, ok := b.rootIDs[root]
	if !ok {
		id = int32(len(b.t.roots))
		b.t.roots, b.wraps = append(b.t.roots, root), append(b.wraps, wrapper(root) || launches(root))
		b.rootIDs[root] = id
	}
	if me.root != 0 && !launches(b.t.roots[me.root]) {
		b.wrapped[me.root] = id
	}
	me.root = id
	me.System = strings.HasPrefix(root, "runtime.") && root != "runtime.main"
	me.Observer = strings.HasPrefix(root, "runtime/trace.") || strings.HasPrefix(root, "runtime/pprof.")
}

// wrapper reports whether a function is the compiler's around a go statement
// with arguments or a method value: births name it, all other stacks leave it out.
func wrapper(f string) bool {
	return strings.Contains(f, ".gowrap") || strings.HasSuffix(f, "-fm")
}

// launchers are functions that libraries start goroutines with, to call another one there: what goroutines have in common
// is the latter.
var launchers = []string{
	"sync.(*WaitGroup).Go.func1",
	"golang.org/x/sync/errgroup.(*Group).Go.func1",
	"golang.org/x/sync/errgroup.(*Group).TryGo.func1",
	"github.com/sourcegraph/conc.(*WaitGroup).Go.func1",
	"github.com/sourcegraph/conc/panics.(*Catcher).Try",
}

func launches(f string) bool { return slices.Contains(launchers, f) }

// launched returns the outermost function of a stack that a launcher called, or the outermost of all if there is none: before
// it calls one and behind, methods of its own kind are on the stack.
func launched(frames []gotrace.Frame) string {
	own := func(f string) bool {
		return strings.HasPrefix(f, "runtime.") || slices.ContainsFunc(launchers, func(l string) bool { return strings.HasPrefix(f, l[:strings.Index(l, ").")+2]) })
	}
	for i := len(frames) - 1; i >= 0; i-- {
		if f := frames[i].Func; !own(f) {
			return f
		}
	}
	return frames[len(frames)-1].Func
}

// unwrap gives goroutines of which nothing but the birth was seen the root
// function of others that were born in the same way.
func (b *builder) unwrap() {
	for g := range b.t.Gs {
		me := &b.t.Gs[g]
		if root := b.wrapped[me.root]; root != 0 {
			me.root = root
		}
	}
}

// count keeps how many goroutines run and are runnable, and of these how many are in no P's
// own queue.
func (b *builder) count(c *goState, d int, at Time) {
	switch c.kind {
	case Running:
		b.running += d
	case Runnable:
		if c.p < 0 {
			b.inShared += d
			b.shared.set(at, b.inShared > 0)
		}
		was := b.runnable > 0
		b.runnable += d
		switch is := b.runnable > 0; {
		case is && !was:
			b.t.queued = append(b.t.queued, Interval{Start: at})
		case was && !is:
			b.t.queued[len(b.t.queued)-1].End = at
		}
	}
}

// reasonOf knows the runtime's words (source: runtime.traceBlockReasonStrings and traceGoStopReasonStrings).
func reasonOf(s string) Reason {
	switch s { // not a map: to hash the text takes longer than all else that an event costs here
	case "":
		return ReasonNone
	case "network":
		return ReasonNetwork
	case "sync":
		return ReasonSync
	case "chan send":
		return ReasonChanSend
	case "chan receive":
		return ReasonChanReceive
	case "select":
		return ReasonSelect
	case "sync.(*Cond).Wait":
		return ReasonCond
	case "sleep":
		return ReasonSleep
	case "forever":
		return ReasonForever
	case "GC mark assist wait for work":
		return ReasonGCAssist
	case "wait until GC ends", "GC weak to strong wait":
		return ReasonGC
	case "GC background sweeper wait", "system goroutine wait":
		return ReasonSystem
	case "preempted":
		return ReasonPreempted
	case "runtime.Gosched":
		return ReasonYield
	}
	return ReasonOther
}

// reasonFromStack finds the reason of a wait that began before the trace did.
func (b *builder) reasonFromStack(c *goState) {
	if c.kind != Waiting || c.reason != ReasonNone || c.stack == 0 {
		return
	}
	for _, f := range b.t.Stacks.Frames(c.stack) {
		if r, ok := waitFrames[f.Func]; ok {
			c.reason = r
			return
		}
	}
	c.reason = ReasonOther
}

// collectorsOwn reports whether a semaphore is one of the garbage collector's that goroutines
// meet which find that a cycle should begin, or that nothing is left to mark (source:
// runtime.gcStart, runtime.gcMarkDone): a trace calls waiting there sync, as it does for a lock.
func (b *builder) collectorsOwn(s gotrace.StackID) bool {
	if s == 0 {
		return false
	}
	own, known := b.semaphores[s]
	if !known {
		for _, f := range b.t.Stacks.Frames(s) {
			if own = f.Func == "runtime.gcStart" || f.Func == "runtime.gcMarkDone"; own || !strings.HasPrefix(f.Func, "runtime.") {
				break
			}
		}
		if b.semaphores == nil {
			b.semaphores = map[gotrace.StackID]bool{}
		}
		b.semaphores[s] = own
	}
	return own
}

// waitFrames tells a wait's reason by the first of these functions on its stack
// (Go's runtime, sync, time and internal/poll).
var waitFrames = map[string]Reason{
	"internal/poll.runtime_pollWait":        ReasonNetwork,
	"internal/poll.(*pollDesc).wait":        ReasonNetwork,
	"runtime.chanrecv1":                     ReasonChanReceive,
	"runtime.chanrecv2":                     ReasonChanReceive,
	"runtime.chansend1":                     ReasonChanSend,
	"runtime.selectgo":                      ReasonSelect,
	"runtime.block":                         ReasonForever,
	"time.Sleep":                            ReasonSleep,
	"sync.runtime_SemacquireMutex":          ReasonSync,
	"sync.runtime_Semacquire":               ReasonSync,
	"sync.runtime_SemacquireRWMutex":        ReasonSync,
	"sync.runtime_SemacquireRWMutexR":       ReasonSync,
	"sync.runtime_SemacquireWaitGroup":      ReasonSync,
	"internal/sync.runtime_SemacquireMutex": ReasonSync,
	"internal/poll.(*fdMutex).rwlock":       ReasonSync, // one at a time writes to a descriptor, or reads it
	"sync.runtime_notifyListWait":           ReasonCond,
	"sync.(*Cond).Wait":                     ReasonCond,
	"runtime.gcBgMarkWorker":                ReasonSystem,
	"runtime.bgsweep":                       ReasonSystem,
	"runtime.bgscavenge":                    ReasonSystem,
	// Whoever waits within a finalizer has one of those above on its stack first.
	"runtime.runfinq":                 ReasonSystem,
	"runtime.runFinalizers":           ReasonSystem,
	"runtime.(*cleanupQueue).dequeue": ReasonSystem,
}

// span handles begin, activity and end of a named range.
func (b *builder) span(ev *gotrace.Event) {
	g := NoG
	key := rangeKey{name: ev.Name, scope: ev.Scope}
	switch ev.Scope {
	case gotrace.ScopeGo:
		g = b.g(ev.Go, ev.Slot)
		key.id = int64(g)
	case gotrace.ScopeProc:
		key.id = int64(ev.Proc)
	}
	stw := strings.HasPrefix(ev.Name, "stop-the-world")
	switch {
	case ev.Name == "GC mark assist" && g != NoG:
		b.assist(g, ev)
		return
	case !stw && ev.Name != markPhase:
		return
	case ev.Kind != gotrace.KindRangeEnd:
		s := openSpan{Span{Start: ev.Time, Name: ev.Name, G: g, Stack: ev.Stack}, b.heap.size}
		if ev.Kind == gotrace.KindRangeActive {
			if _, known := b.open[key]; known {
				return // repeated by a new generation
			}
			s.Start, s.heap = b.t.Start, 0
		} else if !stw { // the process's, begun by a goroutine
			s.G = b.g(ev.G, ev.GSlot)
		}
		b.open[key] = s
		if stw {
			b.stopping++
		}
		return
	}
	from, ok := b.open[key]
	if !ok {
		return
	}
	delete(b.open, key)
	if stw {
		b.stopping--
	}
	from.End = ev.Time
	b.closeSpan(from)
}

func (b *builder) closeSpan(s openSpan) {
	if strings.HasPrefix(s.Name, "stop-the-world") {
		s.Name = strings.TrimSuffix(strings.TrimPrefix(s.Name, "stop-the-world ("), ")")
		s.Stopped = max(b.stopped, s.Start)
		b.t.STW = append(b.t.STW, s.Span)
		return
	}
	b.mark(s.Span, s.heap)
}

func (b *builder) assist(g GID, ev *gotrace.Event) {
	c := b.state(g)
	switch ev.Kind {
	case gotrace.KindRangeEnd:
		if c.assist != 0 && c.kind == Running {
			if from := max(c.assist, c.since); ev.Time > from {
				b.t.assists[g] = append(b.t.assists[g], Span{Start: from, End: ev.Time, G: g})
			}
		}
		c.assist = 0
	default:
		if c.assist == 0 {
			c.assist = ev.Time
		}
	}
	if p := b.known(gotrace.ProcID(c.p)); c.kind == Running && p != nil && p.g == g {
		p.split(ev.Time, b.activity(g, c))
	}
}

// annotation handles user tasks and regions.
func (b *builder) annotation(ev *gotrace.Event) {
	switch ev.Kind {
	case gotrace.KindTaskBegin:
		b.tasks[ev.Task] = &Task{Name: ev.Name, G: b.g(ev.G, ev.GSlot), Start: ev.Time, Last: NoG, Stack: ev.Stack, Child: ev.Parent != gotrace.BackgroundTask}
	case gotrace.KindTaskEnd:
		if t := b.tasks[ev.Task]; t != nil {
			t.End, t.Last = ev.Time, b.g(ev.G, ev.GSlot)
			b.t.Tasks = append(b.t.Tasks, *t)
			delete(b.tasks, ev.Task)
		}
	case gotrace.KindRegionBegin:
		g := b.g(ev.G, ev.GSlot)
		if g == NoG {
			return
		}
		if b.regions == nil {
			b.regions = map[GID]*regionState{}
		}
		s := b.regions[g]
		if s == nil {
			s = &regionState{}
			b.regions[g] = s
		}
		if s.depth++; s.depth == 1 {
			s.task = Task{Name: ev.Name, G: g, Start: ev.Time, Last: g}
		}
	case gotrace.KindRegionEnd:
		s := b.regions[b.g(ev.G, ev.GSlot)]
		if s == nil || s.depth == 0 {
			return // begun before the trace
		}
		if s.depth--; s.depth == 0 {
			s.task.End = ev.Time
			b.t.Regions = append(b.t.Regions, s.task)
		}
	}
}
