//go:build go1.25

//go:debug asynctimerchan=0

package breaker

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestABreakersTimeIsThatOfItsBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := New(Options{Limit: 10 * time.Millisecond, BlameScheduler: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < 100 && b.State() == Closed; i++ {
			p, _ := b.Allow()
			time.Sleep(20 * time.Millisecond)
			p.Done(nil)
		}
		if b.State() != Open {
			t.Error("a hundred calls of 20 ms, with a limit of 10, did not open it")
		}
	})
}
