package cause_test

import (
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
)

// The linker escapes dots in the last element of an import path; nobody who reads of a function does.
func TestNamesAreThoseOfTheSource(t *testing.T) {
	const escaped = "github.com/nats-io/nats%2ego.(*Conn).publish"
	if got := cause.ReadableName(escaped); got != "github.com/nats-io/nats.go.(*Conn).publish" {
		t.Error(got)
	}
	a := attributed(t, scene{procs: 2, in: every(10, func(p *play) {
		waitsOn("sleep", 30*ms, []string{"time.Sleep", "github.com/acme/queue%2ego.(*Loop).next"})(p, serving, 0)
	})})
	if v := cause.Judge(a, cause.Settings{}); !strings.Contains(v.Sentence, "queue.go.(*Loop).next") {
		t.Error(v.Sentence)
	}
}
