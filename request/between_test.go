package request

import (
	"testing"

	"github.com/whylate/whylate/timeline"
)

func TestReadsOnTwoLinesAreOfTwoConnectionsOnlyInTurn(t *testing.T) {
	for _, c := range []struct {
		name        string
		turns, same int
		waited      [2]timeline.Time
		want        bool
	}{
		{"a request and an answer in turn", 200, 0, [2]timeline.Time{900, 40}, true},
		{"the answers in turn, seen first", 200, 1, [2]timeline.Time{40, 900}, true},
		{"a message in two steps", 100, 100, [2]timeline.Time{900, 40}, false},
		{"a greeting, and then commands", 1, 200, [2]timeline.Time{40, 900}, false},
		{"hardly any", 10, 0, [2]timeline.Time{900, 40}, false},
		{"either may be the client", 200, 0, [2]timeline.Time{900, 600}, false},
	} {
		b := between{turns: c.turns, same: c.same, waited: c.waited}
		if got := b.holds(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
