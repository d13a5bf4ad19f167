package cause

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// When a dependency's own figures say something about waits for it.
const (
	// slowCall is the part of what a slow request waited that one call has to have
	// taken in the dependency, by its own account, to explain the wait, and slowLeast
	// the least that counts, in nanoseconds.
	slowCall, slowLeast = 0.3, 1e6
	// slowOften is for which part of the separate stretches of slow requests there has to be
	// such a call: one may hold up many requests, but only those of its time.
	slowOften = 0.3
	// fastCall is the part that no call may have taken for the time to be elsewhere.
	fastCall = 0.1
	// fastSum is the part of what all slow requests waited together that everything
	// it executed may have taken: many short calls make a long wait, too.
	fastSum = 0.5
	// fastBusy is how much of a CPU redis may use, which executes one command at a
	// time: at half of it a queue in front is about as long as what is executed.
	fastBusy = 0.5
)

// clients are the packages whose functions stand on the stacks of calls.
var clients = map[string][]string{
	dependency.Redis:    {"github.com/gomodule/redigo/", "github.com/redis/go-redis/", "github.com/go-redis/redis/", "github.com/redis/rueidis", "github.com/valkey-io/valkey-go", "github.com/mediocregopher/radix/"},
	dependency.Postgres: {"github.com/jackc/pgx/", "github.com/jackc/pgconn", "github.com/lib/pq.", "github.com/go-pg/pg/", "github.com/uptrace/bun/driver/pgdriver"},
}

// CallsDependency reports whether a function belongs to a client of a dependency that can
// be asked what it did.
func CallsDependency(function string) bool {
	for _, prefixes := range clients {
		for _, p := range prefixes {
			if strings.HasPrefix(function, p) {
				return true
			}
		}
	}
	return false
}

// Told is what dependencies say about waits for the network.
type Told struct {
	// Peer is whom the waits are for: the dependency, if it is known to be it.
	Peer     string
	Evidence []Evidence
	Fix      []string
	known    bool // Peer's own figures are in Evidence
	// Slow: by them it was slow itself.
	Slow bool
}

// Asked removes from e the advice to record the peer's own times, if they were.
func (t *Told) Asked(e Evidence) Evidence {
	if t.known {
		e.Record = strings.TrimPrefix(e.Record, recordOther)
	}
	return e
}

// Told relates what dependencies said of themselves to the waits under keys. It
// never decides: a dependency counts what it executes, not what waits in its
// socket, on the way, or in the client's pool.
func (c *Case) Told(keys []blame.KeyID) Told {
	t := Told{Peer: "a peer's answer"}
	for i := range c.Dependencies {
		s := &c.Dependencies[i]
		if !s.Answered() {
			continue
		}
		by, sure := c.awaits(s, keys)
		e := Evidence{Holds: Yes, Number: float64(s.BoundNS)}
		if by == "" {
			e.Text = fmt.Sprintf("whoever the slow peer is%s, %s says of itself: %s", c.absent(s), s.Name(), figures(s))
			t.Evidence = append(t.Evidence, e)
			continue
		}
		e.Text = fmt.Sprintf("%s itself (%s): %s", s.Name(), by, figures(s))
		t.known = true
		if sure && !t.Slow {
			t.Peer = s.Name()
		}
		name, longest := s.Longest()
		n, waited := len(t.Fix), c.Sum(keys)
		limit := max(slowLeast, slowCall*waited)
		stretches := len(c.tailSpans())
		switch many := long(s, limit); {
		case float64(longest) >= limit && float64(many) < slowOften*float64(stretches):
			e.Text += fmt.Sprintf("; slow requests come in %d separate stretches, and at most %d of its calls took long enough to explain one", stretches, many)
		case float64(longest) >= limit:
			t.Peer, t.Slow = s.Name(), true
			t.Fix = append(t.Fix, inside(s, name, longest))
			if s.Kind == dependency.Redis {
				e.Text += "; while it executes one command all others wait, whoever sent it"
			}
		case c.fast(s, waited):
			e.Holds = No
			e.Text += "; the time is between: network, proxy, client, pool" + beside[s.Kind]
			t.Fix = append(t.Fix, fmt.Sprintf("look between the two rather than into %s: the network, a proxy or pooler, the client's pool", s.Name()))
		}
		if len(t.Fix) == n { // nothing follows from it
			e.Text += "; what queues in its sockets, and the way to it, are not in these figures"
		}
		t.Evidence = append(t.Evidence, e)
	}
	return t
}

// beside is what else a kind of dependency does not count.
var beside = map[string]string{dependency.Postgres: ", or planning and committing, which it does not count"}

