package request

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Find finds the requests of a timeline. Its cost is linear in the segments.
//
// Messages that wait in a queue for a worker become goroutines of the timeline, see
// [timeline.Timeline.Await], in place of those of an earlier call.
func Find(t *timeline.Timeline, o Options) *Found {
	t.ForgetMessages()
	c := classify(t, o.Func)
	c.tellApart(t)
	h := findHomes(t, c)
	d := &finder{
		t: t, c: c, h: h, roles: map[roleKey]int{}, samples: map[timeline.GID][]timeline.Sample{},
		excluded: map[string]int{}, still: map[gotrace.StackID]int{}, streamed: map[int32]int{}, hijackers: map[timeline.GID]bool{}, carried: make([]bool, len(t.Gs)), writesLast: map[timeline.GID]int32{}, answering: map[timeline.GID]bool{}, writes: map[timeline.GID]writes{}, broadcast: map[gotrace.StackID]bool{}, sinks: map[timeline.GID]bool{}, transmitters: map[timeline.GID]bool{}, writerOf: map[timeline.GID]timeline.GID{},
	}
	for _, s := range t.Samples {
		d.samples[s.G] = append(d.samples[s.G], s)
	}
	d.findContinued()
	switch {
	case len(o.Calls) > 0:
		d.byCalls(o.Calls, o.Functions)
	case o.Func != nil:
		d.byFunction()
	default:
		d.known()
		annotated := d.annotations()
		d.generic()
		d.dropOverlapping(annotated)
	}
	d.dropStreams()
	d.dropPolls()
	if o.Func == nil && len(o.Calls) == 0 && d.unasked() {
		d.pushes()
		if d.unasked() {
			d.popped()
		}
		if d.unasked() {
			d.loops()
		}
	}
	f := d.result()
	if o.Func == nil && len(o.Calls) == 0 && !o.served && d.unasked() {
		if c := f.consumed(); c != nil {
			return c
		}
	}
	return f
}

// candidate is a request with what decides about its endpoint.
type candidate struct {
	Request
	node     int32  // in the dispatch tree; 0 if nothing was seen of its handler
	shared   int32  // the deepest node that nearly all of its events have in common
	endpoint string // if not by node
	chance   bool   // its handler was seen by CPU samples alone
	shows    bool   // its handler was seen to wait, to call the system or to wake somebody
	alike    int32  // if nothing was seen of its handler: see unseen
	poll     bool   // most of it was one long wait that nobody ended
	cut      bool   // its handler was not done at the end of the trace
	dropped  bool
}

// unasked reports whether too few requests were found for a diagnosis, and none that hangs.
func (d *finder) unasked() bool {
	n := 0
	for i := range d.list {
		r := &d.list[i]
		if r.dropped {
			continue
		}
		if n++; r.hangs() || n >= leastTaken {
			return false
		}
	}
	return true
}

// hangs reports whether the trace ended before the request did, which had been open for long.
func (r *Request) hangs() bool { return r.InFlight && r.Duration() >= HangMin }

// outnumbers reports whether so many pieces of work are what a program is there for, though it was asked for something else,
// too: n requests, as those for its metrics or its health are.
func outnumbers(work, n int) bool { return work >= leastTaken && work >= leastTimes*n }

// leastTimes is how many times as many they are at least.
const leastTimes = 10

type roleKey struct {
	name, root string
	home       int32
}

// finder collects requests.
type finder struct {
	t         *timeline.Timeline
	c         *classifier
	h         *homes
	samples   map[timeline.GID][]timeline.Sample
	list      []candidate
	roles     map[roleKey]int
	role      []Role
	roleHome  []int32
	excluded  map[string]int
	still     map[gotrace.StackID]int // see Found.Still
	streamed  map[int32]int           // streams, by node
	pushing   []Part                  // streams
	waits     map[timeline.GID]waited // of readers, that were found last
	nextWaits map[gotrace.GoID]nextWait
	// transmitters are the goroutines that write for connections of gRPC, or do not; writerOf has them by who reads.
	transmitters map[timeline.GID]bool
	writerOf     map[timeline.GID]timeline.GID
	passing      []handedStream
	whole        []timeline.GID           // streams that began in the trace and received one message at most
	itself       map[gotrace.StackID]bool // cache of waitsItself
	// hijackers are net/http's goroutines whose connection a handler has taken over.
	hijackers map[timeline.GID]bool
	// quic says that there are requests of HTTP/3: the packets that these come in are none.
	quic            bool
	carried         []bool
	slab            []Part
	nodes, branches []nodeCount // scratch
	// writesLast are the places at which workers write to a socket last before they are home.
	writesLast map[timeline.GID]int32
	answering  map[timeline.GID]bool           // see Found.Answering
	writes     map[timeline.GID]writes         // cache of writesOf
	broadcast  map[gotrace.StackID]bool        // cache of broadcasts
	sinks      map[timeline.GID]bool           // cache of sink
	acts       map[*root]bool                  // whose goroutines wake somebody or call the system; nil until asked for
	continued  map[timeline.GID][]timeline.GID // in order of birth, by who started them: see findContinued
}

