package cause

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/timeline"
)

// Delay is something that TCP waits for.
type Delay int

// The delays: a segment that nobody acknowledged is sent again, in a connection or to
// open one, each time after longer, so that multiples add up; and a segment that is not
// full is held back until the one before is acknowledged, with which the peer takes its
// time if it has nothing to answer yet (Nagle's algorithm and delayed ACKs).
const (
	Resending Delay = iota
	Connecting
	HoldingBack
)

// delays says how long they are, in nanoseconds, how many times that is looked at:
// further multiples are less exact than they are apart, and what they may be longer. To be sent again waits for the smoothed round
// trip, too, in which a peer takes its time to acknowledge what it has no answer to yet.
// Source: Linux, include/net/tcp.h, and __tcp_set_rto there.
var delays = [...]struct {
	step, times, more float64
}{
	Resending:   {200e6, 3, 40e6}, // TCP_RTO_MIN, where round trips take less, and TCP_DELACK_MIN
	Connecting:  {1e9, 3, 0},      // TCP_TIMEOUT_INIT
	HoldingBack: {40e6, 1, 0},     // TCP_DELACK_MIN
}

const (
	// timerSlack is the part of a delay by which the kernel's timers may be late, and
	// jiffy the least that they may be, in nanoseconds (kernel/time/timer.c, 100 Hz).
	timerSlack, jiffy = 1. / 8, 10e6
	// roundTrips is the most that the way to the peer adds to a delay.
	roundTrips = 10e6
)

const (
	// inSteps is the part of the time by which slow requests wait longer for a peer
	// that must lie in such steps. Of waits that take anything up to four steps two
	// fifths do by chance.
	inSteps = 0.8
	// resent is how many segments must have been sent again for each wait of a step.
	// Of those whose answer was lost, and not the question, only the peer knows: half
	// of them if both ways are alike.
	resent = 0.3
)

// Delayed are waits for a peer that take as long as TCP itself waits for something.
type Delayed struct {
	*Root
	By Delay
	// Step is what they take longer than usual ones, or multiples of it; Usual is the
	// length of those, in nanoseconds.
	Step, Usual float64
	// Part is the part of the time by which slow requests wait longer that lies in steps.
	Part float64
	// Stalls are the waits of all requests that took steps longer, in order of their
	// beginning; InParts is how many of them follow on two writes or more.
	Stalls  []timeline.Span
	InParts int
}

// Hold reports whether there are enough of them, and hardly others; Unknown if only their number is too small. To open a
// connection is for the kernels alone, no program answers late there.
func (d *Delayed) Hold() Truth {
	n := len(d.Stalls)
	switch {
	case d.Part < inSteps || n == 0:
		return No
	case d.By == Connecting:
		return Yes
	case d.By == HoldingBack && float64(d.InParts) < inSteps*float64(n):
		return No
	case n < Pattern && d.By == Resending:
		return Unknown
	}
	return Of(n >= Pattern)
}

// Delayed looks for waits that a delay of TCP's explains.
func (c *Case) Delayed(by Delay) *Delayed {
	of := func(s blame.SiteID) bool {
		return s != 0 && c.A.Sites[s].Kind != blame.SiteDNS && c.A.Sites[s].Connect == (by == Connecting)
	}
	d := &Delayed{By: by, Step: delays[by].step, Root: c.Root(func(k blame.Key) bool {
		return k.Kind == blame.Network && k.Flags&(blame.Blind|blame.Inbound|blame.TimedOut) == 0 && of(k.Site)
	})}
	if len(d.Keys) == 0 {
		return d
	}
	length := func(i int) float64 {
		if p := c.A.Requests[i].Peer; of(p.Site) {
			return float64(p.Length())
		}
		return 0
	}
	if c.Contrast == TailContrast && !c.P.Whole { // else the usual ones are slow
		var usual []float64
		for _, i := range c.Typical {
			usual = append(usual, length(i))
		}
		slices.Sort(usual)
		if len(usual) > 0 {
			d.Usual = usual[len(usual)/2]
		}
	}
	// What calls on one connection wait for together began with the first of them.
	type read struct {
		g  timeline.GID
		to timeline.Time
	}
	first := map[read]int{}
	for _, i := range c.P.All() {
		if p := c.A.Requests[i].Peer; of(p.Site) {
			if j, ok := first[read{p.G, p.To}]; !ok || p.From < c.A.Requests[j].Peer.From {
				first[read{p.G, p.To}] = i
			}
		}
	}
	steps := func(i int) bool {
		p := c.A.Requests[i].Peer
		j, ok := first[read{p.G, p.To}]
		return ok && d.step(length(j)-d.Usual)
	}
	var all, in float64
	for _, i := range c.Tail {
		longer := max(0, length(i)-d.Usual)
		all += longer
		if steps(i) {
			in += longer
		}
	}
	d.Part = in / max(1, all)
	for _, i := range c.P.All() {
		if p := c.A.Requests[i].Peer; steps(i) && first[read{p.G, p.To}] == i {
			d.Stalls = append(d.Stalls, timeline.Span{Start: p.From, End: p.To})
			if by == HoldingBack && c.A.Written(p) > 1 {
				d.InParts++
			}
		}
	}
	sort.Slice(d.Stalls, func(i, j int) bool { return d.Stalls[i].Start < d.Stalls[j].Start })
	return d
}