// long returns how many calls and stops of at least limit nanoseconds there may have
// been: those that redis lists, else as many as fit into the time of all calls.
func long(s *dependency.Server, limit float64) int64 {
	var listed, fit int64
	for _, e := range s.Events {
		if float64(e.MaxNS) >= limit && !ofCommand(e) {
			listed += int64(e.Count)
		}
	}
	for _, e := range s.Slow {
		if float64(e.NS) >= limit {
			listed++
		}
	}
	for _, x := range s.Calls {
		fit += min(x.Count, int64(float64(x.NS)/limit))
	}
	if s.SlowAboveNS != nil && *s.SlowAboveNS >= 0 && float64(*s.SlowAboveNS) <= limit {
		return listed + s.SlowLost
	}
	return listed + fit
}

// ofCommand reports whether a latency event is of a command, which SLOWLOG has too.
func ofCommand(e dependency.Event) bool { return e.Name == "command" || e.Name == "fast-command" }

// inside is what to do about a call that a dependency itself says was long.
func inside(s *dependency.Server, name string, ns int64) string {
	if s.Kind == dependency.Redis {
		return fmt.Sprintf("in %s: %s took up to %s; make it shorter, or move it to another instance: while redis executes one command, all others wait", s.Name(), name, Ms(float64(ns)))
	}
	return fmt.Sprintf("in %s: %s took up to %s; look at its plan (EXPLAIN ANALYZE) and at what it waits for", s.Name(), clip(name), Ms(float64(ns)))
}

// fast reports whether a dependency's own figures exclude that slow requests waited so
// long, in nanoseconds each, for what it executed.
func (c *Case) fast(s *dependency.Server, waited float64) bool {
	if s.Restarted || s.Reset || s.Count == 0 || s.BoundNS == 0 || float64(s.BoundNS) > fastCall*waited ||
		float64(s.NS) > fastSum*waited*float64(len(c.Tail)) {
		return false
	}
	for _, e := range s.Events {
		if float64(e.MaxNS) > fastCall*waited {
			return false
		}
	}
	if s.Kind == dependency.Redis {
		busy := float64(s.NS) / float64(s.WindowNS())
		if s.Busy != nil {
			busy = max(busy, *s.Busy)
		}
		return busy <= fastBusy
	}
	return len(s.Waits) == 0
}

// awaits says by what the waits under keys are known to be for a dependency; "" if
// they are not known to be. They have to stand in a client of its kind: the connections
// are those of TCP at the end, and a peer that the process dials for every request, or
// reaches through a socket of the file system, is not among them. Without the
// connections it is not sure which of that kind it is: one that executed nothing is not.
func (c *Case) awaits(s *dependency.Server, keys []blame.KeyID) (by string, sure bool) {
	var in, all float64
	for _, id := range keys {
		all += c.NS[id]
		if c.calls(s.Kind, c.Key(id)) {
			in += c.NS[id]
		}
	}
	remotes, known := c.remotes()
	switch {
	case in < 0.5*all || all <= 0:
		return "", false
	case remotes[s.Peer] && len(remotes) == 1:
		return "the only peer that the process has connections to, and the waits are in a client of " + s.Kind, true
	case remotes[s.Peer]:
		return "connected, and the waits are in a client of " + s.Kind, true
	case (!known || s.Peer == "") && (s.Count > 0 || s.Restarted || s.Reset): // a socket of the file system has no address
		return "the waits are in a client of " + s.Kind, false
	}
	return "", false
}

// calls reports whether a leaf, or who waits for it, stands in a client of a kind.
func (c *Case) calls(kind string, k blame.Key) bool {
	for _, site := range []blame.SiteID{k.Site, k.Last.Site, k.First.Site} {
		if site == 0 {
			continue
		}
		for _, f := range c.A.Timeline().Stacks.Frames(c.A.Sites[site].Stack) {
			for _, prefix := range clients[kind] {
				if strings.HasPrefix(f.Func, prefix) {
					return true
				}
			}
		}
	}
	return false
}

// AskedWithin doubts that a peer is slow where requests ask by a broker, under keys, and the process is connected to itself: the broker
// and who answers may be in it, and what keeps them from it is not followed over a connection. ok is false if there is no doubt.
func (c *Case) AskedWithin(keys []blame.KeyID) (e Evidence, ok bool) {
	if asks := c.askedWithin(keys); len(asks) == 0 || 2*c.Sum(asks) < c.Sum(keys) {
		return e, false
	}
	return Evidence{
		Text:  "they ask by a broker, and the process is connected to itself: the broker, and who answers, may be in it",
		Holds: Unknown, Decides: true, Alike: []string{"single-worker", "timer-wait", "expensive-request"},
		Record: "runtime/trace regions around what whoever answers does for each",
	}, true
}