// The classes of what looks like a request and is none.
const (
	classObserver = "observer (/debug/pprof)"
	classHijacked = "hijacked connection"
	classStream   = "grpc stream"
	classPoll     = "long poll"
	classPush     = "stream"
)

func (d *finder) roleOf(name string, shape Shape, root string, home int32) int {
	k := roleKey{name, root, home}
	i, ok := d.roles[k]
	if !ok {
		i = len(d.role)
		d.roles[k] = i
		d.role = append(d.role, Role{Name: name, Shape: shape, Root: root})
		d.roleHome = append(d.roleHome, home)
	}
	return i
}

// parts stores the parts of a request.
func (d *finder) parts(ps ...Part) []Part {
	if cap(d.slab)-len(d.slab) < len(ps) {
		d.slab = make([]Part, 0, 4096)
	}
	n := len(d.slab)
	d.slab = append(d.slab, ps...)
	return d.slab[n:len(d.slab):len(d.slab)]
}

// add keeps a request unless it ends before it begins.
func (d *finder) add(role int, r Request, e evidence) {
	if len(r.Parts) == 0 || r.Duration() < 0 {
		return
	}
	if e.flags&observer != 0 {
		d.exclude(classObserver, r.Start())
		return
	}
	if r.Duration() >= LongPoll && d.streams(r.Parts[len(r.Parts)-1], LongPoll) {
		d.streamed[e.node]++
		d.pushing = append(d.pushing, r.Parts[len(r.Parts)-1])
		d.exclude(classPush, r.Start())
		return
	}
	r.Role = role
	if n := len(d.list); n == cap(d.list) { // append grows a long one by a quarter only
		d.list = slices.Grow(d.list, n+64)
	}
	d.list = append(d.list, candidate{Request: r, node: e.node, shared: e.shared, chance: e.chance, shows: e.shows, poll: e.poll, cut: e.cut || r.InFlight})
}

// beyond reports whether what begins at an instant is the next part's.
func beyond(t *timeline.Timeline, begin timeline.Time) bool {
	return t.Until < t.End && begin >= t.Until
}

// exclude counts what looks like a request, and is none.
func (d *finder) exclude(class string, begin timeline.Time) {
	if !beyond(d.t, begin) {
		d.excluded[class]++
	}
}

// evidence is what the events of a stretch of a goroutine's life tell.
type evidence struct {
	flags   flags
	node    int32
	shared  int32 // see candidate
	chance  bool  // CPU samples alone told node
	shows   bool  // see candidate
	poll    bool
	cut     bool // see candidate
	foreign bool // its handler read a socket past net/http's server and every known client
}

type nodeCount struct {
	node int32
	n    int
}

// LongPoll is the shortest single wait that nobody ended which makes a request
// look like a long poll, and the part of the request that it must fill.
const (
	LongPoll      timeline.Time = 1e9
	longPollShare float64       = 0.9
	// commonShare of a request's events in its handler must lie in what is
	// called its endpoint.
	commonShare float64 = 0.9
)

// examine looks at the events of g in [from, to], beginning with segment i. Where it waits for another goroutine that
// continues what it does, that one says what handlers were reached, or that nothing was seen of them.
func (d *finder) examine(g timeline.GID, i int, from, to timeline.Time) (e evidence) {
	e = d.look(g, i, from, to)
	for range maxDispatch {
		next := d.continuation(g, from, to)
		if next == timeline.NoG {
			break
		}
		start := d.c.of(d.t.Gs[next].CreatorStack).node
		in := d.look(next, 0, d.t.Gs[next].Start(), to)
		e.flags, e.poll = e.flags|in.flags, e.poll || in.poll
		e.node, e.shared, e.chance, e.shows = 0, 0, in.chance, in.shows
		if in.node != 0 {
			e.node, e.shared = d.c.below(start, in.node), d.c.below(start, in.shared)
		}
		g = next
	}
	return e
}

