package request

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// minAnnotated is how many finished tasks (or regions of one name) there must
// be for them to define the requests: fewer are something else, a start-up or a
// periodic job.
const minAnnotated = 50

// tracers are prefixes of functions of libraries for distributed tracing, which begin a task for each of their spans.
// Source: the named packages' own sources.
var tracers = []string{
	"go.opentelemetry.io/otel/sdk/trace.",
	"go.opencensus.io/trace.",
	"gopkg.in/DataDog/dd-trace-go.v1/ddtrace/",
	"github.com/DataDog/dd-trace-go/v2/ddtrace/",
}

// isSpan reports whether a task that begins at a stack was begun by such a library: a part of a request, of which the program says
// nothing.
func (d *finder) isSpan(stack gotrace.StackID) bool {
	return slices.ContainsFunc(d.t.Stacks.Frames(stack), func(f gotrace.Frame) bool {
		return slices.ContainsFunc(tracers, func(p string) bool { return strings.HasPrefix(f.Func, p) })
	})
}

// tasks returns those that may be requests. A span that lies within another one, or shares time with a request of a known
// server on its goroutine, is a part of a request.
func (d *finder) tasks() (out []timeline.Task) {
	var spans []timeline.Task
	known := map[gotrace.StackID]bool{}
	for _, t := range d.t.Tasks {
		span, ok := known[t.Stack]
		if !ok {
			span = d.isSpan(t.Stack)
			known[t.Stack] = span
		}
		if !span {
			out = append(out, t)
		} else if !t.Child {
			spans = append(spans, t)
		}
	}
	if len(spans) == 0 {
		return out
	}
	served := map[timeline.GID][]Part{}
	for i := range d.list {
		for _, p := range d.list[i].Parts {
			served[p.G] = append(served[p.G], p)
		}
	}
	for _, parts := range served {
		slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(a.Start, b.Start) })
	}
	for _, t := range spans {
		parts := served[t.G]
		i := sort.Search(len(parts), func(i int) bool { return parts[i].End > t.Start })
		if i == len(parts) || parts[i].Start >= t.End {
			out = append(out, t)
		}
	}
	return out
}

// annotations makes requests of tasks, or else of regions, and returns those
// that it used, and those of the part of the trace before, which began there.
func (d *finder) annotations() []timeline.Task {
	tasks := d.tasks()
	used, name := outermost(tasks, nil, false), "runtime/trace tasks"
	if finished(used) < minAnnotated { // they may all be within one of the program
		used = outermost(tasks, nil, true)
	}
	if finished(used) < minAnnotated {
		count := map[string]int{}
		for _, r := range d.t.Regions {
			if !r.Open && !r.Before {
				count[r.Name]++
			}
		}
		used, name = outermost(d.t.Regions, func(r *timeline.Task) bool { return count[r.Name] >= minAnnotated }, false), "runtime/trace regions"
		if finished(used) < minAnnotated {
			return nil
		}
	}
	role := d.roleOf(name, Annotated, "", keyNone)
	over := d.handovers(used)
	for i, t := range used {
		if t.Before {
			continue
		}
		parts := []Part{{t.G, t.Start, t.End}}
		if elsewhere(t) {
			parts = d.way(t, over)
		}
		last := parts[len(parts)-1]
		e := d.examine(last.G, d.segmentFrom(last.G, last.Start), last.Start, last.End)
		used[i].G, used[i].Start = last.G, last.Start // what of it no other request may have
		n := len(d.list)
		d.add(role, Request{Parts: d.parts(parts...), InFlight: t.Open}, e)
		if len(d.list) > n {
			d.list[n].endpoint, d.list[n].poll = t.Name, false
		}
	}
	slices.SortStableFunc(used, func(a, b timeline.Task) int { return cmp.Or(cmp.Compare(a.G, b.G), cmp.Compare(a.Start, b.Start)) })
	return used
}

// elsewhere reports whether a task was ended by another goroutine than began it.
func elsewhere(t timeline.Task) bool { return !t.Open && t.Last != timeline.NoG && t.Last != t.G }

// handovers are tasks that some goroutines begin and others end: when each goroutine began one, and ended one, in order.
type handovers struct {
	begun, ended map[timeline.GID][]timeline.Time
}

