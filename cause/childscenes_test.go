package cause_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// timely is a service that serves each request in a goroutine of its own, as
// net/http.TimeoutHandler does, and waits for that and for a deadline: does says what it
// does there.
func timely(cast func(p *play), does func(p *play, child gotrace.GoID, slow bool)) scene {
	child := gotrace.GoID(1000)
	return scene{procs: 2, cast: cast, in: func(p *play, i int) {
		child++
		p.seen[child] = true
		p.do(p.b.Starts(serving, gotrace.NoProc, child, p.stack("net/http.(*timeoutHandler).ServeHTTP", "main.serve"), p.stack("net/http.(*timeoutHandler).ServeHTTP.func1")))
		p.leaves(serving, 0, "select", "runtime.selectgo", "net/http.(*timeoutHandler).ServeHTTP", "main.serve")
		p.do(p.b.Busy(1))
		p.runs(child, 1)
		does(p, child, i%10 == 9)
		p.wakes(child, serving, "runtime.closechan", "net/http.(*timeoutHandler).ServeHTTP.func1")
		p.do(p.b.Ends(child))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}}
}

// A goroutine refreshes what requests need: it asks a peer, whose answer the reader brings,
// and holds a lock meanwhile.
var (
	queries = []string{"runtime.selectgo", "net/http.(*persistConn).roundTrip", "main.ask", "main.refresh"}
	needs   = []string{"sync.(*Mutex).Lock", "main.lookup", "main.show"}
	brings  = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*persistConn).readLoop"}
)

const holder, bringer = crowd0, crowd0 + 1

// refreshes brings both to their home waits.
func refreshes(p *play) {
	p.waits(holder, "", "time.Sleep", "main.refresh")
	p.waits(bringer, "", brings...)
}

// heldMeanwhile lets who works for a request wait for the lock, which is held while an
// answer is awaited.
func heldMeanwhile(p *play, works gotrace.GoID, slow bool) {
	heldFor(p, works, slow, func() { p.pass(20 * ms) })
}

// heldFor is heldMeanwhile where the answer comes after something.
func heldFor(p *play, works gotrace.GoID, slow bool, meanwhile func()) {
	if !slow {
		p.pass(ms / 10)
		return
	}
	p.wakes(0, holder)
	p.do(p.b.Busy(0))
	p.runs(holder, 0)
	p.leaves(holder, 0, "select", queries...)
	p.leaves(works, 1, "sync", needs...)
	meanwhile()
	p.wakes(0, bringer)
	p.do(p.b.Busy(0))
	p.runs(bringer, 0)
	p.wakes(bringer, holder, "runtime.chansend1", "net/http.(*persistConn).readLoop")
	p.waits(bringer, "network", brings...)
	p.runs(holder, 0)
	p.wakes(holder, works, "sync.(*Mutex).Unlock", "main.refresh")
	p.leaves(holder, 0, "sleep", "time.Sleep", "main.refresh")
	p.do(p.b.Busy(1))
	p.runs(works, 1)
}

// too brings others to their home waits, too.
func (s scene) too(cast func(p *play)) scene {
	first := s.cast
	s.cast = func(p *play) {
		first(p)
		cast(p)
	}
	return s
}

// asksBefore lets who works for a request ask the peer, too.
func asksBefore(p *play, works gotrace.GoID, slow bool) {
	p.leaves(works, 1, "select", "runtime.selectgo", "net/http.(*persistConn).roundTrip", "main.ask", "main.show")
	p.pass(ms / 10)
	p.wakes(0, bringer)
	p.do(p.b.Busy(0))
	p.runs(bringer, 0)
	p.wakes(bringer, works, "runtime.chansend1", "net/http.(*persistConn).readLoop")
	p.leaves(bringer, 0, "network", brings...)
	p.do(p.b.Busy(1))
	p.runs(works, 1)
	heldMeanwhile(p, works, slow)
}

// looksUp are where a worker waits for work and looks up each few milliseconds if there is none.
var looksUp = []string{"runtime.selectgo", "main.(*line).stage2"}

// heldWhileTicking is heldMeanwhile for a worker whose next one looks up meanwhile.
func heldWhileTicking(p *play, works gotrace.GoID, slow bool) {
	next := works + 10
	heldFor(p, works, slow, func() {
		for range 5 {
			p.pass(4 * ms)
			p.wakes(0, next)
			p.do(p.b.Busy(1))
			p.runs(next, 1)
			p.leaves(next, 1, "select", looksUp...)
		}
	})
}

