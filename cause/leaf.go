package cause

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// leafName is a column that is no cause.
type leafName struct {
	text  string
	where *Place
	key   blame.Key
}

// mostAt says where more than half of the excess went of which no cause of the catalogue
// speaks, and to what: "" if there is no such place. names are of columns, the leaves from the
// first on; those of the place get its line.
func (c *Case) mostAt(names []leafName, columns []blame.Share, first int) string {
	type place struct {
		kind blame.LeafKind
		site blame.SiteID
	}
	at := func(k blame.Key) place { return place{k.Kind, k.Site} }
	of := "what slow requests take longer"
	if c.P.Whole {
		of = "the time of slow requests"
	}
	stopped := 0.0
	for i := first; i < len(names); i++ {
		if names[i].key.Kind == blame.Suspended {
			stopped += columns[i].Share
		}
	}
	if stopped > ExplainedShare {
		return fmt.Sprintf("%s of %s passed while %s", Pct(min(1, stopped)), of, Suspended)
	}
	sums := map[place]float64{}
	for i := first; i < len(names); i++ {
		if k := names[i].key; k.Site != 0 && !wants(k) {
			sums[at(k)] += columns[i].Share
		}
	}
	most := first
	for i := first; i < len(names); i++ {
		if k := names[i].key; k.Site != 0 && !wants(k) && sums[at(k)] > sums[at(names[most].key)] {
			most = i
		}
	}
	if most >= len(names) || sums[at(names[most].key)] <= ExplainedShare {
		return ""
	}
	p := at(names[most].key)
	for i := first; i < len(names); i++ { // its largest part says whose it is
		if k := names[i].key; at(k) == p && !wants(k) && columns[i].Share > columns[most].Share {
			most = i
		}
	}
	who, where := c.leafPhrase(names[most].key)
	for i := first; i < len(names); i++ {
		if at(names[i].key) == p && where != nil {
			names[i].where = where
		}
	}
	return fmt.Sprintf("%s of %s is %s", Pct(sums[p]), of, who)
}

// leafPhrases say what somebody does in a leaf at a place.
var leafPhrases = map[blame.LeafKind]string{
	blame.Syscall: "in a system call", blame.Cgo: "in C code", blame.Network: "waiting for the network", blame.Timer: "waiting for a timer",
	blame.GCWait: "waiting for the garbage collector", blame.Awaited: "in a wait that a deadline or a cancellation ended",
	blame.Open: "in a wait that had not ended when the recording did",
}

// leafPhrase describes a leaf at a place for a sentence: who, what, by which call and where.
func (c *Case) leafPhrase(k blame.Key) (phrase string, where *Place) {
	who := c.ClassName(k.Class)
	if k.Flags&blame.Self != 0 {
		who = "the request itself"
	}
	doing := leafPhrases[k.Kind]
	if doing == "" {
		doing = "in " + k.Kind.String()
	}
	frames := c.A.Timeline().Stacks.Frames(c.longestAt(k))
	call := ""
	switch {
	case k.Kind == blame.Cgo:
		call = c.A.Sites[k.Site].C
	case k.Kind == blame.Syscall:
		call = systemCall(frames)
	}
	if call != "" {
		doing += ", " + shortName(call) + ","
	}
	at := shortName(c.A.Sites[k.Site].Func)
	if f, ok := request.AppFrame(frames); ok {
		where = &Place{Function: f.Func, File: f.File, Line: f.Line}
		at = fmt.Sprintf("%s (%s:%d)", shortName(f.Func), path.Base(f.File), f.Line)
	}
	return fmt.Sprintf("%s %s in %s", who, doing, at), where
}

// longestAt is the stack on which slow requests, or all goroutines meanwhile if a key is of
// others, stood longest at a key's site: its lines of the program are taken together.
func (c *Case) longestAt(k blame.Key) gotrace.StackID {
	site := c.A.Sites[k.Site].Stack
	here := func(s timeline.Segment) bool { return s.Stack != 0 && c.A.SiteOf(s.Stack).Stack == site }
	var parts []timeline.Span
	for _, i := range c.Tail {
		for _, p := range c.A.Found().Requests[c.A.Requests[i].Request].Parts {
			parts = append(parts, timeline.Span{Start: p.Start, End: p.End, G: p.G})
		}
	}
	stood := c.stoodMeanwhile
	if k.Flags&blame.Self != 0 {
		stood = c.stoodIn
	}
	ns := stood(parts, here)
	longest := site
	for s, d := range ns {
		if d > ns[longest] || d == ns[longest] && s < longest {
			longest = s
		}
	}
	return longest
}

// stoodIn is how long goroutines stood on each stack in parts of requests, where here says so.
func (c *Case) stoodIn(parts []timeline.Span, here func(timeline.Segment) bool) map[gotrace.StackID]timeline.Time {
	ns := map[gotrace.StackID]timeline.Time{}
	for _, p := range parts {
		me := &c.A.Timeline().Gs[p.G]
		for _, s := range me.SegsFrom(me.SegmentNear(p.Start, 0)) {
			if s.Start >= p.End {
				break
			}
			if here(s) {
				ns[s.Stack] += max(0, min(s.End, p.End)-max(s.Start, p.Start))
			}
		}
	}
	return ns
}

