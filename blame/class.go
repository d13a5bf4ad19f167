package blame

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Class is a class of goroutines: a root function, and for goroutines that carry
// requests the endpoint.
type Class struct {
	Name string
	Root string
	// Endpoint indexes request.Found.Endpoints, -1 if it carries no request.
	Endpoint int
	// System marks runtime goroutines.
	System bool
	// Observer marks goroutines that record this trace.
	Observer bool
	// Members counts its goroutines, Ran the P time they held in nanoseconds.
	Members int
	Ran     int64
	// Burst is the time-weighted median length of its bursts, in nanoseconds: P
	// time of one goroutine from one wait to the next. Bursts counts them.
	Burst  int64
	Bursts int
	// Samples counts CPU profile samples of its goroutines.
	Samples int
}

// maxClasses bounds the classes, and with them the cost of a snapshot; what
// comes later shares the last one.
const maxClasses = 1024

// classAt returns the class of goroutine g at an instant.
func (a *Attribution) classAt(g timeline.GID, at timeline.Time) ClassID {
	if g == timeline.NoG {
		return 0
	}
	return a.classIn(g, at, a.f)
}

// classIn is classAt for a goroutine of which carried tells the requests.
func (a *Attribution) classIn(g timeline.GID, at timeline.Time, carried interface {
	RequestAt(timeline.GID, timeline.Time) int
}) ClassID {
	c := a.classOf[g]
	if a.f.Entry(g) {
		if r := carried.RequestAt(g, at); r >= 0 {
			return a.carrying[c][a.f.Requests[r].Endpoint]
		}
	}
	return c
}

// newClass returns the class of goroutines like g that carry requests of an endpoint, -1
// for those that carry none.
func (a *Attribution) newClass(g timeline.GID, endpoint int) ClassID {
	if len(a.Classes) >= maxClasses {
		return ClassID(maxClasses - 1)
	}
	me := &a.t.Gs[g]
	c := Class{Name: me.Root(), Root: me.Root(), Endpoint: endpoint, System: me.System, Observer: me.Observer}
	if c.Name == "" {
		c.Name = "unknown goroutine"
	}
	if endpoint >= 0 {
		if e := a.f.Endpoints[endpoint]; e != "" && e != c.Root {
			c.Name = e
		}
	}
	if len(a.Classes) == maxClasses-1 {
		c = Class{Name: "other goroutines", Endpoint: -1}
	}
	a.Classes = append(a.Classes, c)
	return ClassID(len(a.Classes) - 1)
}

// fixedClasses are the classes that are no goroutines' own.
func fixedClasses() []Class {
	cs := make([]Class, timeline.ClassGoroutines)
	for i := range cs {
		cs[i] = Class{Endpoint: -1, System: true}
	}
	cs[timeline.ClassIdle].Name = "idle"
	cs[timeline.ClassScheduler].Name = "the scheduler"
	cs[timeline.ClassGCWorker].Name = "GC workers"
	cs[timeline.ClassGCAssist].Name = "GC assists"
	cs[timeline.ClassStopped].Name = "stop-the-world"
	return cs
}

// findClasses makes every class there is.
func (a *Attribution) findClasses() {
	a.classOf = make([]ClassID, len(a.t.Gs))
	byRoot := map[string]ClassID{}
	for g := range a.t.Gs {
		root := a.t.Gs[g].Root()
		c, ok := byRoot[root]
		if !ok {
			c = a.newClass(timeline.GID(g), -1)
			byRoot[root] = c
		}
		a.classOf[g] = c
	}
	a.carrying = make([][]ClassID, len(a.Classes))
	for i := range a.f.Requests {
		for _, p := range a.f.Requests[i].Parts {
			if r := a.f.RequestAt(p.G, p.Start); r >= 0 {
				a.carries(p.G, a.f.Requests[r].Endpoint)
			}
			a.carries(p.G, a.f.Requests[i].Endpoint)
		}
	}
}

// carries makes the class of goroutines like g that carry requests of an endpoint.
func (a *Attribution) carries(g timeline.GID, endpoint int) {
	of := &a.carrying[a.classOf[g]]
	if *of == nil {
		*of = make([]ClassID, len(a.f.Endpoints))
	}
	if (*of)[endpoint] == 0 {
		(*of)[endpoint] = a.newClass(g, endpoint)
	}
}

// classStats fills Burst and Samples of every class.
func (a *Attribution) classStats(v *survey) {
	for c := range v.bursts {
		b := v.bursts[c].all()
		a.Classes[c].Burst, a.Classes[c].Bursts = weightedMedian(b), len(b)
	}
	for _, s := range a.t.Samples {
		a.Classes[a.classAt(s.G, s.Time)].Samples++
	}
}