// line is a service whose workers hand on what they got of a request to others, and these to third ones, which answer it.
func line(does func(p *play, worker gotrace.GoID, slow bool)) scene {
	const stages, each = 3, 4
	first := func(stage int) gotrace.GoID { return helper + gotrace.GoID(10*stage) }
	idle := func(stage int) []string {
		if stage == stages-1 {
			return looksUp
		}
		return []string{"runtime.chanrecv2", fmt.Sprintf("main.(*line).stage%d", stage)}
	}
	return scene{procs: 2, cast: func(p *play) {
		for stage := range stages {
			for k := range gotrace.GoID(each) {
				p.waits(first(stage)+k, "", idle(stage)...)
			}
		}
	}, in: func(p *play, i int) {
		k := gotrace.GoID(i / 3 % each)
		p.wakes(serving, first(0)+k, "runtime.chansend1", "main.(*line).do", "main.serve")
		p.leaves(serving, 0, "chan receive", "runtime.chanrecv1", "main.(*line).do", "main.serve")
		for stage := range stages {
			w, next := first(stage)+k, serving
			if stage+1 < stages {
				next = first(stage+1) + k
			}
			p.do(p.b.Busy(1))
			p.runs(w, 1)
			if stage == 1 {
				does(p, w, i%10 == 9)
			}
			p.pass(ms / 10)
			p.wakes(w, next, "runtime.chansend1", fmt.Sprintf("main.(*line).stage%d", stage))
			p.leaves(w, 1, map[bool]string{true: "select", false: "chan receive"}[stage == stages-1], idle(stage)...)
		}
		p.runs(serving, 0)
	}}
}

// one is a service whose requests hand their work to the same goroutine.
func one(does func(p *play, worker gotrace.GoID, slow bool)) scene {
	idle := []string{"runtime.chanrecv2", "main.(*log).run"}
	return scene{procs: 2, cast: func(p *play) { p.waits(helper, "", idle...) }, in: func(p *play, i int) {
		p.wakes(serving, helper, "runtime.chansend1", "main.(*log).append", "main.serve")
		p.leaves(serving, 0, "chan receive", "runtime.chanrecv1", "main.(*log).append", "main.serve")
		p.do(p.b.Busy(1))
		p.runs(helper, 1)
		does(p, helper, i%10 == 9)
		p.pass(ms / 10)
		p.wakes(helper, serving, "runtime.chansend1", "main.(*log).run")
		p.leaves(helper, 1, "chan receive", idle...)
		p.runs(serving, 0)
	}}
}

// takesNext is where a consumer waits for what it is sent.
var takesNext = []string{"runtime.chanrecv2", "main.(*feed).run"}

// consumes brings a consumer to where it waits.
func consumes(p *play) { p.waits(holder, "", takesNext...) }

// sendsOnTo lets who works for a request send something to a consumer, which now and then takes long for what it was sent before, and
// which may answer.
func sendsOnTo(busy func(p *play), answers bool) func(p *play, works gotrace.GoID, slow bool) {
	return func(p *play, works gotrace.GoID, slow bool) {
		if !slow {
			p.pass(ms / 10)
			return
		}
		p.wakes(0, holder)
		p.do(p.b.Busy(0))
		p.runs(holder, 0)
		p.leaves(works, 1, "chan send", "runtime.chansend1", "main.(*log).publish", "main.(*log).run")
		busy(p)
		p.wakes(holder, works, takesNext...)
		if answers {
			p.do(p.b.Busy(1))
			p.runs(works, 1)
			p.leaves(works, 1, "chan receive", "runtime.chanrecv1", "main.(*log).publish", "main.(*log).run")
			p.pass(ms)
			p.wakes(holder, works, "runtime.chansend1", "main.(*feed).run")
		}
		p.leaves(holder, 0, "chan receive", takesNext...)
		p.do(p.b.Busy(1))
		p.runs(works, 1)
	}
}

func storesLong(p *play) { p.computes(holder, 0, 20*ms, "main.store", "main.(*feed).run") }

func restsLong(p *play) {
	p.leaves(holder, 0, "sleep", "time.Sleep", "main.store", "main.(*feed).run")
	p.pass(20 * ms)
	p.wakes(0, holder)
	p.do(p.b.Busy(0))
	p.runs(holder, 0)
}

