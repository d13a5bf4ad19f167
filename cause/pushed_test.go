package cause_test

import (
	"strings"
	"testing"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// A service that only streams, and tells nothing late once it has the news, is healthy as far as can
// be seen, and the sentence says how far that is.
func TestPushesAreHealthyAsFarAsTheyAreSeen(t *testing.T) {
	handler := []string{"main.events", "net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve"}
	b := timelinetest.NewBuilder()
	b.Procs(1)
	p := &play{tb: t, b: b, seen: map[gotrace.GoID]bool{}}
	send := b.Stack(append([]string{"syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", "net/http.checkConnErrorWriter.Write"}, handler...)...)
	next := append([]string{"runtime.selectgo"}, handler...)
	p.do(b.Busy(0))
	p.waits(serving, "", next...)
	p.do(b.Idle(0, gotrace.NoProc))
	for range 80 {
		p.pass(50 * ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
		p.do(b.Calls(serving, send))
		p.pass(ms / 10)
		p.do(b.Returns(serving))
		p.leaves(serving, 0, "select", next...)
	}
	p.pass(ms)
	b.Sample(gotrace.NoGoroutine, 0)
	tl, err := timeline.Read(b.Source(), timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := cause.Judge(blame.Attribute(tl, request.Find(tl, request.Options{}), blame.Options{}), cause.Settings{})
	if v.Verdict != "healthy" || !strings.Contains(v.Sentence, "whether the news was late is not known") {
		t.Errorf("%s: %s", v.Verdict, v.Sentence)
	}
}
