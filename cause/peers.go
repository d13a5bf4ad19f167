package cause

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/timeline"
)

// PeerWaits returns the free leaves that are waits for peers over the network: not those for clients, nor for
// connecting and names, unless nobody was there.
func (c *Case) PeerWaits() []blame.KeyID {
	return c.Free(func(k blame.Key) bool {
		if c.Unconnected(k) {
			return true
		}
		if k.Kind != blame.Network || k.Flags&(blame.Blind|blame.Inbound) != 0 || c.A.Sites[k.Site].Dial {
			return false
		}
		switch c.A.Sites[k.Site].Kind {
		case blame.SiteInbound, blame.SiteDial, blame.SiteDNS:
			return false
		}
		return true
	})
}

// connectedTold is how many addresses of peers are told.
const connectedTold = 3

// Connected says to whom the process was connected in the end, beside its clients and itself: one of these is who it asks. There is
// none where that was not recorded, or nobody was left.
func (c *Case) Connected() []Evidence {
	if c.Host == nil || c.Host.After == nil || c.Host.After.SocketsCut {
		return nil
	}
	n, all := map[string]int{}, 0
	for _, s := range c.Host.After.Sockets {
		if s.Remote != "" && !s.Inbound && !s.Inside {
			n[s.Remote]++
			all++
		}
	}
	if all == 0 {
		return nil
	}
	to := slices.Collect(maps.Keys(n))
	slices.SortFunc(to, func(x, y string) int { return cmp.Or(cmp.Compare(n[y], n[x]), cmp.Compare(x, y)) })
	var told []string
	for _, a := range to[:min(len(to), connectedTold)] {
		told = append(told, fmt.Sprintf("%s (%d)", a, n[a]))
	}
	text := fmt.Sprintf("connections to others in the end, by address: %s", strings.Join(told, ", "))
	if more := len(to) - len(told); more > 0 {
		text += fmt.Sprintf(", and to %d more", more)
	}
	return []Evidence{{Text: text, Holds: Yes, Number: float64(all)}}
}

// inTurn is how many holders slow requests wait for, one after the other, from which on it is their queue that takes long, however
// late the peer of each is.
const inTurn = 2

// OutOfQueues returns keys without those of queues in which slow requests wait for several holders, one after the other.
func (c *Case) OutOfQueues(keys []blame.KeyID) []blame.KeyID {
	in := map[blame.SiteID][]blame.KeyID{}
	for _, id := range keys {
		if site := c.A.Place(c.Key(id).Queue.Site); site != 0 {
			in[site] = append(in[site], id)
		}
	}
	for _, queued := range in {
		if c.MeanHolders(queued) >= inTurn {
			keys = without(keys, queued)
		}
	}
	return keys
}

const (
	// peersLate is the part of how much longer slow requests wait for peers that their threads must have waited
	// for a CPU meanwhile, in sum, for these to be why.
	peersLate = 0.5
	// othersMost is the part of the CPUs' time that the peers must have had to be who had them, or others; and the part of
	// the peers' waits that may be behind the process and the peers themselves where others had them, which shows even
	// where samples are longer than requests.
	othersMost = 0.5
	// peersSome is the part of how much longer slow requests wait for peers that their threads must have waited for a CPU to be in doubt
	// where others had othersAll of the CPUs' time, so nearly all of it: what the peers themselves wait for is late then, too.
	peersSome, othersAll = 0.25, 0.9
)