// maxHalvings bounds how often weightedMedian divides what it is looking for: more than
// twice as often as it takes, unless somebody has put the elements so that it takes long.
const maxHalvings = 64

// weightedMedian returns the length x for which half of the total length lies in
// elements not longer than x. It changes the order of xs.
func weightedMedian(xs []int64) int64 {
	var total, shorter int64 // shorter is what lies in elements before those of xs
	for _, x := range xs {
		total += x
	}
	for n := 0; len(xs) > fewToOrder && n < maxHalvings; n++ {
		m := []int64{xs[0], xs[len(xs)/2], xs[len(xs)-1]}
		slices.Sort(m)
		below, above, sum := 0, len(xs), int64(0) // xs[:below] < m[1] < xs[above:]
		for i := 0; i < above; {
			switch x := xs[i]; {
			case x < m[1]:
				sum += x
				xs[i], xs[below] = xs[below], x
				below++
				i++
			case x > m[1]:
				above--
				xs[i], xs[above] = xs[above], x
			default:
				i++
			}
		}
		if 2*(shorter+sum) >= total {
			xs = xs[:below]
			continue
		}
		shorter += sum + m[1]*int64(above-below)
		if 2*shorter >= total {
			return m[1]
		}
		xs = xs[above:]
	}
	slices.Sort(xs)
	for _, x := range xs {
		if shorter += x; 2*shorter >= total {
			return x
		}
	}
	return 0
}

// ClassAt returns the class of a goroutine at an instant; 0 for none.
func (a *Attribution) ClassAt(g timeline.GID, at timeline.Time) ClassID { return a.classAt(g, at) }

// SamplesIn returns how many CPU profile samples a goroutine has in [from, to].
func (a *Attribution) SamplesIn(g timeline.GID, from, to timeline.Time) int {
	return within(a.samples[g], from, to)
}

// within returns how many of the instants ts, in order, lie in [from, to].
func within(ts []timeline.Time, from, to timeline.Time) int {
	return sort.Search(len(ts), func(i int) bool { return ts[i] > to }) - sort.Search(len(ts), func(i int) bool { return ts[i] >= from })
}

// findSamples lists the samples of every goroutine, and those that read the clock, make
// room for more or sweep.
func (a *Attribution) findSamples() {
	for i, s := range a.t.Samples {
		a.samples[s.G] = append(a.samples[s.G], s.Time)
		a.sampled[s.G] = append(a.sampled[s.G], int32(i))
		switch {
		case a.sweeps(s.Stack):
			a.sweepings[s.G] = append(a.sweepings[s.G], s.Time)
		case a.readsClock(s.Stack):
			a.clocks[s.G] = append(a.clocks[s.G], s.Time)
		case a.grows(s.Stack):
			a.growths[s.G] = append(a.growths[s.G], s.Time)
		}
	}
	for _, by := range []map[timeline.GID][]timeline.Time{a.samples, a.clocks, a.growths, a.sweepings} {
		for _, ts := range by {
			slices.Sort(ts)
		}
	}
	for _, is := range a.sampled {
		slices.SortStableFunc(is, func(i, j int32) int { return cmp.Compare(a.t.Samples[i].Time, a.t.Samples[j].Time) })
	}
}

// NetworkHome reports whether the goroutines of a class wait for the network at
// home and carry no requests: they read the replies of outgoing connections.
func (a *Attribution) NetworkHome(class ClassID) bool {
	a.findHomes()
	return (a.networkHome[class] || multiplexed(a.Classes[class].Root)) && a.Classes[class].Endpoint < 0
}

// Serves reports whether goroutines of the class's root function work for
// requests: they carry them at other times, read outgoing connections, or are
// mostly started, by birth or from home, by goroutines that carry a request, which
// then wait for them.
func (a *Attribution) Serves(class ClassID) bool {
	a.findHomes()
	return a.serves[a.Classes[class].Root] || a.networkHome[class]
}

// Connects reports whether the goroutines of a class are born to connect to a peer, most
// of them for requests: what they compute is for that.
func (a *Attribution) Connects(class ClassID) bool {
	if is, known := a.connects[class]; known {
		return is
	}
	if a.connects == nil {
		a.connects = map[ClassID]bool{}
	}
	born, members := 0, 0
	if a.dials(a.Classes[class].Root) {
		for _, g := range a.Members(class) {
			if members++; a.bornForRequest(g) {
				born++
			}
		}
	}
	a.connects[class] = members > 0 && 2*born >= members
	return a.connects[class]
}

