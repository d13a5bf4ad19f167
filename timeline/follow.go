package timeline

import (
	"maps"
	"slices"
	"strings"

	"github.com/whylate/whylate/gotrace"
)

// follow returns a builder of what comes from an instant on, which is not before anything that b
// has seen. It knows the states of goroutines, Ps and the collector, as the beginning of a generation
// would tell them, where and why goroutines wait, and what tasks and regions are open: they are b's, but
// others may lie in them. What it does not know is for how long all that has been.
func (b *builder) follow(at Time) *builder {
	f := newBuilder(b.t.Stacks, b.t.Version, b.o)
	f.started, f.last = true, at
	f.t.Start, f.t.Wall, f.t.WallAt = at, b.t.Wall, b.t.WallAt
	f.t.roots, f.wraps = slices.Clone(b.t.roots), slices.Clone(b.wraps)
	f.rootIDs, f.wrapped, f.semaphores = maps.Clone(b.rootIDs), maps.Clone(b.wrapped), maps.Clone(b.semaphores)
	f.heap.size, f.stopped = b.heap.size, b.stopped
	if n := len(b.resizes); n > 0 {
		f.resized(at, b.resizes[n-1].procs)
	}
	now := b.followGoroutines(f, at)
	index := func(g GID) GID {
		if g == NoG {
			return NoG
		}
		return now[g]
	}
	for _, p := range b.procs {
		if p == nil {
			continue
		}
		q := f.p(p.proc.ID)
		q.g, q.what, q.leftBy, q.left, q.unused = index(p.g), p.what, p.leftBy, p.left, p.unused
		if p.parked == never {
			q.parked = never
		}
		if n := len(p.proc.Threads); n > 0 {
			q.had(p.proc.Threads[n-1].M, at)
		}
	}
	b.followAnnotations(f, at, index)
	for key, s := range b.open {
		if key.scope == gotrace.ScopeGo {
			g := index(GID(key.id))
			if g == NoG { // it is gone, and cannot end it
				continue
			}
			key.id = int64(g)
		}
		s.Start, s.G, s.heap = at, index(s.G), 0
		f.open[key] = s
		if strings.HasPrefix(key.name, "stop-the-world") {
			f.stopping++
		}
	}
	return f
}

// followGoroutines gives f the goroutines that are alive, and returns what their indices are there,
// NoG of others.
func (b *builder) followGoroutines(f *builder, at Time) []GID {
	now := make([]GID, b.n)
	for g := range GID(b.n) {
		now[g] = NoG
		me := b.at(g)
		if me.state == 0 || !b.states[me.state].exists {
			continue
		}
		c := b.states[me.state]
		now[g] = f.find(me.ID)
		it := f.at(now[g])
		it.root, it.System, it.Observer = me.root, me.System, me.Observer
		d := f.state(now[g])
		d.kind, d.exists, d.since, d.stack, d.reason, d.p, d.label = c.kind, true, at, c.stack, c.reason, c.p, c.label
		if c.assist != 0 {
			d.assist = at
		}
		if c.kind == Running && c.on != nil {
			f.threads[c.on.id] = &thread{id: c.on.id, g: NoG}
		}
		f.count(d, +1, at)
	}
	return now
}

// followAnnotations gives f the tasks and regions that are open.
func (b *builder) followAnnotations(f *builder, at Time, index func(GID) GID) {
	for id, t := range b.tasks {
		f.tasks[id] = &Task{Name: t.Name, G: index(t.G), Start: at, Stack: t.Stack, Child: t.Child, Before: true}
	}
	for g, r := range b.regions {
		if g = index(g); g == NoG || r.depth == 0 {
			continue
		}
		if f.regions == nil {
			f.regions = map[GID]*regionState{}
		}
		f.regions[g] = &regionState{r.depth, Task{Name: r.task.Name, G: g, Start: at, Before: true}}
	}
}