// look is examine of one goroutine.
func (d *finder) look(g timeline.GID, i int, from, to timeline.Time) (e evidence) {
	gr := &d.t.Gs[g]
	d.nodes = d.nodes[:0]
	for _, s := range gr.SegsFrom(i) {
		if s.Start >= to {
			break
		}
		if s.Stack == 0 || s.Kind == timeline.Running {
			continue
		}
		in := d.c.of(s.Stack)
		d.event(&e, in)
		e.shows = e.shows || in.node != 0 && s.Kind != timeline.Runnable
		e.foreign = e.foreign || in.foreign() && byNetwork(s)
		if s.Kind == timeline.Waiting && s.Waker == timeline.NoG && s.End-s.Start >= LongPoll &&
			(s.Reason == timeline.ReasonSelect || s.Reason == timeline.ReasonChanReceive || s.Reason == timeline.ReasonCond) {
			e.poll = e.poll || float64(s.End-s.Start) >= longPollShare*float64(to-from)
		}
	}
	ws := gr.Wakes()
	for k := sort.Search(len(ws), func(k int) bool { return ws[k].Time >= from }); k < len(ws) && ws[k].Time <= to; k++ {
		in := d.c.of(ws[k].Stack)
		d.event(&e, in)
		e.shows = e.shows || in.node != 0
	}
	e.chance = len(d.nodes) == 0
	if ss := d.samples[g]; len(ss) > 0 {
		for k := sort.Search(len(ss), func(k int) bool { return ss[k].Time >= from }); k < len(ss) && ss[k].Time <= to; k++ {
			d.event(&e, d.c.of(ss[k].Stack))
		}
	}
	e.node, e.shared = d.reachedNode(), d.commonNode()
	e.chance = e.chance && e.node != 0
	return e
}

func (d *finder) event(e *evidence, in *stackInfo) {
	e.flags |= in.flags
	if in.node == 0 {
		return
	}
	d.nodes = count(d.nodes, nodeCount{in.node, 1})
}

// commonNode returns the deepest node that has commonShare of the events at or below it.
func (d *finder) commonNode() int32 {
	total := 0
	for _, x := range d.nodes {
		total += x.n
	}
	slices.SortFunc(d.nodes, func(a, b nodeCount) int { return b.n - a.n })
	at, covered := int32(0), 0
	for i, x := range d.nodes {
		switch {
		case i == 0:
			at = x.node
		case float64(covered) >= commonShare*float64(total):
			return at
		}
		at = d.c.common(at, x.node)
		covered += x.n
	}
	return at
}

// reachedNode returns the deepest node that is reached from the root by going, at each, to the one below it that has
// commonShare of the events that are further down. Those at a node itself, as of what a middleware does when the handler
// has returned, do not say which of those below it was called.
func (d *finder) reachedNode() int32 {
	at := int32(0)
	for {
		d.branches = d.branches[:0]
		total := 0
		for _, x := range d.nodes {
			if to := d.c.toward(at, x.node); to != at {
				total += x.n
				d.branches = count(d.branches, nodeCount{to, x.n})
			}
		}
		if total == 0 {
			return at
		}
		most := slices.MaxFunc(d.branches, func(a, b nodeCount) int { return a.n - b.n })
		if float64(most.n) < commonShare*float64(total) {
			return at
		}
		at = most.node
	}
}

// count adds to how often a node occurs.
func count(nodes []nodeCount, x nodeCount) []nodeCount {
	for k := range nodes {
		if nodes[k].node == x.node {
			nodes[k].n += x.n
			return nodes
		}
	}
	return append(nodes, x)
}