// Connecting reports whether a sample was taken of work on a connection that is made: a
// handshake, mostly.
func (a *Attribution) Connecting(s timeline.Sample) bool {
	return slices.ContainsFunc(a.t.Stacks.Frames(s.Stack), func(f gotrace.Frame) bool { return a.dials(f.Func) })
}

// maxBirths bounds how far back the births of a goroutine are followed to a request: a
// handshake is begun by a dial, a dial by a request, or by a dial that has ended.
const maxBirths = 8

// bornForRequest reports whether g, or who gave birth to it, was born of a goroutine
// that carried a request then.
func (a *Attribution) bornForRequest(g timeline.GID) bool {
	for range maxBirths {
		me := &a.t.Gs[g]
		if !me.Born || me.Creator == timeline.NoG {
			return false
		}
		if a.f.Entry(me.Creator) && a.f.RequestAt(me.Creator, me.Start()) >= 0 {
			return true
		}
		g = me.Creator
	}
	return false
}

// dials reports whether a function only connects.
func (a *Attribution) dials(root string) bool {
	for _, row := range sites {
		if row.kind == SiteDial && strings.HasPrefix(root, row.prefix) {
			return true
		}
	}
	return false
}

// WorkedFor returns the requests, by index in request.Found.Requests, for which goroutines of
// a class worked that carry none themselves: those in which they, or who gave birth to them,
// were born, those that woke them and those in which they ended a wait. ok is false for
// a class of which others carry requests, or read the replies to them: its work is theirs.
func (a *Attribution) WorkedFor(class ClassID) (requests map[int]bool, ok bool) {
	a.findHomes()
	members := a.Members(class)
	if a.networkHome[class] || slices.ContainsFunc(members, a.f.Entry) {
		return nil, false
	}
	requests = map[int]bool{}
	carried := func(g timeline.GID, at timeline.Time) bool {
		if g == timeline.NoG || !a.f.Entry(g) {
			return false
		}
		r := a.f.RequestAt(g, at)
		if r >= 0 {
			requests[r] = true
		}
		return r >= 0
	}
	for _, g := range members {
		me := &a.t.Gs[g]
		for by, n := me, 0; by.Born && by.Creator != timeline.NoG && n < maxBirths; by, n = &a.t.Gs[by.Creator], n+1 {
			if carried(by.Creator, by.Start()) {
				break
			}
		}
		for _, s := range me.Waits() {
			if s.Reason != timeline.ReasonGC {
				carried(s.Waker, s.End)
			}
		}
		for _, w := range me.Wakes() {
			if !w.Birth() && !a.collected(w.Whom(), w.Time) {
				carried(w.Whom(), w.Time)
			}
		}
	}
	return requests, true
}

// collected reports whether the wait of a goroutine that ended at an instant was for the
// garbage collector: who ends that did nothing for it.
func (a *Attribution) collected(g timeline.GID, end timeline.Time) bool {
	me := &a.t.Gs[g]
	i := me.SegmentAt(end)
	return i < me.Len() && me.Seg(i).Reason == timeline.ReasonGC
}

// Use returns the part of the time of all Ps, over the recording, in which they were not idle.
func (a *Attribution) Use() float64 {
	if a.busy > 0 {
		return a.busy
	}
	var busy, all timeline.Time
	for i := range a.t.Procs {
		for _, s := range a.t.Procs[i].Stints() {
			if s.What == timeline.Gone {
				continue
			}
			all += s.End - s.Start
			if !s.What.Free() {
				busy += s.End - s.Start
			}
		}
	}
	a.busy = float64(busy) / float64(max(1, all))
	return a.busy
}

// answeredRatio is how many waits of requests a class must end for each time that
// a request started it: with less, it is work that requests leave behind. Of n
// children of a fan-out only the last one ends a wait.
const answeredRatio = 0.1