// askedWithin returns those of keys that are waits for what is asked by a broker, if the process is connected to itself.
func (c *Case) askedWithin(keys []blame.KeyID) []blame.KeyID {
	if c.Host == nil || c.Host.After == nil || !slices.ContainsFunc(c.Host.After.Sockets, func(x host.Socket) bool { return x.Inside }) {
		return nil
	}
	return keep(slices.Clone(keys), func(id blame.KeyID) bool {
		return c.A.Sites[c.Key(id).First.Site].Asks || c.A.Sites[c.Key(id).Site].Asks
	})
}

// remotes are the addresses that the process had connections to when the recording
// ended, those that Dependencies were reached at by that name; known is false where
// they were not recorded, or not all of them.
func (c *Case) remotes() (remotes map[string]bool, known bool) {
	if c.Host == nil || c.Host.After == nil || c.Host.After.SocketsCut || len(c.Host.After.Sockets) == 0 {
		return nil, false
	}
	remotes = map[string]bool{}
	for _, x := range c.Host.After.Sockets {
		if x.Remote == "" || x.Inbound || x.Inside || x.State == "LISTEN" {
			continue
		}
		name := x.Remote
		for i := range c.Dependencies {
			if sameAddress(name, c.Dependencies[i].Peer) {
				name = c.Dependencies[i].Peer
			}
		}
		remotes[name] = true
	}
	return remotes, true
}

// sameAddress compares two addresses; the loopback has several, of which a service
// may use one and whylate another.
func sameAddress(a, b string) bool {
	x, err1 := netip.ParseAddrPort(a)
	y, err2 := netip.ParseAddrPort(b)
	if err1 != nil || err2 != nil {
		return false
	}
	ip, other := x.Addr().Unmap(), y.Addr().Unmap()
	return x.Port() == y.Port() && (ip == other || ip.IsLoopback() && other.IsLoopback())
}

// absent says that the process had no connection to a dependency, if that is known.
func (c *Case) absent(s *dependency.Server) string {
	if remotes, known := c.remotes(); known && s.Peer != "" && !remotes[s.Peer] {
		return " (the process had no connection to this one when the recording ended)"
	}
	return ""
}

// acquitted adds to what was ruled out what dependencies said of themselves.
func (c *Case) acquitted(ruledOut []RuledOut) []RuledOut {
	for i := range ruledOut {
		if ruledOut[i].Cause != "slow-dependency" {
			continue
		}
		for k := range c.Dependencies {
			if s := &c.Dependencies[k]; s.Answered() {
				ruledOut[i].Absent = false // there is more to tell of it
				ruledOut[i].Because += fmt.Sprintf("; %s itself: %s", s.Name(), brief(s))
			}
		}
	}
	return ruledOut
}

// figures puts what a dependency said into words.
func figures(s *dependency.Server) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch {
	case s.Restarted:
		add("it restarted meanwhile, these are its figures since")
	case s.Reset:
		add("its counters were reset meanwhile, these are its figures since")
	}
	if s.Kind == dependency.Redis {
		slow(s, add)
	}
	if s.Count > 0 || s.Kind == dependency.Redis {
		add("%s", brief(s))
	}
	if top := leading(s); top != nil {
		add("mean %s %s over %d calls", clip(top.Name), Ms(float64(top.NS)/float64(top.Count)), top.Count)
	}
	if s.Kind == dependency.Postgres {
		if name, ns := s.Longest(); ns > 0 {
			add("longest %s (%s)", Ms(float64(ns)), clip(name))
		}
		waits(s, add)
	}
	if s.Busy != nil && *s.Busy > fastBusy {
		add("its main thread used %s of a CPU: commands queue", Pct(*s.Busy))
	}
	if len(parts) == 0 {
		return "nothing that could be read"
	}
	return strings.Join(parts, ", ")
}

// slow says what SLOWLOG and the latency events hold.
func slow(s *dependency.Server, add func(string, ...any)) {
	switch {
	case len(s.Slow) > 0:
		above := ""
		if s.SlowAboveNS != nil && *s.SlowAboveNS >= 0 {
			above = " above " + Ms(float64(*s.SlowAboveNS))
		}
		// They are in order, the longest first.
		add("%d commands%s in SLOWLOG (%s up to %s, half of them %s or more)", int64(len(s.Slow))+s.SlowLost, above,
			s.Slow[0].Command, Ms(float64(s.Slow[0].NS)), Ms(float64(s.Slow[(len(s.Slow)-1)/2].NS)))
	case s.SlowLost > 0:
		add("%d commands in SLOWLOG that were overwritten", s.SlowLost)
	case s.SlowAboveNS != nil && *s.SlowAboveNS >= 0:
		add("no command above %s in SLOWLOG", Ms(float64(*s.SlowAboveNS)))
	}
	for _, e := range s.Events[:min(3, len(s.Events))] {
		if !ofCommand(e) {
			add("latency event %s %s", e.Name, Ms(float64(e.MaxNS)))
		}
	}
}

