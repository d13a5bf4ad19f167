package cause

import (
	"fmt"
	"slices"
	"sort"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/timeline"
)

// What TCP waits before it sends a segment again that nobody acknowledged, in
// nanoseconds, each time longer than before: 200, 400, 600 ms and so on add up.
// Source: Linux, include/net/tcp.h; RFC 6298 for the second.
const (
	resendStep  = 200e6 // TCP_RTO_MIN, in a connection whose round trips take less
	connectStep = 1e9   // TCP_TIMEOUT_INIT, for the segment that opens a connection
	// resendSteps is how many steps are looked at: further ones are less exact than
	// they are apart.
	resendSteps = 3
	// timerSlack is the part of a delay by which the kernel's timers may be late
	// (kernel/time/timer.c), and roundTrips the most that the way to the peer adds
	// to a time-out, in nanoseconds.
	timerSlack, roundTrips = 1. / 8, 10e6
)

const (
	// inSteps is the part of the time by which slow requests wait longer for a peer
	// that must lie in such steps. Of waits that take anything up to four steps a
	// fifth does by chance.
	inSteps = 0.8
	// resent is how many segments must have been sent again for each wait of a step.
	// Of those whose answer was lost, and not the question, only the peer knows: half
	// of them if both ways are alike.
	resent = 0.3
)

// Resends are waits for a peer that take as long as TCP waits before it sends again.
type Resends struct {
	*Root
	// Step is what they take longer than usual ones, or multiples of it; Usual is the
	// length of those, in nanoseconds. Connect says that they wait for a connection
	// to be opened: there the kernels are alone, and no program answers late.
	Step, Usual float64
	Connect     bool
	// Part is the part of the time by which slow requests wait longer that lies in steps.
	Part float64
	// Stalls are the waits of all requests that took steps longer, in order of their beginning.
	Stalls []timeline.Span
}

// Hold reports whether there are enough of them, and hardly others.
func (r *Resends) Hold() bool {
	return r.Part >= inSteps && (len(r.Stalls) >= Pattern || r.Connect && len(r.Stalls) > 0)
}

// Resends looks for them in the opening of connections or in what is asked on them.
func (c *Case) Resends(connect bool) *Resends {
	of := func(s blame.SiteID) bool {
		return s != 0 && c.A.Sites[s].Kind != blame.SiteDNS && c.A.Sites[s].Connect == connect
	}
	r := &Resends{Step: resendStep, Connect: connect, Root: c.Root(func(k blame.Key) bool {
		return k.Kind == blame.Network && k.Flags&(blame.Blind|blame.Inbound|blame.TimedOut) == 0 && of(k.Site)
	})}
	if connect {
		r.Step = connectStep
	}
	if len(r.Keys) == 0 {
		return r
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
			r.Usual = usual[len(usual)/2]
		}
	}
	var all, in float64
	for _, i := range c.Tail {
		longer := max(0, length(i)-r.Usual)
		all += longer
		if r.step(longer) {
			in += longer
		}
	}
	r.Part = in / max(1, all)
	for _, i := range c.P.All() {
		if r.step(length(i) - r.Usual) {
			r.Stalls = append(r.Stalls, timeline.Span{Start: c.A.Requests[i].Peer.From, End: c.A.Requests[i].Peer.To})
		}
	}
	sort.Slice(r.Stalls, func(i, j int) bool { return r.Stalls[i].Start < r.Stalls[j].Start })
	return r
}

// step reports whether a wait took one of the steps longer than usual ones.
func (r *Resends) step(longer float64) bool {
	n := float64(int(longer / r.Step))
	return n >= 1 && n <= resendSteps && longer-n*r.Step <= n*r.Step*timerSlack+min(r.Usual, roundTrips)
}

// Resent says whether segments were sent again while requests waited so long.
func (c *Case) Resent(r *Resends) Evidence {
	e := Evidence{Decides: true, Alike: []string{"slow-dependency"}, Record: "TCP's counters: run whylate on the machine of the process"}
	if c.Host == nil {
		e.Text = "whether segments were sent again meanwhile is unknown: no host evidence was recorded"
		return e
	}
	in, out, counted := c.Host.resent(r.Stalls, int64(r.Step/2))
	if !counted {
		e.Text = "whether segments were sent again meanwhile was not recorded"
		return e
	}
	own, known := c.Host.ownResent()
	n := float64(len(r.Stalls))
	e.Number, e.Record = in.segments/max(1, n), "packets, or the peer's own counters of segments sent again"
	e.Text = fmt.Sprintf("%.0f segments were sent again in the %s in which %d of these waits lie, %.0f in the other %s (network namespace)",
		in.segments, Ms(in.ns), len(r.Stalls), out.segments, Ms(out.ns))
	if known {
		e.Text += fmt.Sprintf("; %d on connections that the process still has", own)
	}
	switch {
	case in.segments < resent*n:
		e.Holds = No
	case known && float64(own) >= resent*n:
		e.Holds = Yes
	// One more might have been sent in the time without such waits.
	case out.ns > 0 && (out.segments+1)/out.ns*in.ns <= in.segments/2:
		e.Holds = Yes
	}
	return e
}

// resentIn is how many segments were sent again in so many nanoseconds.
type resentIn struct{ segments, ns float64 }

// resent splits what was sent again, and the time, by whether stalls lie between two
// readings of the counter; what is sent again is not before a time after their beginning.
// counted is false without two readings.
func (h *HostView) resent(stalls []timeline.Span, after int64) (in, out resentIn, counted bool) {
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
				return int64(x.Start)+after < s.MonoNS && int64(x.End) > last.MonoNS
			}) {
				k = &in
			}
			k.segments += float64(max(0, s.Net.RetransSegs-last.Net.RetransSegs))
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