// result orders what was found and names it.
func (d *finder) result() *Found {
	for len(d.carried) < len(d.t.Gs) { // messages
		d.carried = append(d.carried, false)
	}
	f := &Found{t: d.t, home: d.h.home, busy: d.h.busy, firstBusy: d.h.firstBusy, carried: d.carried, answering: d.answering, keys: make([]int32, len(d.c.info))}
	for i := range d.c.info {
		f.keys[i] = d.c.info[i].key
	}
	d.order()
	d.nameRoles()
	d.endpoints(f)
	f.Requests = make([]Request, len(d.list))
	total, largest := 0, 0
	for i := range d.list {
		f.Requests[i] = d.list[i].Request
		r := &f.Requests[i]
		r.Beyond = beyond(d.t, r.Start())
		if !r.InFlight && !r.Beyond {
			total++
			d.role[d.list[i].Role].Count++
		}
	}
	d.dropEmptyRoles(f)
	for _, r := range f.Roles {
		largest = max(largest, r.Count)
	}
	if total > 0 {
		f.LargestShare = float64(largest) / float64(total)
	}
	f.Outgoing, f.Excluded, f.Still = d.h.outgoing(), classes(d.excluded), stills(d.still)
	f.index()
	return f
}

// order keeps what was not dropped, in order of ends, what is in flight last.
func (d *finder) order() {
	type place struct {
		open       bool
		end, start timeline.Time
		i          int
	}
	places := make([]place, 0, len(d.list))
	for i := range d.list {
		if r := &d.list[i]; !r.dropped {
			places = append(places, place{r.InFlight, r.End(), r.Start(), i})
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		switch {
		case a.open != b.open && b.open:
			return -1
		case a.open != b.open:
			return +1
		case a.end != b.end:
			return cmp.Compare(a.end, b.end)
		}
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.i, b.i))
	})
	list := make([]candidate, len(places))
	for i, p := range places {
		list[i] = d.list[p.i]
	}
	d.list = list
}

// dropEmptyRoles keeps the roles that have requests, the largest first.
func (d *finder) dropEmptyRoles(f *Found) {
	used := make([]bool, len(d.role))
	for i := range f.Requests {
		used[f.Requests[i].Role] = true
	}
	order := make([]int, 0, len(d.role))
	for i := range d.role {
		if used[i] {
			order = append(order, i)
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return d.role[order[i]].Count > d.role[order[j]].Count })
	at := make([]int, len(d.role))
	for to, from := range order {
		at[from] = to
		f.Roles = append(f.Roles, d.role[from])
	}
	for i := range f.Requests {
		f.Requests[i].Role = at[f.Requests[i].Role]
	}
}

func classes(m map[string]int) (out []Class) {
	for name, n := range m {
		if n > 0 {
			out = append(out, Class{name, n})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Count > out[j].Count || out[i].Count == out[j].Count && out[i].Name < out[j].Name
	})
	return out
}

// nameRoles makes the names of roles different that share a root function.
func (d *finder) nameRoles() {
	names := map[string]int{}
	for _, r := range d.role {
		names[r.Name]++
	}
	var at map[int32]string
	for i := range d.role {
		r := &d.role[i]
		if names[r.Name] < 2 || d.roleHome[i] == keyNone {
			continue
		}
		if at == nil {
			at = d.places()
		}
		if where := at[d.roleHome[i]]; where != "" {
			r.Name += " at " + where
		}
	}
}

// places names each key by the application's function that blocks there.
func (d *finder) places() map[int32]string {
	m := map[int32]string{}
	for id := range d.c.info {
		k := d.c.info[id].key
		if m[k] == "" {
			if f, ok := AppFrame(d.t.Stacks.Frames(stackID(id))); ok {
				m[k] = f.Func
			}
		}
	}
	return m
}

// endpoints names the endpoint of each request: the innermost handler that a
// dispatcher called, as far as all of the request's events reach (see leaves).
func (d *finder) endpoints(f *Found) {
	count, shared := make([]map[int32]int, len(d.role)), make([]map[int32]int, len(d.role))
	for i := range count {
		count[i], shared[i] = map[int32]int{}, map[int32]int{}
	}
	for i := range d.list {
		if r := &d.list[i]; r.node != 0 {
			count[r.Role][r.node]++
			shared[r.Role][r.shared]++
		}
	}
	below := make([]map[int32]int32, len(d.role)) // the most common leaf below a node
	for i := range count {
		below[i] = d.leaves(count[i], shared[i])
	}
	d.unseen(below, d.byChance(below))
	ids := map[string]int{}
	for i := range d.list {
		r := &d.list[i]
		name := r.endpoint
		if name == "" {
			name = d.role[r.Role].Name
			if n := below[r.Role][r.node]; n != 0 {
				name = strings.TrimSuffix(d.c.tree[n].name, "-fm")
			}
		}
		id, ok := ids[name]
		if !ok {
			id = len(f.Endpoints)
			ids[name] = id
			f.Endpoints = append(f.Endpoints, name)
		}
		r.Endpoint = id
	}
}