// step reports whether a wait took one of the steps longer than usual ones.
func (d *Delayed) step(longer float64) bool {
	n := float64(int(longer / d.Step))
	by := delays[d.By]
	return n >= 1 && n <= by.times && longer-n*d.Step <= max(n*d.Step*timerSlack, jiffy)+min(d.Usual, roundTrips)+by.more
}

// recordTCP is where TCP's own evidence is to be had.
const recordTCP = "TCP's counters and connections: run whylate on the machine of the process, without --no-host"

// Resent says whether segments were sent again while requests waited so long. What the peer has to send again this machine
// does not see, but that what the peer sent behind it came first.
func (c *Case) Resent(d *Delayed) Evidence {
	e := c.resent(d)
	if e.Holds != No || d.By != Resending {
		return e
	}
	n := float64(len(d.Stalls))
	in, out, counted := c.Host.grown(d.Stalls, 0, int64(d.Usual+d.Step/2), func(n *host.Net) int64 { return n.OutOfOrder })
	if counted && in.segments >= resent*n && seldom(in, out) {
		e.Holds, e.Number = Yes, in.segments/max(1, n)
		e.Text += fmt.Sprintf("; but %.0f segments came out of order in the %s in which %d of these waits began, %.0f in the other %s (network namespace): others that the peer had sent before were lost",
			in.segments, Ms(in.ns), len(d.Stalls), out.segments, Ms(out.ns))
	}
	return e
}

// seldom reports whether hardly anything of a counter grew elsewhere: one more might have in that time.
func seldom(in, out segmentsIn) bool {
	return out.ns > 0 && (out.segments+1)/out.ns*in.ns <= in.segments/2
}

func (c *Case) resent(d *Delayed) Evidence {
	e := Evidence{Decides: true, Alike: []string{"slow-dependency"}, Record: recordTCP}
	if c.Host == nil {
		e.Text = "whether segments were sent again meanwhile is unknown: no host evidence was recorded"
		return e
	}
	if k, ok := c.sentAgain(d); ok {
		return k
	}
	in, out, counted := c.Host.grown(d.Stalls, int64(d.Step/2), math.MaxInt64, func(n *host.Net) int64 { return n.RetransSegs })
	if !counted {
		e.Text = "whether segments were sent again meanwhile was not recorded"
		return e
	}
	own, known := c.Host.ownResent()
	n := float64(len(d.Stalls))
	e.Number, e.Record = in.segments/max(1, n), "packets, or the peer's own counters of segments sent again"
	e.Text = fmt.Sprintf("%.0f segments were sent again in the %s in which %d of these waits lie, %.0f in the other %s (network namespace)",
		in.segments, Ms(in.ns), len(d.Stalls), out.segments, Ms(out.ns))
	if known {
		e.Text += fmt.Sprintf("; %d on connections that the process still has", own)
	}
	switch {
	case in.segments < resent*n:
		e.Holds = No
	case known && float64(own) >= resent*n:
		e.Holds = Yes
	case seldom(in, out):
		e.Holds = Yes
	}
	return e
}

