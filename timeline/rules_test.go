package timeline_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// The rules by which a timeline is built, one golden case each.
func TestRules(t *testing.T) {
	for _, g := range timelinetest.Goldens(t, "testdata/rules") {
		t.Run(g.Name, func(t *testing.T) {
			s, tl := timelinetest.Read(t, g.Script, timeline.Options{})
			if got := tell(s, tl, g.Want); got != g.Want {
				t.Errorf("got\n%s\nwant\n%s", got, g.Want)
			}
			for off, want := range g.Without {
				var o timeline.Options
				reflect.ValueOf(&o).Elem().FieldByName(off).SetBool(true)
				s, tl := timelinetest.Read(t, g.Script, o)
				if got := tell(s, tl, want); got != want {
					t.Errorf("with %s got\n%s\nwant\n%s", off, got, want)
				}
				if want == g.Want {
					t.Errorf("%s changes nothing", off)
				}
			}
		})
	}
}

// Every option has a golden case that fails when it is switched.
func TestEveryOptionHasAGoldenCase(t *testing.T) {
	tested := map[string]bool{}
	for _, g := range timelinetest.Goldens(t, "testdata/rules") {
		for off := range g.Without {
			tested[off] = true
		}
	}
	o := reflect.TypeFor[timeline.Options]()
	for i := range o.NumField() {
		if !tested[o.Field(i).Name] {
			t.Errorf("%s has none", o.Field(i).Name)
		}
	}
}

// tell renders the timeline, as far as want speaks of it: line by line, of the
// subjects (first words) that it has.
func tell(s *timelinetest.Script, tl *timeline.Timeline, want string) string {
	asked := map[string]bool{}
	for line := range strings.Lines(want) {
		asked[strings.Fields(line)[0]] = true
	}
	var out []string
	say := func(subject, format string, args ...any) {
		if asked[subject] {
			out = append(out, strings.TrimSpace(subject+" "+fmt.Sprintf(format, args...)))
		}
	}
	at := func(x timeline.Time) string { return time.Duration(x - timelinetest.Epoch).String() }
	span := func(a, b timeline.Time) string { return at(a) + "-" + at(b) }
	place := func(id gotrace.StackID) string {
		if n := s.Name(id); n != "" {
			return " at " + n
		}
		return ""
	}
	id := func(g timeline.GID) string { return fmt.Sprintf("g%d", tl.Gs[g].ID) }
	// In the order in which want first speaks of them.
	parts := map[string]func(){
		"idle": func() {
			for _, x := range tl.IdleSpans() {
				say("idle", "%s", span(x.Start, x.End))
			}
		},
		"silence": func() {
			for _, x := range tl.Silences {
				say("silence", "%s %s", span(x.Start, x.End), x.Name)
			}
		},
		"stw": func() {
			for _, x := range tl.STW {
				by := ""
				if x.G != timeline.NoG {
					by = " by " + id(x.G)
				}
				say("stw", "%s %s%s%s", span(x.Start, x.End), x.Name, by, place(x.Stack))
			}
		},
		"gc": func() {
			for _, x := range tl.GC {
				say("gc", "%s %s", span(x.Start, x.End), x.Name)
			}
		},
		"cycle": func() {
			for _, x := range tl.Cycles {
				by := ""
				if x.G != timeline.NoG {
					by = " by " + id(x.G)
				}
				say("cycle", "%s %s%s%s %d %d %d", span(x.Start, x.End), [...]string{"paced", "forced", "tracer"}[x.Starter], by, place(x.Stack), x.Before, x.Live, x.Goal)
			}
		},
		"stopped": func() {
			for _, x := range tl.STW {
				say("stopped", "%s", at(x.Stopped))
			}
		},
		"passed": func() {
			for g := range tl.Gs {
				for _, x := range tl.Gs[g].Segs() {
					if x.Kind != timeline.Runnable {
						continue
					}
					for c, d := range tl.Kept(x.P, x.Start, x.End) {
						say("passed", "%s %s by p%d in a call of %s for %v", id(timeline.GID(g)), span(x.Start, x.End), x.P, id(c.G), time.Duration(d))
					}
					if d := tl.Passed(x.P, x.Start, x.End); d > 0 {
						say("passed", "%s %s by p%d for %v", id(timeline.GID(g)), span(x.Start, x.End), x.P, time.Duration(d))
					}
				}
			}
		},
		"poll": func() {
			for _, x := range tl.Polls {
				say("poll", "%s", at(x))
			}
		},
		"wake": func() {
			for g := range tl.Gs {
				for _, w := range tl.Gs[g].Wakes() {
					birth := ""
					if w.Birth() {
						birth = " birth"
					}
					say("wake", "%s %s %s%s", id(timeline.GID(g)), at(w.Time), id(w.Whom()), birth)
				}
			}
		},
		"assist": func() {
			for g := range tl.Gs {
				for _, x := range tl.Assists(timeline.GID(g)) {
					say("assist", "%s %s", id(timeline.GID(g)), span(x.Start, x.End))
				}
			}
		},
		"task": func() {
			for _, x := range tl.Tasks {
				open := ""
				if x.Open {
					open = "open"
				}
				say("task", "%s %s %s %s", x.Name, id(x.G), span(x.Start, x.End), open)
			}
		},
		"root": func() {
			for g := range tl.Gs {
				text := id(timeline.GID(g)) + " " + tl.Gs[g].Root()
				if tl.Gs[g].System {
					text += " system"
				}
				if tl.Gs[g].Observer {
					text += " observer"
				}
				say("root", "%s", text)
			}
		},
		"born": func() {
			for g := range tl.Gs {
				me := &tl.Gs[g]
				if !me.Born {
					continue
				}
				text := id(timeline.GID(g))
				if me.Creator != timeline.NoG {
					text += " by " + id(me.Creator) + place(me.CreatorStack)
				}
				text += " root " + me.Root()
				if me.Died {
					text += " died"
				}
				say("born", "%s", text)
			}
		},
	}
	for i := range tl.Gs {
		g := &tl.Gs[i]
		name := id(timeline.GID(i))
		parts[name] = func() {
			for _, x := range g.Segs() {
				text := span(x.Start, x.End) + " " + x.Kind.String()
				switch x.Kind {
				case timeline.Running:
					text += fmt.Sprintf(" p%d", x.P)
				case timeline.Waiting:
					text += " " + x.Reason.String() + place(x.Stack)
				default:
					text += place(x.Stack)
				}
				if x.Waker != timeline.NoG {
					text += ", woken by " + id(x.Waker) + place(x.WakerStack)
				}
				say(name, "%s", text)
			}
		}
	}
	activity := map[timeline.Activity]string{timeline.Idle: "idle", timeline.GCIdle: "gc idle", timeline.Late: "late",
		timeline.Scheduler: "scheduler", timeline.Assist: "assist", timeline.GCWorker: "gc worker", timeline.Suspending: "suspending",
		timeline.InSyscall: "in syscall", timeline.Stopped: "stopped", timeline.Gone: "gone"}
	for i := range tl.Procs {
		p := &tl.Procs[i]
		name := fmt.Sprintf("p%d", p.ID)
		parts[name] = func() {
			for _, x := range p.Stints() {
				text := span(x.Start, x.End) + " " + activity[x.What]
				if x.G != timeline.NoG {
					text = strings.TrimSpace(text) + " " + id(x.G)
				}
				say(name, "%s", text)
			}
		}
	}
	for line := range strings.Lines(want) {
		subject := strings.Fields(line)[0]
		if f := parts[subject]; f != nil {
			f()
			delete(parts, subject)
		}
	}
	return strings.Join(out, "\n")
}
