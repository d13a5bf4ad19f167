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
// be seen, and the sentence says how far that is. What else it serves may be late, but is too little
// to tell.
func TestPushesAreHealthyAsFarAsTheyAreSeen(t *testing.T) {
	const unseen, few = "whether the news was late is not known", "requests, too few to tell whether they are late: their median is 30.0 ms."
	v := cause.Judge(streaming(t, 0), cause.Settings{})
	if v.Verdict != "healthy" || !strings.Contains(v.Sentence, unseen) || strings.Contains(v.Sentence, "too few") {
		t.Errorf("%s: %s", v.Verdict, v.Sentence)
	}
	v = cause.Judge(streaming(t, 8), cause.Settings{})
	if v.Verdict != "healthy" || !strings.Contains(v.Sentence, unseen) || !strings.Contains(v.Sentence, few) {
		t.Errorf("%s: %s", v.Verdict, v.Sentence)
	}
}

// streaming is a service that sends 80 events on a stream, and answers so many requests in 30 ms.
func streaming(t *testing.T, requests int) *blame.Attribution {
	t.Helper()
	loop := []string{"net/http.(*conn).serve"}
	around := append([]string{"net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP"}, loop...)
	handler := append([]string{"main.events"}, around...)
	write := []string{"syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", "net/http.checkConnErrorWriter.Write"}
	b := timelinetest.NewBuilder()
	b.Procs(1)
	p := &play{tb: t, b: b, seen: map[gotrace.GoID]bool{}}
	send, finish := b.Stack(append(write[:5:5], handler...)...), b.Stack(append(write[:5:5], loop...)...)
	next := append([]string{"runtime.selectgo"}, handler...)
	read := append([]string{"internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "bufio.(*Reader).Peek"}, loop...)
	p.do(b.Busy(0))
	p.waits(serving, "", next...)
	p.waits(helper, "", read...)
	p.do(b.Idle(0, gotrace.NoProc))
	writes := func(g gotrace.GoID, at gotrace.StackID) {
		p.do(b.Calls(g, at))
		p.pass(ms / 10)
		p.do(b.Returns(g))
	}
	for i := range 80 {
		p.pass(50 * ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
		writes(serving, send)
		p.leaves(serving, 0, "select", next...)
		if i >= requests {
			continue
		}
		p.wakes(0, helper)
		p.runs(helper, 0)
		p.leaves(helper, 0, "sleep", append([]string{"time.Sleep", "main.page"}, around...)...)
		p.pass(299 * ms / 10)
		p.wakes(0, helper)
		p.runs(helper, 0)
		writes(helper, finish)
		p.leaves(helper, 0, "network", read...)
	}
	p.pass(ms)
	b.Sample(gotrace.NoGoroutine, 0)
	tl, err := timeline.Read(b.Source(), timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return blame.Attribute(tl, request.Find(tl, request.Options{}), blame.Options{})
}

// What a stream sends once it has gone on to send something else, and waits for that elsewhere, is not
// one late push.
func TestAStreamThatGoesOnToSomethingElseIsNotLate(t *testing.T) {
	around := []string{"net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve"}
	write := []string{"syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", "net/http.checkConnErrorWriter.Write"}
	b := timelinetest.NewBuilder()
	b.Procs(1)
	p := &play{tb: t, b: b, seen: map[gotrace.GoID]bool{}}
	stage := func(f string) (gotrace.StackID, []string) {
		h := append([]string{f, "main.events"}, around...)
		return b.Stack(append(write[:5:5], h...)...), append([]string{"runtime.selectgo"}, h...)
	}
	sendA, nextA := stage("main.progress")
	sendB, nextB := stage("main.tail")
	p.do(b.Busy(0))
	for g := range gotrace.GoID(8) {
		p.waits(1+g, "", nextA...)
	}
	p.do(b.Idle(0, gotrace.NoProc))
	for i := range 80 {
		p.pass(50 * ms)
		send, next := sendA, nextA
		if i >= 68 {
			send, next = sendB, nextB
		}
		for g := range gotrace.GoID(8) {
			p.wakes(0, 1+g)
			p.runs(1+g, 0)
			p.do(b.Calls(1+g, send))
			p.pass(ms / 10)
			p.do(b.Returns(1 + g))
			p.leaves(1+g, 0, "select", next...)
		}
	}
	p.pass(ms)
	b.Sample(gotrace.NoGoroutine, 0)
	tl, err := timeline.Read(b.Source(), timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := cause.Judge(blame.Attribute(tl, request.Find(tl, request.Options{}), blame.Options{}), cause.Settings{})
	if v.Verdict != "healthy" {
		t.Errorf("%s: %s", v.Verdict, v.Sentence)
	}
}