// stoodMeanwhile is stoodIn of all goroutines that were blocked while there was any of the parts,
// which it puts in order.
func (c *Case) stoodMeanwhile(parts []timeline.Span, here func(timeline.Segment) bool) map[gotrace.StackID]timeline.Time {
	slices.SortFunc(parts, func(x, y timeline.Span) int { return cmp.Compare(x.Start, y.Start) })
	meanwhile := parts[:0]
	for _, p := range parts {
		if n := len(meanwhile); n > 0 && p.Start <= meanwhile[n-1].End {
			meanwhile[n-1].End = max(meanwhile[n-1].End, p.End)
		} else {
			meanwhile = append(meanwhile, p)
		}
	}
	t, ns := c.A.Timeline(), map[gotrace.StackID]timeline.Time{}
	for g := range t.Gs {
		if t.Gs[g].Len() < 2 { // it never did anything
			continue
		}
		for _, s := range t.Gs[g].Blocked() {
			if here(s) {
				ns[s.Stack] += timeline.Overlap(meanwhile, s.Start, s.End)
			}
		}
	}
	return ns
}

// systemCall is the function by which a stack makes its system call: the outermost of the packages
// that have one for each of them, "" if none of those is on the stack.
func systemCall(frames []gotrace.Frame) (call string) {
	own, _ := request.AppFrame(frames)
	for _, f := range frames {
		if f == own {
			break
		}
		for _, of := range []string{"syscall.", "golang.org/x/sys/unix.", "internal/syscall/unix."} {
			if strings.HasPrefix(f.Func, of) {
				call = f.Func
			}
		}
	}
	return call
}

// Claimed returns what the findings of a contrast, and the sets of causes that fit, claim:
// the id of a cause by key, or the ids of several with "|" between them.
func (v *Verdict) Claimed(contrast string) map[blame.KeyID]string {
	by := map[blame.KeyID]string{}
	for i := range v.Findings {
		if f := &v.Findings[i]; f.Contrast == contrast {
			for _, k := range f.keys {
				by[k] = f.Cause
			}
		}
	}
	for i := range v.Consistent {
		if x := &v.Consistent[i]; x.Contrast == contrast {
			for _, k := range x.keys {
				by[k] = strings.Join(x.Causes, "|")
			}
		}
	}
	return by
}

// LeafText describes what pieces of a key are: of whom, and where.
func LeafText(a *blame.Attribution, k blame.Key) string { return (&Case{A: a}).leafText(k) }

// columns gives every key its column: the outcomes', then one for what is
// unresolved, then one per leaf.
func (c *Case) columns(outcomes []outcome) (blame.Columns, []leafName) {
	cols := make(blame.Columns, len(c.A.Keys))
	for i := range cols {
		cols[i] = -1
	}
	names := make([]leafName, len(outcomes)+1)
	for i, o := range outcomes {
		for _, k := range o.j.Keys {
			cols[k] = i
		}
	}
	byName := map[leafKey]int{}
	for i, k := range c.A.Keys {
		switch {
		case cols[i] >= 0:
			continue
		case k.Kind == blame.Unresolved || k.Kind == blame.UnknownHolder:
			cols[i] = len(outcomes)
			continue
		}
		key := leafKey{k.Kind, k.Class, k.Site, k.Flags & blame.Self, k.Off}
		if wants(k) {
			key = leafKey{off: k.Off}
		}
		n, ok := byName[key]
		if !ok {
			n = len(names)
			byName[key] = n
			names = append(names, leafName{c.leafText(k), c.PlaceOf(k.Site), k})
		}
		cols[i] = n
	}
	return cols, names
}

type leafKey struct {
	kind  blame.LeafKind
	class blame.ClassID
	site  blame.SiteID
	flags blame.Flags
	off   events.State
}

// offNames say who had the CPU that a thread wanted.
var offNames = map[events.State]string{events.Queued: "others had it", events.Crowded: "the process's own threads had it", events.Stopped: "the quota was used up", events.Robbed: "the hypervisor had it",
	events.Observed: "who recorded had it"}

// leafOnCPU describes a leaf whatever the thread did: of a baseline that may not be known.
func (c *Case) leafOnCPU(k blame.Key) string {
	k.Off = events.Unknown
	return c.leafText(k)
}

// Suspended is what no cause of the catalogue speaks of, and nobody looks for in a program.
const Suspended = "the whole process was made to stop from outside (by SIGSTOP, a frozen cgroup or a debugger)"

// leafText describes a leaf for the list of unnamed ones.
func (c *Case) leafText(k blame.Key) string {
	who := c.ClassName(k.Class)
	if k.Flags&blame.Self != 0 {
		who = "the request itself"
	}
	switch {
	case wants(k):
		return "wanting a CPU: " + offNames[k.Off]
	case k.Off == events.Faulted:
		return "waiting for a page: " + who
	}
	switch k.Kind {
	case blame.CPU:
		return "running: " + who
	case blame.Behind:
		return "waiting for a P behind " + c.ClassName(k.Class)
	case blame.STW:
		return "stop-the-world (" + c.A.Reasons[k.Reason] + ")"
	case blame.LateWakeup:
		return "ready to run with an idle P: the thread was late"
	case blame.Suspended:
		return Suspended
	}
	if k.Site != 0 {
		return fmt.Sprintf("%s in %s, by %s", k.Kind, shortName(c.A.Sites[k.Site].Func), who)
	}
	return fmt.Sprintf("%s, by %s", k.Kind, who)
}

// Opens reports whether a call at a site opens a file, or makes one.
func (c *Case) Opens(site blame.SiteID) bool {
	return slices.ContainsFunc(c.A.Timeline().Stacks.Frames(c.A.Sites[site].Stack), func(f gotrace.Frame) bool {
		return f.Func == "os.OpenFile" || f.Func == "os.openFileNolog" || f.Func == "os.CreateTemp"
	})
}