// PeersStarved says whether the peers that requests wait for, under keys, did not get the CPUs of this machine:
// whether their threads waited for one more than in typical requests. It is Yes if others had them, Unknown if nobody
// had most of them, if one of several may have waited for hardly any of that, or if others had nearly all of them and that is but a part of it, No if the peers had, or had a quota; ok is false if nothing is known. idle is the part of the CPUs' time that was.
func (c *Case) PeersStarved(keys []blame.KeyID) (e Evidence, idle float64, ok bool) {
	h := c.Host
	if h == nil || !h.Machine || !h.OwnCPUs() || h.After == nil || len(h.After.Peers) == 0 || len(keys) == 0 {
		return e, 0, false
	}
	requests, ns, _ := c.carriers(keys)
	slow := h.Over(hostSpans(c.spansOf(requests)))
	usual := h.Over(hostSpans(c.spansOf(c.Typical)))
	if slow.Confined || slow.PeersNS < covered*slow.WallNS || usual.PeersNS < covered*usual.WallNS || slow.PeersNS == 0 || ns <= 0 { // a peer may use other CPUs
		return e, 0, false
	}
	rate := func(u host.Usage) float64 { return u.PeersDelayNS / max(1, u.PeersNS) }
	waited := rate(slow) * c.mean(requests)
	more := waited - rate(usual)*c.mean(c.Typical)
	cpus := float64(max(1, h.CPUs()))
	wall := max(1, slow.WallNS)
	idle = (slow.IdleNS + slow.IOWaitNS) / max(1, slow.CPUNS())
	own, theirs := (slow.RunNS+slow.ChildrenNS)/wall/cpus, slow.PeersRunNS/max(1, slow.PeersNS)/cpus
	others := max(0, 1-idle-own-theirs)
	e = Evidence{
		Text: fmt.Sprintf("the threads of %s waited for a CPU for %s during a slow request, in which requests wait %s longer for peers; meanwhile these used %s of the %d CPUs, the process itself %s, others %s",
			c.peerNames(), Ms(waited), Ms(ns), Pct(theirs), h.CPUs(), Pct(own), Pct(others)),
		Number: more / ns,
	}
	ran := slow.RunNS + slow.ChildrenNS + slow.PeersRunNS
	kept := slow.PeersDelayNS >= DelayedMin*(slow.PeersDelayNS+slow.PeersRunNS) && c.peersFree() && (!c.P.Whole || c.unevenCalls(keys))
	late, some := more >= peersLate*ns, more >= peersSome*ns && others >= othersAll
	switch {
	case !kept || !late && !some || theirs >= othersMost || c.callsElsewhere():
		e.Holds = No
	case late && (slow.PeersDelayNS >= ran/othersMost && others > own+theirs || others >= othersMost) && more >= peersLate*ns*float64(c.peers()):
		e.Holds = Yes
	case idle >= roomy:
		e.Holds = No
	default:
		e.Alike, e.Record = []string{"host-contention"}, "the same with CPUs to spare, or the peers on another machine"
	}
	return e, idle, true
}

// fastest is the part of calls that take the least: what they take is not what a CPU is waited for.
const fastest = 0.1

// unevenCalls reports whether calls of a peer under keys take so much longer during slow requests than the fastest ones that waits for
// a CPU may be most of that: all its threads together may wait for as long as many requests queue for the same few calls.
func (c *Case) unevenCalls(keys []blame.KeyID) bool {
	site, _ := TopBy(c, keys, func(k blame.Key) blame.SiteID { return k.Site })
	calls, _ := c.A.EndedByNone(site)
	var all []int64
	var sum, n float64
	for _, w := range calls {
		d := int64(w.End - w.Start)
		all = append(all, d)
		if timeline.Overlap(c.tailSpans(), w.Start, w.End) > 0 {
			sum, n = sum+float64(d), n+1
		}
	}
	if n == 0 {
		return true // others end them
	}
	slices.Sort(all)
	return sum/n-float64(all[int(fastest*float64(len(all)))]) >= peersLate*sum/n
}

