package request

import (
	"os"
	"testing"
	"time"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

func TestHeavy(t *testing.T) {
	fl, err := os.Open(os.Getenv("HEAVY"))
	if err != nil {
		t.Skip()
	}
	s := time.Now()
	r, err := gotrace.NewReader(fl)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := timeline.Read(r, timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("read %v: %d events, %d goroutines, %d stacks", time.Since(s), tl.Events, len(tl.Gs), tl.Stacks.Len())
	for range 3 {
		s = time.Now()
		c := classify(tl, nil)
		a := time.Since(s)
		s = time.Now()
		findHomes(tl, c)
		b := time.Since(s)
		s = time.Now()
		f := Find(tl, Options{})
		t.Logf("classify %v homes %v all %v: %d requests, lost %v", a, b, time.Since(s), len(f.Requests), tl.Lost)
	}
	describe(t, Find(tl, Options{}))
}