// handovers returns those of the tasks, nil if whoever begins one ends it.
func (d *finder) handovers(ts []timeline.Task) *handovers {
	if !slices.ContainsFunc(ts, elsewhere) {
		return nil
	}
	h := &handovers{map[timeline.GID][]timeline.Time{}, map[timeline.GID][]timeline.Time{}}
	for _, t := range ts {
		h.begun[t.G] = append(h.begun[t.G], t.Start)
		if !t.Open && t.Last != timeline.NoG {
			h.ended[t.Last] = append(h.ended[t.Last], t.End)
		}
	}
	for _, times := range h.ended {
		slices.Sort(times)
	}
	for _, times := range h.begun {
		slices.Sort(times)
	}
	return h
}

// maxWay bounds the pieces of a goroutine's life that are looked at for where it hands a task over, or takes it.
const maxWay = 1000

// way returns the parts of a task that another goroutine ends: of who began it, until it has handed it over; of a queue,
// if nobody took it at once; and of who ends it, from when it had ended the one before, was born, or was woken for this one.
// When it was handed over is known if who began it woke the other one, or gave birth to it; else it has been when that
// waits for something other than room in a channel, or begins the next one.
func (d *finder) way(t timeline.Task, h *handovers) (parts []Part) {
	me, by := &d.t.Gs[t.Last], &d.t.Gs[t.G]
	from, known := t.Start, false
	if me.Born && me.Start() > from {
		from, known = me.Start(), me.Creator == t.G || me.Creator == timeline.NoG
	}
	ended := h.ended[t.Last]
	if i, _ := slices.BinarySearch(ended, t.End); i > 0 && ended[i-1] > from {
		from, known = ended[i-1], false
	}
	for i, n := me.SegmentAt(from+1), 0; i < me.Len() && n < maxWay; i, n = i+1, n+1 {
		s := me.Seg(i)
		if s.Start >= t.End {
			break
		}
		if s.Kind == timeline.Waiting {
			if s.End < t.End && (s.Start <= from || s.Waker == t.G) {
				from, known = s.End, s.Waker == t.G
			}
			break
		}
	}
	if me.Len() == 0 || from >= t.End {
		return []Part{{t.G, t.Start, t.End}}
	}
	handed := from
	if !known {
		begun := h.begun[t.G]
		if i, _ := slices.BinarySearch(begun, t.Start+1); i < len(begun) {
			handed = min(handed, begun[i])
		}
		handed = min(handed, max(by.End(), t.Start))
		for i, n := by.SegmentAt(t.Start+1), 0; i < by.Len() && n < maxWay; i, n = i+1, n+1 {
			s := by.Seg(i)
			if s.Start >= handed {
				break
			}
			if s.Kind == timeline.Waiting && s.Start > t.Start && s.Reason != timeline.ReasonChanSend {
				handed = s.Start
				break
			}
		}
	}
	if handed > t.Start {
		parts = append(parts, Part{t.G, t.Start, handed})
	}
	if from > handed {
		parts = append(parts, Part{d.t.Await(t.G, t.Last, t.Stack, handed, from), handed, from})
	}
	return append(parts, Part{t.Last, from, t.End})
}

func finished(ts []timeline.Task) (n int) {
	for i := range ts {
		if !ts[i].Open && !ts[i].Before {
			n++
		}
	}
	return n
}

// outermost returns the tasks that lie in no other one of their goroutine, by
// goroutine and start. Those that another goroutine ends lie in none, unless they were begun within one and children are not asked for.
func outermost(in []timeline.Task, keep func(*timeline.Task) bool, children bool) (out []timeline.Task) {
	ts := make([]timeline.Task, 0, len(in))
	for i := range in {
		if in[i].G >= 0 && (keep == nil || keep(&in[i])) {
			ts = append(ts, in[i])
		}
	}
	sort.SliceStable(ts, func(i, j int) bool {
		if ts[i].G != ts[j].G {
			return ts[i].G < ts[j].G
		}
		return ts[i].Start < ts[j].Start || ts[i].Start == ts[j].Start && ts[i].End > ts[j].End
	})
	last := -1
	for _, t := range ts {
		switch {
		case elsewhere(t):
			if t.Child && !children {
				continue
			}
		case last >= 0 && out[last].G == t.G && t.End <= out[last].End:
			continue
		default:
			last = len(out)
		}
		out = append(out, t)
	}
	return out
}