// unseen decides which endpoint the requests belong to that showed nothing of
// their handler, because it neither blocked nor called the system. They are
// fast, so their kind is found among the fast requests that did show something,
// by chance: a preemption, a CPU sample. Requests that wait, call the system or wake somebody show
// something always, so they only count where there are no others. If no
// fast request showed anything, the endpoint of most of the others is a guess, and they are
// marked so; where none is that of most, of these or of the fast ones, they are of one of their own. Before that, a request is of the endpoint of those that took as long as it
// and were seen by their CPU samples alone: they are alike but for that.
func (d *finder) unseen(below []map[int32]int32, chances []seenByChance) {
	fast := make([][]timeline.Time, len(d.role))
	for i := range d.list {
		r := &d.list[i]
		if r.node != 0 || r.dropped || r.InFlight {
			continue
		}
		if r.alike = chances[r.Role].alike(r.Duration()); r.alike == 0 {
			fast[r.Role] = append(fast[r.Role], r.Duration())
		}
	}
	limit := make([]timeline.Time, len(d.role))
	for i, f := range fast {
		if len(f) > 0 {
			slices.Sort(f)
			limit[i] = f[len(f)*99/100]
		}
	}
	votes := make([]map[int32]int, len(d.role))
	vote := func(counts func(*candidate) bool) {
		for i := range d.list {
			r := &d.list[i]
			if r.node == 0 || r.dropped || r.InFlight || r.Duration() > limit[r.Role] || !counts(r) {
				continue
			}
			if votes[r.Role] == nil {
				votes[r.Role] = map[int32]int{}
			}
			votes[r.Role][below[r.Role][r.node]]++
		}
	}
	vote(func(r *candidate) bool { return !r.shows })
	seen := slices.Clone(votes)
	vote(func(r *candidate) bool { return seen[r.Role] == nil })
	likely := make([]bool, len(d.role)) // that they are of the most common endpoint
	all, most := make([]int, len(d.role)), make([]int, len(d.role))
	for i := range d.list {
		if r := &d.list[i]; r.node != 0 && !r.dropped {
			all[r.Role]++
			if below[r.Role][r.node] == below[r.Role][0] {
				most[r.Role]++
			}
		}
	}
	for i := range likely {
		likely[i] = 2*most[i] > all[i]
	}
	best, torn := make([]int32, len(d.role)), make([]bool, len(d.role))
	for i, v := range votes {
		n := 0
		for node, k := range v {
			if n += k; k > v[best[i]] || k == v[best[i]] && node < best[i] {
				best[i] = node
			}
		}
		torn[i] = 2*v[best[i]] <= n && n > 0
	}
	for i := range d.list {
		r := &d.list[i]
		switch {
		case r.node != 0 || r.endpoint != "":
		case r.alike != 0:
			r.node, r.Unseen = r.alike, true
		case votes[r.Role] == nil && !likely[r.Role] || torn[r.Role]:
			r.endpoint, r.Unseen, r.Guessed = d.role[r.Role].Name, true, true
		case below[r.Role][0] != 0:
			r.Unseen, r.Guessed = true, votes[r.Role] == nil
		}
	}
	for i, n := range best {
		if n != 0 && !torn[i] {
			below[i][0] = n
		}
	}
}

// seenByChance are requests of a role whose handlers were seen by CPU samples alone, in order
// of their durations. A handler has as many samples as CPU time, so of requests that took
// equally long each endpoint's are seen in the same proportion.
type seenByChance []chance

type chance struct {
	took timeline.Time
	node int32
}

// byChance returns them by role.
func (d *finder) byChance(below []map[int32]int32) []seenByChance {
	of := make([]seenByChance, len(d.role))
	for i := range d.list {
		if r := &d.list[i]; r.chance && !r.dropped && !r.InFlight && r.Duration() > 0 {
			of[r.Role] = append(of[r.Role], chance{r.Duration(), below[r.Role][r.node]})
		}
	}
	for _, s := range of {
		slices.SortFunc(s, func(a, b chance) int { return cmp.Or(cmp.Compare(a.took, b.took), cmp.Compare(a.node, b.node)) })
	}
	return of
}