// ClientsStarved says whether clients on this machine may have got no CPU while slow requests spend time under keys, in which they wait
// for them: who has none sends late, and takes late. Nothing is recorded of clients. Where the CPUs were busy meanwhile, and the
// process's own threads waited for them, in sum for peersLate of that time or longer, so may clients have: it is Unknown. Else it is
// No; ok is false if clients are elsewhere, or nothing is known.
func (c *Case) ClientsStarved(keys []blame.KeyID) (e Evidence, ok bool) {
	h := c.Host
	if h == nil || !h.Machine || !h.OwnCPUs() || h.After == nil || len(keys) == 0 || !c.clientsHere() {
		return e, false
	}
	requests, _, _ := c.carriers(keys)
	slow := h.Over(hostSpans(c.spansOf(requests)))
	if slow.CPUNS() <= 0 || slow.WallNS <= 0 {
		return e, false
	}
	idle, waiting := (slow.IdleNS+slow.IOWaitNS)/slow.CPUNS(), slow.DelayNS/slow.WallNS
	e = Evidence{
		Text:  fmt.Sprintf("clients are on this machine, too: %s of it was idle during these requests, and %.2f of the process's threads waited for a CPU on average", Pct(idle), waiting),
		Holds: Yes, Number: waiting,
	}
	if idle < roomy && waiting >= peersLate {
		e.Text += ": clients may have waited for one, too"
		e.Holds, e.Decides, e.Alike, e.Record = Unknown, true, []string{"host-contention"}, "the same with the clients on another machine"
	}
	return e, true
}

// recorders is how many connections of who records the process may be open in the end.
const recorders = 3

// clientsHere reports whether most of the process's clients, as far as their connections were open in the end, are on the same machine;
// who records it is none.
func (c *Case) clientsHere() bool {
	asked := ""
	if u, err := url.Parse(c.Target.URL); err == nil {
		asked = u.Port()
	}
	here, all, own := 0, 0, 0
	for _, s := range c.Host.After.Sockets {
		_, port, err := net.SplitHostPort(s.Local)
		if err != nil || !s.Inbound || s.Inside {
			continue
		}
		if fromHere(s) {
			if port == asked && own < recorders {
				own++
				continue
			}
			here++
		}
		all++
	}
	return 2*here > all
}

// fromHere reports whether a connection is that of a client on the same machine.
func fromHere(s host.Socket) bool {
	remote, _, err := net.SplitHostPort(s.Remote)
	if err != nil || !s.Inbound || s.Inside {
		return false
	}
	local, _, err := net.SplitHostPort(s.Local)
	return err == nil && remote == local
}

// callsElsewhere reports whether the process was connected to others than these peers in the end: then it may be one
// of them that it waits for.
func (c *Case) callsElsewhere() bool {
	return slices.ContainsFunc(c.Host.After.Sockets, func(s host.Socket) bool {
		return s.Remote != "" && !s.Inbound && !s.Inside &&
			!slices.ContainsFunc(c.Host.After.Peers, func(p host.Peer) bool { return p.Address == s.Remote || slices.Contains(p.Also, s.Remote) })
	})
}

// peersFree reports whether quotas stopped the peers for less than half of the time for which their threads waited
// for a CPU: to the kernel that is a wait, too.
func (c *Case) peersFree() bool {
	var stopped float64
	for _, p := range c.Host.After.Peers {
		stopped += float64(p.ThrottledNS)
	}
	return stopped < peersLate*c.Host.Whole.PeersDelayNS
}

// peers is how many processes the peers on this machine are: slow requests may wait for one of them only.
func (c *Case) peers() int {
	pids := map[int]bool{}
	for _, p := range c.Host.After.Peers {
		pids[p.PID] = true
	}
	return len(pids)
}

// peerNames names the processes of the machine that the process calls.
func (c *Case) peerNames() string {
	first := c.Host.After.Peers[0]
	name := "process " + strconv.Itoa(first.PID)
	if first.Name != "" {
		name = strconv.Quote(first.Name) + " (" + name + ")"
	}
	same := !slices.ContainsFunc(c.Host.After.Peers, func(p host.Peer) bool { return p.PID != first.PID })
	if same {
		return "the peer on this machine, " + name + ","
	}
	return fmt.Sprintf("the %d peers on this machine, such as %s,", len(c.Host.After.Peers), name)
}
