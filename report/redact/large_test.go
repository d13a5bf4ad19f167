//go:build !race

package redact

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/whylate/whylate/evidence"
)

// What is larger than a reader takes is left out as a whole: the part of it that can be read
// would pass for the member.
// (The race detector makes it fourteen seconds; nothing is concurrent here.)
func TestAMemberThatIsTooLargeIsLeftOut(t *testing.T) {
	line := make([]byte, 1<<13) // again and again, so that it packs well, but no better than a reader believes
	for i := range line {
		line[i] = byte('a' + rand.IntN(26))
	}
	line[len(line)-1] = '\n'
	members := contents(t, write(t, map[string][]byte{evidence.MemberTrace: zorblattTrace(t)}, evidence.Manifest{}))
	for extra, want := range map[string]int{"": 0, "\n": 1} {
		members[evidence.MemberAppLog] = append(bytes.Repeat(line, 1<<13), extra...)
		r, out, err := redacted(t, zipIncident(t, members), Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, there := contents(t, out)[evidence.MemberAppLog]
		if len(r.Dropped) != want || there == (want > 0) || want > 0 && !strings.HasSuffix(r.Dropped[0].Why, evidence.ErrTooLarge.Error()) {
			t.Errorf("%+v, it is there: %t", r.Dropped, there)
		}
	}
}