// loads is a service whose requests divide their work among two goroutines. One of ten times these ask a batcher, which the
// first of them starts and which waits for more to be asked, and wait until it answers.
func loads() scene {
	next := gotrace.GoID(1000)
	load := []string{"runtime.chanrecv1", "main.load", "main.resolve"}
	return scene{procs: 2, in: func(p *play, i int) {
		one, two, batcher := next+1, next+2, next+3
		next += 3
		for _, g := range []gotrace.GoID{one, two} {
			p.do(p.b.Starts(serving, gotrace.NoProc, g, p.stack("main.show", "main.serve"), p.stack("main.resolve")))
		}
		p.leaves(serving, 0, "sync", "sync.(*WaitGroup).Wait", "main.show", "main.serve")
		p.do(p.b.Busy(1))
		p.seen[one], p.seen[two], p.seen[batcher] = true, true, true
		if i%10 == 9 {
			p.runs(one, 1)
			p.do(p.b.Starts(one, gotrace.NoProc, batcher, p.stack("main.load", "main.resolve"), p.stack("main.batch")))
			p.waits(one, "chan receive", load...)
			p.runs(batcher, 1)
			p.waits(batcher, "sleep", "time.Sleep", "main.collect", "main.batch")
			p.runs(two, 1)
			p.leaves(two, 1, "chan receive", load...)
			p.pass(16 * ms)
			p.wakes(0, batcher)
			p.do(p.b.Busy(1))
			p.runs(batcher, 1)
			p.wakes(batcher, one, "runtime.chansend1", "main.batch")
			p.wakes(batcher, two, "runtime.chansend1", "main.batch")
			p.do(p.b.Ends(batcher))
		}
		for _, g := range []gotrace.GoID{one, two} {
			p.runs(g, 1)
			p.pass(ms / 10)
			if g == two {
				p.wakes(two, serving, "sync.(*WaitGroup).Done", "main.resolve")
			}
			p.do(p.b.Ends(g))
		}
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}}
}

var childScenes = []told{
	{name: "a goroutine that a sister started answers", scene: loads(), finding: "timer-wait", where: "main.collect"},
	{name: "the child waits for a lock that is held across a call", scene: timely(refreshes, heldMeanwhile), finding: "lock-held-across-wait", where: "main.refresh"},
	{name: "one of several workers waits for it", scene: crew(heldMeanwhile).too(refreshes), finding: "lock-held-across-wait", where: "main.refresh"},
	{name: "a worker in the middle of a line waits for it", scene: line(heldMeanwhile).too(refreshes), finding: "lock-held-across-wait", where: "main.refresh"},
	{name: "a worker in the middle of a line waits for it, and the next one looks up meanwhile", scene: line(heldWhileTicking).too(refreshes), finding: "lock-held-across-wait", where: "main.refresh"},
	{name: "the only worker waits for it", scene: one(heldMeanwhile).too(refreshes), finding: "lock-held-across-wait", where: "main.refresh"},
	{name: "the only worker sends to a consumer that computes", scene: one(sendsOnTo(storesLong, false)).too(consumes), finding: "back-pressure", where: "main.store"},
	{name: "the only worker sends to a consumer that waits", scene: one(sendsOnTo(restsLong, false)).too(consumes), finding: "back-pressure", where: "main.store"},
	{name: "a worker in the middle of a line sends to a consumer that waits", scene: line(sendsOnTo(restsLong, false)).too(consumes), finding: "back-pressure", where: "main.store"},
	{name: "the only worker sends to another one, and waits for its answer", scene: one(sendsOnTo(restsLong, true)).too(consumes), finding: "single-worker", where: "main.store"},
	{name: "the workers in the middle of a line ask the peer themselves", scene: line(asksBefore).too(refreshes), finding: "slow-dependency"},
	{name: "the workers ask the peer themselves", scene: crew(asksBefore).too(refreshes), finding: "slow-dependency"},
}

// A wait for one's own child, or for a worker, is no queue: the queues are where these wait.
func TestWhatAChildWaitsForIsTold(t *testing.T) { tell(t, childScenes) }

// What a server's library computes for a request has no place in the program, but a name.
func TestWhatALibraryComputesIsNamed(t *testing.T) {
	v := cause.Judge(attributed(t, scene{procs: 1, in: func(p *play, i int) {
		if i%10 == 9 {
			p.computes(serving, 0, 20*ms, "encoding/gob.encUint", "encoding/gob.(*Encoder).Encode", "net/rpc.(*service).call")
			p.computes(serving, 0, 20*ms, "encoding/gob.encString", "encoding/gob.(*Encoder).Encode", "net/rpc.(*service).call")
		}
	}}), cause.Settings{})
	check(t, v, "expensive-request", nil)
	if want := "they compute in gob.(*Encoder).Encode."; !strings.HasSuffix(v.Sentence, want) {
		t.Errorf("%s, not %s", v.Sentence, want)
	}
}