// sentAgain is what Resent says where the kernel told when each connection sent something
// again. ok is false where that decides nothing.
func (c *Case) sentAgain(d *Delayed) (e Evidence, ok bool) {
	t := c.kernel.TCP
	if t == nil || c.Host.After == nil || t.Lost > 0 || t.More > 0 {
		return e, false
	}
	listens := map[string]bool{} // by port
	for _, x := range c.Host.After.Sockets {
		if x.State == "LISTEN" {
			listens[x.Local[strings.LastIndexByte(x.Local, ':')+1:]] = true
		}
	}
	var at []int64
	own := map[string]int64{} // by peer
	for _, x := range t.Connections {
		if listens[x.Local[strings.LastIndexByte(x.Local, ':')+1:]] {
			continue
		}
		at, own[x.Remote] = append(at, x.AtNS...), own[x.Remote]+x.Again+x.Syns
	}
	slices.Sort(at)
	within := func(from, to timeline.Time) int { // how many were sent then
		i, _ := slices.BinarySearch(at, int64(from))
		j, _ := slices.BinarySearch(at, int64(to)+1)
		return max(0, j-i)
	}
	n := float64(len(d.Stalls))
	explained, outside, free := 0., float64(len(at)), float64(t.ToNS-t.FromNS)
	var last timeline.Time
	for _, s := range d.Stalls {
		if int64(s.Start) < t.FromNS || int64(s.End) > t.ToNS {
			return e, false
		}
		if within(s.Start, s.End) > 0 {
			explained++
		}
		if from := max(s.Start, last); from < s.End {
			outside -= float64(within(from, s.End))
			free -= float64(s.End - from)
			last = s.End + 1
		}
	}
	// What is sent again at any time is by chance in some of them.
	var chance float64
	for _, s := range d.Stalls {
		chance += 1 - math.Exp(-max(0, outside)/max(1, free)*float64(s.End-s.Start))
	}
	var all, most int64
	peer := ""
	for _, p := range slices.Sorted(maps.Keys(own)) {
		if all += own[p]; own[p] > most {
			peer, most = p, own[p]
		}
	}
	e = Evidence{
		Decides: true, Alike: []string{"slow-dependency"}, Record: "packets, or the peer's own counters of segments sent again",
		Text: fmt.Sprintf("in %.0f of %.0f of these waits the kernel sent a segment again on a connection that the process had opened, %.1f would be by chance; %d in all",
			explained, n, chance, all),
		Number: explained / max(1, n),
	}
	if peer != "" {
		e.Text += fmt.Sprintf(", %d of them to %s", most, peer)
	}
	switch {
	case explained-chance >= resent*n:
		e.Holds = Yes
	case float64(all+t.Others) < resent*n:
		e.Holds = No
	default:
		return e, false
	}
	return e, true
}

// HeldBack says whether the kernel may hold back what a connection sends, and what is in doubt where as many connections are not so.
func (c *Case) HeldBack() (e Evidence, doubt []Evidence) {
	e = Evidence{Decides: true, Alike: []string{"slow-dependency"}, Record: recordTCP, Text: "whether connections hold back segments that are not full (TCP_NODELAY) is unknown"}
	if c.Host == nil || c.Host.After == nil {
		return e, doubt
	}
	back, known := 0, 0
	for _, x := range c.Host.After.Sockets {
		if x.NoDelay != nil {
			known++
			if !*x.NoDelay {
				back++
			}
		}
	}
	if known == 0 {
		e.Record = "TCP_NODELAY of the connections: run whylate as root"
		return e, doubt
	}
	e.Text = fmt.Sprintf("%d of %d connections that the process opened hold back segments that are not full (TCP_NODELAY is off, which Go sets)", back, known)
	e.Number = float64(back)
	if back > 0 && 2*back <= known {
		doubt = append(doubt, Evidence{Text: "whether the requests wait on one of these is not known"})
	}
	e.Holds = Of(back > 0) // it is asked of waits in steps that follow on several writes, and no connection is so by chance
	return e, doubt
}

// segmentsIn is how many segments were counted in so many nanoseconds.
type segmentsIn struct{ segments, ns float64 }

// grown splits what a counter counted, and the time, by whether stalls lie between two
// readings of it, from a time after their beginning on, and to another one at most.
// counted is false without two readings.
func (h *HostView) grown(stalls []timeline.Span, after, until int64, counter func(n *host.Net) int64) (in, out segmentsIn, counted bool) {
	var last *host.Sample
	for i := range h.Samples {
		s := &h.Samples[i]
		if s.Net == nil {
			continue
		}
		if last != nil {
			counted = true
			k := &out
			if slices.ContainsFunc(stalls, func(x timeline.Span) bool {
				return int64(x.Start)+after < s.MonoNS && int64(x.Start)+min(until, int64(x.End-x.Start)) > last.MonoNS
			}) {
				k = &in
			}
			k.segments += float64(max(0, counter(s.Net)-counter(last.Net)))
			k.ns += float64(s.MonoNS - last.MonoNS)
		}
		last = s
	}
	return in, out, counted
}

// ownResent is how many segments were sent again on the connections that the process
// opened and has at the end, since they were opened.
func (h *HostView) ownResent() (n int64, known bool) {
	if h.After == nil {
		return 0, false
	}
	for _, x := range h.After.Sockets {
		if x.Retrans != nil {
			n, known = n+*x.Retrans, true
		}
	}
	return n, known
}
