package timeline_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// Goroutines that libraries start for a program are of the kind of what they run.
func TestWhatALibraryLaunchesIsTheRoot(t *testing.T) {
	const group, try = "sync.(*WaitGroup).Go.func1", "github.com/sourcegraph/conc/panics.(*Catcher).Try"
	for _, c := range []struct {
		name, start, want string
		at                []string
	}{
		{"one launcher", group, "main.work", []string{"runtime.chanrecv1", "main.next", "main.work", group}},
		{"two launchers", "github.com/sourcegraph/conc.(*WaitGroup).Go.func1", "main.work", []string{"main.work", try, "github.com/sourcegraph/conc.(*WaitGroup).Go.func1"}},
		{"behind what it runs", group, group, []string{"sync.(*WaitGroup).Add", "sync.(*WaitGroup).Done", "sync.(*WaitGroup).Go.func1.1", group}},
		{"a library that serves", "example.com/pool.(*Pool).run", "example.com/pool.(*Pool).run", []string{"main.work", "example.com/pool.(*Pool).run"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const parent, child, other = 1, 2, 3
			b := timelinetest.NewBuilder()
			do := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			b.Procs(1)
			do(b.Busy(0))
			do(b.Runs(parent, 0, b.Stack("main.main")))
			do(b.Starts(parent, gotrace.NoProc, child, b.Stack("main.main"), b.Stack(c.start)))
			do(b.Starts(parent, gotrace.NoProc, other, b.Stack("main.main"), b.Stack(c.start)))
			do(b.At(1e6))
			do(b.Waits(parent, "select", b.Stack("runtime.selectgo", "main.main")))
			do(b.Runs(child, 0, 0))
			do(b.Waits(child, "chan receive", b.Stack(c.at...)))
			do(b.At(2e6))
			tl, err := timeline.Read(b.Source(), timeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for g := range tl.Gs {
				// Of what was only born nothing else is known.
				if want, me := map[gotrace.GoID]string{parent: "main.main", child: c.want, other: c.start}[tl.Gs[g].ID], &tl.Gs[g]; me.Root() != want {
					t.Errorf("goroutine %d is of %s, want %s", me.ID, me.Root(), want)
				}
			}
		})
	}
}