// What a library computes for a request before the program's own code has it is not the program's, unless that computes for longer.
func TestWhatIsMostlyALibrarysIsNotTheProgramsOwn(t *testing.T) {
	secured := func(library, own int64) scene {
		return scene{procs: 1, in: func(p *play, i int) {
			if i%10 == 9 {
				for _, f := range []string{"crypto/rsa.SignPSS", "crypto/ecdh.x25519ScalarMult"} {
					p.computes(serving, 0, library/2, f, "crypto/tls.(*Conn).handshakeContext", "crypto/tls.(*Conn).HandshakeContext", "net/http.(*conn).serve", "runtime.goexit")
				}
				p.computes(serving, 0, own, "encoding/json.Marshal", "main.page", "net/http.HandlerFunc.ServeHTTP", "net/http.(*conn).serve", "runtime.goexit")
			}
		}}
	}
	writes := scene{procs: 1, in: func(p *play, i int) {
		if i%10 == 9 {
			p.computes(serving, 0, 30*ms, "internal/runtime/syscall/linux.Syscall6", "syscall.write", "net.(*conn).Write", "net/http.(*response).finishRequest", "net/http.(*conn).serve", "runtime.goexit")
			p.computes(serving, 0, 10*ms, "encoding/json.Marshal", "main.page", "net/http.HandlerFunc.ServeHTTP", "net/http.(*conn).serve", "runtime.goexit")
		}
	}}
	if v := cause.Judge(attributed(t, writes), cause.Settings{}); len(v.Findings) != 1 || v.Findings[0].Where == nil || v.Findings[0].Where.Function != "main.page" {
		t.Errorf("what the kernel does for a library is its: %s %+v", v.Sentence, v.Findings)
	}
	for _, c := range []struct {
		library, own    int64
		function, named string
	}{
		{40 * ms, 10 * ms, "crypto/tls.(*Conn).HandshakeContext", "they compute in tls.(*Conn).HandshakeContext (tls.(*Conn).handshakeContext)."},
		{20 * ms, 60 * ms, "main.page", "they compute in main.page."},
	} {
		v := cause.Judge(attributed(t, secured(c.library, c.own)), cause.Settings{})
		check(t, v, "expensive-request", nil)
		if len(v.Findings) == 1 && (v.Findings[0].Where == nil || v.Findings[0].Where.Function != c.function) || !strings.HasSuffix(v.Sentence, c.named) {
			t.Errorf("%s in %+v, not %s", v.Sentence, v.Findings[0].Where, c.function)
		}
		if own := slices.ContainsFunc(v.Findings[0].Evidence, func(e string) bool { return strings.HasPrefix(e, "75 % of their CPU samples are in main.page") }); own != (c.function == "main.page") {
			t.Errorf("%q", v.Findings[0].Evidence)
		}
	}
}

// Several things that libraries do, each for less time than one of the program's functions takes, are not one thing.
func TestSeveralLibrariesAreNotOnePlace(t *testing.T) {
	v := cause.Judge(attributed(t, scene{procs: 1, in: func(p *play, i int) {
		if i%10 == 9 {
			at := func(ns int64, f ...string) {
				p.computes(serving, 0, ns, append(f, "net/http.(*conn).serve", "runtime.goexit")...)
			}
			at(40*ms, "encoding/json.Marshal", "main.page", "net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP")
			at(20*ms, "crypto/rsa.SignPSS", "crypto/tls.(*Conn).HandshakeContext")
			at(20*ms, "net/textproto.(*Reader).ReadMIMEHeader", "net/http.readRequest", "net/http.(*conn).readRequest")
			at(20*ms, "bufio.(*Writer).Flush", "net/http.(*response).finishRequest")
		}
	}}), cause.Settings{})
	check(t, v, "expensive-request", nil)
	if want := "they compute in main.page."; !strings.HasSuffix(v.Sentence, want) {
		t.Errorf("%s, not %s", v.Sentence, want)
	}
}

// Where no function has most of the time by itself, it is the innermost one that most is spent below; functions of
// assembly are of no package.
func TestWhatManyHelpersComputeIsAtWhoCallsThem(t *testing.T) {
	tell(t, []told{{name: "of an interpreter", scene: scene{procs: 1, in: every(10, func(p *play) {
		for _, helper := range []string{"main.add", "main.load", "main.store"} {
			p.computes(serving, 0, 10*ms, "memeqbody", helper, "main.run", "main.call", "main.run", "main.render", "main.serve")
		}
		p.computes(serving, 0, 10*ms, "main.open", "main.render", "main.serve")
	})}, finding: "expensive-request", where: "main.run"}})
}

// A function that holds a lock for whatever is asked says nothing of what takes long: the samples below it do.
func TestWhatIsComputedBelowAHolderIsSaid(t *testing.T) {
	v := cause.Judge(attributed(t, scene{procs: 2, cast: waitingHelper, in: every(10, behindHelper("sync", mutex, []string{"sync.(*Mutex).Unlock", "main.with", "main.loop"}, func(p *play) {
		p.computes(helper, 1, 20*ms, "main.eval", "main.with", "main.loop")
	}))}), cause.Settings{})
	check(t, v, "lock-held-across-work", nil)
	if want := "100 % of the holders' CPU samples below main.with are in main.eval"; len(v.Findings) == 0 || !slices.Contains(v.Findings[0].Evidence, want) {
		t.Errorf("not said: %s: %+v", want, v.Findings)
	}
}
