package cause_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
)

// What fits no cause is at least told: what it is, and at which line.
func TestMostOfTheExcessAtOnePlaceIsToldWhereNoCauseFits(t *testing.T) {
	lock := []string{"syscall.Syscall", "golang.org/x/sys/unix.IoctlSetInt", "main.withFileLock", "main.serve"}
	// The same functions, and the program's own on its next line: script.go:4.
	other := append([]string{"runtime.exitsyscall"}, lock...)
	brief := func(p *play) { calls(serving, ms/10, lock...)(p) }
	for _, c := range []struct {
		name  string
		scene scene
		says  string
		place string
		line  int
	}{
		{"a system call, at the line where the slow requests are in it", scene{procs: 2, in: func(p *play, i int) {
			brief(p)
			if i%10 == 9 {
				calls(serving, 20*ms, other...)(p)
			}
		}}, "is the request itself in a system call, unix.IoctlSetInt, in main.withFileLock (script.go:4).", "main.withFileLock", 4},
		{"two calls of the program that take as long", scene{procs: 2, in: func(p *play, i int) {
			brief(p)
			if i%10 == 9 {
				calls(serving, 20*ms, lock...)(p)
				calls(serving, 20*ms, "syscall.Syscall", "golang.org/x/sys/unix.IoctlSetInt", "main.withOther", "main.serve")(p)
			}
		}}, "no cause of the catalogue explains half of what slow requests take longer.", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, c.scene), cause.Settings{})
			if v.Verdict != "inconclusive" || v.Reason != "unexplained" || !strings.HasSuffix(v.Sentence, c.says) {
				t.Errorf("%s (%s): %s\nwant an end of %q", v.Verdict, v.Reason, v.Sentence, c.says)
			}
			if w := v.Unnamed[0].Where; c.place != "" && (w == nil || w.Function != c.place || w.Line != c.line) {
				t.Errorf("the largest leaf is at %+v, want %s:%d", w, c.place, c.line)
			}
		})
	}
}

// A reader cannot tell rows apart that read the same: they are one, and nothing is lost.
func TestLeavesThatReadTheSameAreOne(t *testing.T) {
	at := &cause.Place{Function: "main.f", Line: 1}
	got := cause.Joined([]cause.Unnamed{
		{Leaf: "a", Share: 0.1}, {Leaf: "b", Share: 0.25}, {Leaf: "a", Share: 0.2},
		{Leaf: "a", Share: 0.05, Where: at}, {Leaf: "a", Share: -0.25, Where: &cause.Place{Function: "main.f", Line: 1}},
		{Leaf: "a", Share: 0.125, Causes: []string{"cpu-hog"}},
	})
	var text []string
	for _, u := range got {
		text = append(text, fmt.Sprintf("%s %.3f %v %v", u.Leaf, u.Share, u.Where != nil, u.Causes))
	}
	if want := "a 0.300 false [], b 0.250 false [], a 0.125 false [cpu-hog], a -0.200 true []"; strings.Join(text, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(text, ", "), want)
	}
}
