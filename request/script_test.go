package request

import (
	"testing"

	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// script is a timeline that a test writes, of a process with one P, which is busy.
type script struct {
	*timelinetest.Builder
	t   *testing.T
	now int64
}

func newScript(t *testing.T) *script {
	b := &script{Builder: timelinetest.NewBuilder(), t: t}
	b.Procs(1)
	return b
}

// do ends the test if a step of the script cannot be.
func (b *script) do(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("at %d ns: %v", b.now, err)
	}
}

// pass lets time pass, in nanoseconds.
func (b *script) pass(ns int64) {
	b.t.Helper()
	b.now += ns
	b.do(b.At(b.now))
}

// read returns the timeline.
func (b *script) read() *timeline.Timeline {
	b.t.Helper()
	tl, err := timeline.Read(b.Source(), timeline.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	return tl
}
