package blame

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// The rules of attribution, one golden case each. With a guard switched off a
// case gives the wrong answer that the guard protects from.
func TestRules(t *testing.T) {
	for _, g := range timelinetest.Goldens(t, "testdata/rules") {
		t.Run(g.Name, func(t *testing.T) {
			want := sorted(strings.Split(g.Want, "\n"))
			if got := tell(t, g.Script, "", want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			for guard, wrong := range g.Without {
				wrong = sorted(strings.Split(wrong, "\n"))
				if got := tell(t, g.Script, guard, wrong); got != wrong {
					t.Errorf("with %s got\n%s\nwant\n%s", guard, got, wrong)
				}
				if wrong == want {
					t.Errorf("%s changes nothing", guard)
				}
			}
		})
	}
}

// sorted makes the order of lines meaningless.
func sorted(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestEveryGuardHasAGoldenCaseThatFailsWithoutIt(t *testing.T) {
	tested := map[string]bool{}
	for _, g := range timelinetest.Goldens(t, "testdata/rules") {
		for off := range g.Without {
			tested[off] = true
		}
	}
	for _, o := range []reflect.Type{reflect.TypeFor[Guards](), reflect.TypeFor[timeline.Options]()} {
		for i := range o.NumField() {
			if !tested[o.Field(i).Name] {
				t.Errorf("%s has none", o.Field(i).Name)
			}
		}
	}
}

// switches sets the one named field of guards or options.
func switches(t *testing.T, off string) (g Guards, o timeline.Options) {
	t.Helper()
	if off == "" {
		return g, o
	}
	f := reflect.ValueOf(&g).Elem().FieldByName(off)
	if !f.IsValid() {
		f = reflect.ValueOf(&o).Elem().FieldByName(off)
	}
	if !f.IsValid() {
		t.Fatalf("no guard %s", off)
	}
	f.SetBool(true)
	return g, o
}

// attribute runs a script's requests through Attribute and checks that they add up.
func attribute(t *testing.T, script, off string) (*timelinetest.Script, *Attribution) {
	t.Helper()
	guards, options := switches(t, off)
	s, tl := timelinetest.Read(t, script, options)
	a := Attribute(tl, found(t, s, tl), Options{Guards: guards, Watch: watched(t, s, tl)})
	sound(t, a)
	return s, a
}

// watched makes the script's off lines known; nil if there are none. Other processes
// have so many CPUs that the process has next to none.
func watched(t *testing.T, s *timelinetest.Script, tl *timeline.Timeline) *events.Recording {
	t.Helper()
	var out []events.Stretch
	for i, o := range s.Offs {
		next := tl.End
		for _, x := range s.Offs[i+1:] {
			if x.M == o.M {
				next = min(next, timeline.Time(x.Start))
			}
		}
		x := events.Stretch{TID: int(o.M), Out: int64(next), OnNS: int64(next) - int64(o.End), OffNS: int64(o.End - o.Start)}
		switch o.Why {
		case "queued":
			x.QueueNS, x.Flags = x.OffNS, events.Preempted
		case "told": // by the network, or the time, what it waited for
			x.QueueNS, x.NR = x.OffNS, 281
		case "stopped":
			x.QueueNS, x.Flags = x.OffNS, events.Throttled
		case "faulted":
			x.NR, x.Flags = -1, events.Uninterruptible
		case "blocked":
			x.Flags = events.Uninterruptible
		case "slept":
		default:
			t.Fatalf("off because of %s", o.Why)
		}
		if first := !slices.ContainsFunc(out, func(y events.Stretch) bool { return y.TID == x.TID }); first {
			out = append(out, events.Stretch{TID: x.TID, Out: int64(o.Start), OnNS: int64(o.Start) - int64(tl.Start)})
		}
		out = append(out, x)
	}
	if out == nil {
		return nil
	}
	return events.New(events.Header{CPUs: 1 << 40, Arch: "amd64"}, nil, out)
}

// found makes the script's request lines known.
func found(t *testing.T, s *timelinetest.Script, tl *timeline.Timeline) *request.Found {
	t.Helper()
	gid := func(id gotrace.GoID) timeline.GID {
		g, ok := tl.G(id)
		if !ok {
			t.Fatalf("no goroutine %d", id)
		}
		return g
	}
	var rs []request.Request
	var endpoints []string
	for _, r := range s.Requests {
		x := request.Request{InFlight: r.Open, Endpoint: slices.Index(endpoints, r.Name)}
		if x.Endpoint < 0 {
			x.Endpoint = len(endpoints)
			endpoints = append(endpoints, r.Name)
		}
		for _, p := range r.Parts {
			x.Parts = append(x.Parts, request.Part{G: gid(p.G), Start: p.Start, End: p.End})
		}
		me := &tl.Gs[x.Parts[0].G]
		if i := me.SegmentAt(x.Start()); i < me.Len() {
			w := me.Seg(i)
			x.ByNetwork = w.End == x.Start() && w.Reason == timeline.ReasonNetwork && w.Waker == timeline.NoG
		}
		rs = append(rs, x)
	}
	return request.Fixed(tl, rs, endpoints, func(g timeline.GID) gotrace.StackID { return s.Homes[tl.Gs[g].ID] })
}

// sound checks what must hold for every attribution.
func sound(t *testing.T, a *Attribution) {
	t.Helper()
	if c := a.Check(); c.WorstNS != 0 || c.Requests != len(a.Requests) {
		t.Errorf("leaves do not add up: %+v", c)
	}
	for i, r := range a.Requests {
		fanInsAreParts(t, &a.Requests[i])
		var sum int64
		for i, p := range r.Pieces {
			if sum += p.NS; p.NS <= 0 {
				t.Errorf("a piece of %d ns", p.NS)
			}
			if i > 0 && p.Key <= r.Pieces[i-1].Key {
				t.Error("pieces are not in order of keys")
			}
			if k := a.Keys[p.Key]; k.Kind >= leafKinds || int(k.Class) >= len(a.Classes) || int(k.Site) >= len(a.Sites) || int(k.Reason) >= len(a.Reasons) {
				t.Errorf("key %+v", k)
			}
		}
		if sum != r.D || r.D != int64(a.f.Requests[r.Request].Duration()) {
			t.Errorf("pieces add up to %d, the request took %d", sum, r.D)
		}
	}
}

var flagNames = []string{"self", "blind", "timed-out", "ahead", "lost-p", "silent", "birth", "due", "inbound", "clock"}

// tell renders the attribution of a script as far as want speaks of it.
func tell(t *testing.T, script, off, want string) string {
	t.Helper()
	s, a := attribute(t, script, off)
	asked := map[string]bool{}
	for line := range strings.Lines(want) {
		asked[strings.Fields(line)[0]] = true
	}
	var out []string
	if asked["population"] {
		p := a.Population(0)
		n, oldest := p.InFlight()
		out = append(out, fmt.Sprintf("population %d, %d in flight, oldest %v", p.Len(), n, time.Duration(oldest)))
	}
	for i, r := range a.Requests {
		name := a.f.Endpoints[a.f.Requests[r.Request].Endpoint]
		if asked["arrival"] {
			out = append(out, fmt.Sprintf("arrival %s %v", name, time.Duration(a.Arrival([]int{i}))))
		}
		if !asked[name] {
			continue
		}
		sums := map[string]int64{}
		for _, p := range r.Pieces {
			sums[leaf(s, a, a.Keys[p.Key])] += p.NS
		}
		for l, ns := range sums {
			out = append(out, fmt.Sprintf("%s %s %s", name, strings.ReplaceAll(time.Duration(ns).String(), "µ", "u"), l))
		}
	}
	return sorted(out)
}

// leaf renders a key without the way to it.
func leaf(s *timelinetest.Script, a *Attribution, k Key) string {
	text := k.Kind.String()
	if k.Reason != 0 {
		text += " (" + a.Reasons[k.Reason] + ")"
	}
	if k.Starter != timeline.Paced {
		text += [...]string{"", " (forced)", " (tracer)"}[k.Starter]
	}
	if k.Class != 0 {
		text += " by " + a.Classes[k.Class].Name
	}
	if k.Site != 0 {
		text += " at " + cmp.Or(s.Name(a.Sites[k.Site].Stack), a.Sites[k.Site].Func)
	}
	var flags []string
	for i, name := range flagNames {
		if k.Flags&(1<<i) != 0 {
			flags = append(flags, name)
		}
	}
	if k.Off != events.Unknown {
		flags = append(flags, k.Off.String())
	}
	if len(flags) > 0 {
		text += ", " + strings.Join(flags, " ")
	}
	return text
}