// dropOverlapping drops the requests found otherwise that share time with an
// annotated one on the same goroutine.
func (d *finder) dropOverlapping(tasks []timeline.Task) {
	if len(tasks) == 0 {
		return
	}
	for i := range d.list {
		r := &d.list[i]
		if d.role[r.Role].Shape == Annotated {
			continue
		}
		for _, p := range r.Parts {
			k := sort.Search(len(tasks), func(k int) bool {
				return tasks[k].G > p.G || tasks[k].G == p.G && tasks[k].End > p.Start
			})
			if k < len(tasks) && tasks[k].G == p.G && tasks[k].Start < p.End {
				r.dropped = true
				break
			}
		}
	}
}

// roleFunction is the role of calls of a function that the user names, or that does all the work.
const roleFunction = "function"

// byCalls makes requests of the calls of a function that began while the trace ran. Of two
// that lie in each other, which cannot be, the later one is none.
// Their endpoints are the functions.
func (d *finder) byCalls(calls []events.Call, functions []string) {
	role := d.roleOf(roleFunction, Function, "", keyNone)
	calls = slices.Clone(calls)
	slices.SortStableFunc(calls, func(a, b events.Call) int {
		return cmp.Or(cmp.Compare(a.Goroutine, b.Goroutine), cmp.Compare(a.From, b.From))
	})
	var last events.Call
	for _, c := range calls {
		if c.Goroutine == last.Goroutine && c.From < last.To {
			continue
		}
		g, ok := d.t.G(gotrace.GoID(c.Goroutine))
		if !ok || d.h.of[g] == nil {
			continue
		}
		gr := &d.t.Gs[g]
		from, to, open := timeline.Time(c.From), timeline.Time(c.To), c.Open
		if end := min(gr.End(), d.t.End); to > end { // or it panicked, and its goroutine ended
			to, open = end, !gr.Died
		}
		if from < max(gr.Start(), d.t.Start) || from >= to {
			continue
		}
		last = c
		seg := gr.SegmentAt(from + 1)
		d.carried[g] = true
		n := len(d.list)
		d.add(role, Request{Parts: d.parts(Part{g, from, to}), InFlight: open}, d.examine(g, seg, from, to))
		if len(d.list) > n && c.Func < len(functions) {
			d.list[n].endpoint, d.list[n].poll = functions[c.Func], false
		}
	}
}

// byFunction makes requests of the intervals in which a function that the user
// named is on the stack at every blocking event.
func (d *finder) byFunction() {
	role := d.roleOf(roleFunction, Function, "", keyNone)
	for i := range d.t.Gs {
		if d.h.of[i] != nil {
			d.named(timeline.GID(i), role)
		}
	}
}

func (d *finder) named(g timeline.GID, role int) {
	gr := &d.t.Gs[g]
	put := func(seg int, from, to timeline.Time, open, net bool) {
		d.carried[g] = true
		d.add(role, Request{Parts: d.parts(Part{g, from, to}), InFlight: open, ByNetwork: net}, d.examine(g, seg, from, to))
	}
	if d.c.re.MatchString(gr.Root()) { // all of it, whatever happened
		if gr.Born && gr.Len() > 0 {
			put(0, gr.Start(), gr.End(), !gr.Died, false)
		}
		return
	}
	inside, known, net := false, gr.Born, false
	from, seg := gr.Start(), 0
	for i, s := range gr.Segs() {
		if s.Stack == 0 || s.Kind == timeline.Running {
			continue
		}
		if d.c.of(s.Stack).flags&named != 0 {
			inside = true
			continue
		}
		if inside && known {
			put(seg, from, s.Start, false, net)
		}
		inside, known, from, seg, net = false, true, s.End, i+1, byNetwork(s)
	}
	if inside && known {
		put(seg, from, gr.End(), !gr.Died, net)
	}
}