// leastAlike is how many requests that took about as long must be of one endpoint, and more
// than of all others, for one of which nothing was seen to be of it.
const leastAlike = 5

// enoughAlike is how many of those that took about as long are asked, at least, one in so many of
// them: whether most are of one endpoint is then known to a few percent, and all requests of a
// recording may be alike.
const enoughAlike = 500

// alike returns the node of most of those that took between half and twice as long, 0 if
// there is none.
func (s seenByChance) alike(took timeline.Time) int32 {
	from := sort.Search(len(s), func(i int) bool { return s[i].took >= took/2 })
	s = s[from:]
	// Twice a damaged time may overflow.
	s = s[:sort.Search(len(s), func(i int) bool { return (s[i].took-1)/2 >= took })]
	votes, all := map[int32]int{}, 0
	for i := 0; i < len(s); i += max(1, len(s)/enoughAlike) {
		votes[s[i].node]++
		all++
	}
	for n, k := range votes {
		if k >= leastAlike && 2*k > all {
			return n
		}
	}
	return 0
}

// minBelow is the part of the requests seen in a handler that must be seen in
// further handlers below it for these to be endpoints: below it, they are a rare
// path inside the one.
const minBelow = 0.1

// leaves maps every node to the endpoint of the requests whose events reach it: count is how many reach it, shared how many
// have nearly all of their events at it or below. Requests seen only in an outer handler (a middleware) cannot be told apart
// from those seen further inside: they join the most common of these. But when of few nearly all events are further
// inside, those that are rare there join it, too: a slow path must not become an endpoint of its own, because its tail
// would then be no anomaly.
func (d *finder) leaves(count, shared map[int32]int) map[int32]int32 {
	sum := func(of map[int32]int) map[int32]int { // at or below a node
		total := map[int32]int{}
		for n, k := range of {
			for p := n; ; p = d.c.tree[p].parent {
				total[p] += k
				if p == 0 {
					break
				}
			}
		}
		return total
	}
	total, inside := sum(count), sum(shared)
	nodes := make([]int32, 0, len(total))
	for n := range total {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes) // a parent is older than its children
	cut := map[int32]int32{0: 0}
	ends := map[int32]int{} // requests that end at an endpoint, after cutting
	for _, n := range nodes {
		if n == 0 {
			continue
		}
		p := d.c.tree[n].parent
		switch {
		case cut[p] != p:
			cut[n] = cut[p]
		case p != 0 && shared[p] > 0 && float64(inside[p]-shared[p]) < minBelow*float64(inside[p]) && float64(total[n]) < minBelow*float64(total[p]):
			cut[n] = p
		default:
			cut[n] = n
		}
		ends[cut[n]] += count[n]
	}
	best := map[int32]int32{}
	for i := len(nodes) - 1; i >= 0; i-- { // children first
		n := nodes[i]
		if cut[n] != n {
			continue
		}
		if _, inner := best[n]; !inner && n != 0 {
			best[n] = n
		}
		if n == 0 {
			continue
		}
		p := d.c.tree[n].parent
		if b, ok := best[p]; !ok || ends[best[n]] >= ends[b] {
			best[p] = best[n]
		}
	}
	for _, n := range nodes {
		if cut[n] != n {
			best[n] = best[cut[n]]
		}
	}
	return best
}

// dropPolls excludes endpoints all of whose requests are long polls, or most of whose wait for news.
func (d *finder) dropPolls() {
	all := map[kindOf]bool{}
	for i := range d.list {
		r := &d.list[i]
		if sh := d.role[r.Role].Shape; sh == Annotated || sh == Function {
			r.poll = false // the user says that it is a request
		}
		k := kindOf{r.Role, r.node}
		seen, ok := all[k]
		all[k] = r.poll && (seen || !ok)
	}
	for k, is := range d.newsKinds() {
		all[k] = all[k] || is
	}
	for i := range d.list {
		r := &d.list[i]
		if all[kindOf{r.Role, r.node}] {
			r.dropped = true
			d.exclude(classPoll, r.Start())
		}
	}
}