// waits says what sessions of postgres waited for.
func waits(s *dependency.Server, add func(string, ...any)) {
	for _, w := range s.Waits[:min(3, len(s.Waits))] {
		add("sessions waited for %s:%s in %d of %d looks, up to %d at once", w.Type, w.Event, w.Looks, s.Looks, w.Most)
	}
	hidden := slices.ContainsFunc(s.Missing, func(m dependency.Missing) bool { return m.What == dependency.OtherUsers })
	if s.Looks > 0 && len(s.Waits) == 0 && !hidden {
		add("no session waited for anything in %d looks", s.Looks)
	}
}

// brief is the mean and the bound of a dependency's calls.
func brief(s *dependency.Server) string {
	what := map[string]string{dependency.Redis: "commands", dependency.Postgres: "statements"}[s.Kind]
	if s.Count == 0 {
		return "no " + what + " counted"
	}
	text := fmt.Sprintf("%d %s, mean %s", s.Count, what, fine(float64(s.NS)/float64(s.Count)))
	if s.BoundNS > 0 {
		text += ", each at most " + fine(float64(s.BoundNS))
	}
	return text
}

// fine is Ms for what may be far below a hundredth of one.
func fine(ns float64) string {
	if ns < 1e5 {
		return fmt.Sprintf("%.3f ms", ns/1e6)
	}
	return Ms(ns)
}

// leading is the call that took the most time; nil if that is no more than all took on
// average, or there is none.
func leading(s *dependency.Server) *dependency.Call {
	if len(s.Calls) == 0 || s.Calls[0].Count == 0 || s.Count == 0 {
		return nil
	}
	c := &s.Calls[0]
	if float64(c.NS)/float64(c.Count) < 2*float64(s.NS)/float64(s.Count) {
		return nil
	}
	return c
}

// clip shortens a statement to what a sentence bears.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// together is how many requests arrive with an answer, neither before nor after it while it
// is waited for, that do not do so by accident.
const together = 2

// AllAtOnce is the doubt whether it was the peer that was late, or the process, or all that
// comes over the network: with the answers come requests of others, which did not wait for
// the peer, in the same batch of the poller, several at once, after a time in which none came
// that is most of the wait. Clients that send one request after the other send the next one after the
// answer; who is late alone is so while others arrive. There is none unless it is so in most of the
// time for which slow requests waited.
func (c *Case) AllAtOnce() []Evidence {
	found := c.A.Found()
	starts := map[int][]timeline.Time{}
	for i := range found.Requests {
		r := &found.Requests[i]
		if at, ok := c.arrived(r); ok {
			starts[r.Role] = append(starts[r.Role], at)
		}
	}
	for _, ts := range starts {
		slices.Sort(ts)
	}
	var all, atOnce timeline.Time
	n := 0
	for _, i := range c.Tail {
		p := c.A.Requests[i].Peer
		if p.Length() <= 0 {
			continue
		}
		all += p.Length()
		ts := starts[found.Requests[c.A.Requests[i].Request].Role]
		from, _ := slices.BinarySearch(ts, p.To-timeline.PollBatch)
		to, _ := slices.BinarySearch(ts, p.To+timeline.PollBatch)
		begun := p.From
		if from > 0 {
			begun = max(begun, ts[from-1])
		}
		if to-from >= together && 2*(p.To-begun) >= p.Length() {
			n++
			atOnce += p.Length()
		}
	}
	if 2*atOnce <= all {
		return nil
	}
	return []Evidence{{
		Text: fmt.Sprintf("with the answer to %d of %d slow requests came several requests of others at the same instant, and none for most of the wait: the process may have stood still (SIGSTOP, a frozen cgroup, a suspended machine), or the network",
			n, len(c.Tail)),
		Holds: Unknown, Decides: true, Number: float64(atOnce) / float64(all),
		Alike: []string{"host-contention"}, Record: "who stops the process or the machine; " + recordKernel,
	}}
}

// arrived returns when the network woke the goroutine of a request for it.
func (c *Case) arrived(r *request.Request) (at timeline.Time, ok bool) {
	me := &c.A.Timeline().Gs[r.Parts[0].G]
	for i := min(me.SegmentAt(r.Start()+1), me.Len()-1); i >= 0; i-- {
		switch s := me.Seg(i); {
		case s.Start >= r.Start(): // the request's own
		case s.Kind == timeline.Waiting:
			return s.End, s.Reason == timeline.ReasonNetwork && s.Waker == timeline.NoG && s.End >= r.Start()-timeline.PollBatch
		case s.End < r.Start()-timeline.PollBatch:
			return 0, false
		}
	}
	return 0, false
}
