package request

import (
	"slices"
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// Two requests that came with one read are two, if net/http's server begins to answer the second one
// where it finished the first; what it writes in pieces is one.
func TestRequestsThatCameWithOneRead(t *testing.T) {
	const ms = int64(1e6)
	loop := []string{"net/http.(*conn).serve"}
	handler := append([]string{"main.work", "net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP"}, loop...)
	sends := []string{"syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write"}
	flush := []string{"net/http.checkConnErrorWriter.Write", "bufio.(*Writer).Flush"}
	last := append([]string{"net/http.(*response).finishRequest"}, loop...)
	piece := append([]string{"bufio.(*Writer).Write", "net/http.(*chunkWriter).Write"}, last...)
	for _, c := range []struct {
		name, steps string
		requests    int
	}{
		{"one that works, and one more", "hf hf", 2},
		{"one that is answered at once, and one more", "f f", 2},
		{"one that is answered at once, and one that works", "f hf", 2},
		{"the second one is answered in pieces by its handler", "hf w h w f", 2},
		{"three", "hf f hf", 3},
		{"an answer in pieces", "h w h w f", 1},
		{"a large answer", "h p p f", 1},
		{"an answer in several records", "h r r r", 1},
		{"answers in several records", "h r r h r", 2},
		{"the socket is full", "h f f F f", 1},
		{"the socket is full, then one more", "h f F f h f", 2},
		{"it waits for who reads ahead", "h f c", 1},
	} {
		b := newScript(t)
		stack := func(s ...[]string) gotrace.StackID { return b.Stack(slices.Concat(s...)...) }
		calls := map[rune]gotrace.StackID{
			'f': stack(sends, flush, last),
			'p': stack(sends, flush, piece),
			'r': stack(sends, []string{"crypto/tls.(*Conn).write", "crypto/tls.(*Conn).Write"}, flush, last),
			'w': stack(sends, flush, handler),
		}
		waits := map[rune]gotrace.StackID{
			'h': stack([]string{"time.Sleep"}, handler),
			'F': stack([]string{"internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write"}, flush, last),
			'c': stack([]string{"sync.(*Cond).Wait", "net/http.(*connReader).abortPendingRead"}, last),
		}
		why := map[rune]string{'h': "sleep", 'F': "network", 'c': "sync.(*Cond).Wait"}
		idle := stack([]string{"internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "bufio.(*Reader).Peek"}, loop)
		wake := func() {
			b.pass(ms)
			b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, 1, 0))
			b.do(b.Runs(1, 0, 0))
		}
		const reads = 3
		b.do(b.Busy(0))
		b.do(b.Runs(1, 0, idle))
		b.do(b.Waits(1, "network", idle))
		for range reads {
			wake()
			for _, step := range c.steps {
				switch {
				case calls[step] != 0:
					b.do(b.Calls(1, calls[step]))
					b.pass(ms / 10)
					b.do(b.Returns(1))
				case waits[step] != 0:
					b.do(b.Waits(1, why[step], waits[step]))
					wake()
				}
			}
			b.do(b.Waits(1, "network", idle))
		}
		b.Sample(gotrace.NoGoroutine, 0)
		f := Find(b.read(), Options{})
		if len(f.Requests) != reads*c.requests {
			t.Errorf("%s: %d requests of %d", c.name, len(f.Requests), reads*c.requests)
		}
	}
}
