package blame

import (
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

type classKey struct {
	root     string
	endpoint int
}

// maxClasses bounds the classes, and with them the cost of a snapshot; what
// comes later shares the last one.
const maxClasses = 1024

// classAt returns the class of goroutine g at an instant.
func (a *Attribution) classAt(g timeline.GID, at timeline.Time) ClassID {
	if g == timeline.NoG {
		return 0
	}
	endpoint := -1
	if a.f.Entry(g) {
		if r := a.f.RequestAt(g, at); r >= 0 {
			endpoint = a.f.Requests[r].Endpoint
		}
	}
	return a.classByRoot(a.t.Gs[g].Root(), endpoint, g)
}

// classByRoot returns the class of a root function and an endpoint; g is one of
// its goroutines.
func (a *Attribution) classByRoot(root string, endpoint int, g timeline.GID) ClassID {
	me := &a.t.Gs[g]
	k := classKey{root, endpoint}
	if id, ok := a.classByKey[k]; ok {
		return id
	}
	if len(a.Classes) >= maxClasses {
		return ClassID(maxClasses - 1)
	}
	id := ClassID(len(a.Classes))
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
	a.classByKey[k] = id
	return id
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

// findClasses makes every class there is, so that their number is known.
func (a *Attribution) findClasses() {
	for g := range a.t.Gs {
		a.classByRoot(a.t.Gs[g].Root(), -1, timeline.GID(g))
	}
	for i := range a.f.Requests {
		for _, p := range a.f.Requests[i].Parts {
			a.classAt(p.G, p.Start)
			a.classByRoot(a.t.Gs[p.G].Root(), a.f.Requests[i].Endpoint, p.G)
		}
	}
}

// classStats fills Members, Ran, Burst and Samples of every class.
func (a *Attribution) classStats() {
	bursts := make(map[ClassID][]int64)
	for g := range a.t.Gs {
		me := &a.t.Gs[g]
		seen := ClassID(0)
		var run int64
		var at timeline.Time
		flush := func() {
			if run == 0 {
				return
			}
			c := a.classAt(timeline.GID(g), at)
			a.Classes[c].Ran += run
			bursts[c] = append(bursts[c], run)
			if c != seen {
				a.Classes[c].Members++
				seen = c
			}
			run = 0
		}
		for _, s := range me.Segs() {
			switch s.Kind {
			case timeline.Running:
				if run == 0 {
					at = s.Start
				}
				run += int64(s.End - s.Start)
			case timeline.Waiting:
				flush()
			}
		}
		flush()
	}
	for c, b := range bursts {
		a.Classes[c].Burst, a.Classes[c].Bursts = weightedMedian(b), len(b)
	}
	for _, s := range a.t.Samples {
		a.Classes[a.classAt(s.G, s.Time)].Samples++
	}
}

// weightedMedian returns the length x for which half of the total length lies in
// elements not longer than x.
func weightedMedian(xs []int64) int64 {
	sort.Slice(xs, func(i, j int) bool { return xs[i] < xs[j] })
	var total, sum int64
	for _, x := range xs {
		total += x
	}
	for _, x := range xs {
		if sum += x; 2*sum >= total {
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

// findSamples lists the samples of every goroutine, and those that read the clock or
// make room for more.
func (a *Attribution) findSamples() {
	for _, s := range a.t.Samples {
		a.samples[s.G] = append(a.samples[s.G], s.Time)
		if a.readsClock(s.Stack) {
			a.clocks[s.G] = append(a.clocks[s.G], s.Time)
		} else if a.grows(s.Stack) {
			a.growths[s.G] = append(a.growths[s.G], s.Time)
		}
	}
	for _, by := range []map[timeline.GID][]timeline.Time{a.samples, a.clocks, a.growths} {
		for _, ts := range by {
			slices.Sort(ts)
		}
	}
}

// NetworkHome reports whether the goroutines of a class wait for the network at
// home and carry no requests: they read the replies of outgoing connections.
func (a *Attribution) NetworkHome(class ClassID) bool {
	a.findHomes()
	return a.networkHome[class] && a.Classes[class].Endpoint < 0
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
	answered := map[string]int{}
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
		for _, s := range me.Segs() {
			if entry && s.Kind == timeline.Waiting && s.Waker != timeline.NoG && carries(timeline.GID(g), s.End) {
				answered[a.t.Gs[s.Waker].Root()]++
			}
			if s.Kind == timeline.Waiting && s.End < a.t.End && a.f.Home(timeline.GID(g), s) {
				if carries(s.Waker, s.End) {
					o.requests++
				} else {
					o.others++
				}
			}
			if !entry && s.Kind == timeline.Waiting && s.Reason == timeline.ReasonNetwork && a.f.Home(timeline.GID(g), s) {
				a.networkHome[a.classAt(timeline.GID(g), s.Start)] = true
			}
		}
	}
	for root, o := range started {
		if o.requests > o.others && float64(answered[root]) >= answeredRatio*float64(o.requests) {
			a.serves[root] = true
		}
	}
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
		if a.t.Gs[g].Root() == root {
			out = append(out, timeline.GID(g))
		}
	}
	return out
}