func (a *Attribution) findHomes() {
	if a.networkHome != nil {
		return
	}
	a.networkHome, a.serves = map[ClassID]bool{}, map[string]bool{}
	type origin struct{ requests, others int }
	started := map[string]*origin{}
	ended := make([]int, len(a.t.Gs)) // waits of requests, by who ended them
	type child struct {
		of   timeline.GID
		root string
	}
	awaits := map[child]bool{} // those of which one, the last of them, ended a wait of who had started it for a request, or of who had started that one
	await := func(g, by timeline.GID) {
		var way [maxBirths]timeline.GID
		for i := range way {
			me := &a.t.Gs[by]
			if !me.Born || me.Creator == timeline.NoG {
				return
			}
			if way[i] = by; me.Creator == g {
				for _, h := range way[:i+1] {
					awaits[child{a.t.Gs[h].Creator, a.t.Gs[h].Root()}] = true
				}
				return
			}
			by = me.Creator
		}
	}
	carries := func(g timeline.GID, at timeline.Time) bool {
		return g != timeline.NoG && a.f.Entry(g) && a.f.RequestAt(g, at) >= 0
	}
	for g := range a.t.Gs {
		me := &a.t.Gs[g]
		entry := a.f.Entry(timeline.GID(g))
		if entry {
			a.serves[me.Root()] = true
		}
		o := started[me.Root()]
		if o == nil {
			o = &origin{}
			started[me.Root()] = o
		}
		if me.Born {
			if carries(me.Creator, me.Start()) {
				o.requests++
			} else {
				o.others++
			}
		}
		reads, home := false, false
		for _, s := range me.Waits() {
			home = home || s.Reason != timeline.ReasonNetwork && a.f.Returns(timeline.GID(g), s)
			if entry && s.Waker != timeline.NoG && s.Reason != timeline.ReasonGC && carries(timeline.GID(g), s.End) {
				ended[s.Waker]++
				await(timeline.GID(g), s.Waker)
			}
			if !a.f.Home(timeline.GID(g), s) {
				continue
			}
			reads = reads || s.Reason == timeline.ReasonNetwork
			switch {
			case s.End >= a.t.End:
			case carries(s.Waker, s.End):
				o.requests++
			default:
				o.others++
			}
		}
		if !entry && (reads || !home && a.onlyReads(timeline.GID(g))) {
			a.networkHome[a.classAt(timeline.GID(g), me.Start())] = true
		}
	}
	// So it is of those that these start and wait for, in the order in which they are born.
	for g := range a.t.Gs {
		me := &a.t.Gs[g]
		if !me.Born || me.Creator == timeline.NoG || a.f.Entry(timeline.GID(g)) || !awaits[child{me.Creator, me.Root()}] || !a.bornForRequest(timeline.GID(g)) {
			continue
		}
		if !carries(me.Creator, me.Start()) {
			o := started[me.Root()]
			o.others, o.requests = o.others-1, o.requests+1
		}
		for _, s := range me.Waits() {
			if s.Waker == timeline.NoG || s.Reason == timeline.ReasonGC {
				continue
			}
			if await(timeline.GID(g), s.Waker); awaits[child{a.t.Gs[s.Waker].Creator, a.t.Gs[s.Waker].Root()}] {
				ended[s.Waker]++
			}
		}
	}
	answered := map[string]int{}
	for g, n := range ended {
		if n > 0 {
			answered[a.t.Gs[g].Root()] += n
		}
	}
	for root, o := range started {
		if o.requests > o.others && float64(answered[root]) >= answeredRatio*float64(o.requests) {
			a.serves[root] = true
		}
	}
}

// leastReads is how often who only reads must have done so to be known for it.
const leastReads = 8

// onlyReads reports whether a goroutine that has no other home, for others wait for it most of the time, reads an outgoing connection
// that many use: it waits for the network above all, ends waits of others after that, and hardly ever writes. A worker that is
// never idle asks before it waits, for each whose wait it ends.
func (a *Attribution) onlyReads(g timeline.GID) bool {
	me := &a.t.Gs[g]
	if len(me.Wakes()) < leastReads || !a.reads(g) {
		return false
	}
	reads, writes := 0, 0
	for _, s := range me.Segs() {
		switch {
		case s.Kind == timeline.Waiting && s.Reason == timeline.ReasonNetwork:
			reads++
		case s.Kind == timeline.Syscall && a.Sites[a.siteOf(s.Stack)].Write:
			writes++
		}
	}
	return reads >= leastReads && leastReads*writes < len(me.Wakes())
}

// RootOf returns the root function of a class.
func (a *Attribution) RootOf(class ClassID) string { return a.Classes[class].Root }

// Root returns the root function of a goroutine.
func (a *Attribution) Root(g timeline.GID) string { return a.t.Gs[g].Root() }

// Members returns the goroutines with the root function of a class.
func (a *Attribution) Members(class ClassID) []timeline.GID {
	var out []timeline.GID
	root := a.Classes[class].Root
	for g := range a.t.Gs {
		if a.t.Gs[g].Root() == root && !a.t.Gs[g].Message {
			out = append(out, timeline.GID(g))
		}
	}
	return out
}
