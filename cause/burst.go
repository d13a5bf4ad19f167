package cause

import (
	"fmt"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
)

// A process that computes in a burst has its own threads wait for a CPU, and the kernel gives
// others, such as its clients and its peers on the same host, their turns meanwhile. That looks as if these were
// in its way. It is told from a neighbour by who had the CPUs, and by whether others use more of them
// than at other times.

// ownCPUs is the part of the CPUs' time that the process's own threads must have, while others of them wait for a
// CPU, for it to be in its own way, and burstMore how many times as much CPU time as at other times it must use. In recordings
// with a neighbour these had at most 7 % of it, with a burst of their own 30 to 49 % and 1.3 to 4 times as much.
const ownCPUs, burstMore = 0.25, 1.2

// othersMore is how many times as much of the CPUs as at other times others may use meanwhile: who serves
// the process, or asks it, has more to do when it has (1.1 to 1.8 times in recordings with a burst, 4.7 with a neighbour that
// came and went).
const othersMore = 2

// alwaysBusy is the part of the CPUs that is idle at other times up to which others compute all the time: they are in the way of
// whoever wants one, though they use no more than ever. Where more is idle, but not a good part, others must not use more, the
// hypervisor with them (0.65 to 0.97 times in six recordings with a burst, 1.2 to 2.4 in six with a neighbour).
const alwaysBusy = 0.05

// yields returns the number of the outcome that is contention for the host's CPUs, if it comes with what
// another outcome names, to what, and why; else -1. Of those that sure accepts one must compute and take as much, or compute
// for no request and take half as much.
func (c *Case) yields(outcomes []outcome, shares []blame.Share, material, sure func(i int) bool) (contention int, to, why string) {
	contention = slices.IndexFunc(outcomes, func(o outcome) bool { return o.entry.Contends })
	if contention < 0 || !material(contention) || c.Contrast != TailContrast {
		return -1, "", ""
	}
	own, noMore, ok := c.inItsOwnWay()
	if !ok {
		return -1, "", ""
	}
	robbed, others := 0.0, "other processes used less than twice what they use at other times"
	if noMore {
		robbed, others = c.robbed(outcomes[contention].j.Keys), "others, the hypervisor with them, used no more than at other times"
	}
	for i, o := range outcomes {
		if i == contention || o.holds != Yes || !o.entry.Computes || !sure(i) {
			continue
		}
		if x, all := shares[i].Share, shares[contention].Share-robbed; x >= all || 2*x >= all && c.burst(o) {
			return contention, o.entry.ID, fmt.Sprintf("while threads wanted a CPU the process's own had %s of them, and used more than at other times; %s, when CPUs are idle: it comes with %s", Pct(own), others, o.entry.ID)
		}
	}
	return -1, "", ""
}

// robbed is the part of the excess under keys in which a hypervisor had a CPU that threads seemed to have: it takes CPUs from who
// computes on them, and more, the more he does; where all others together had no more than at other times, that is why.
func (c *Case) robbed(keys []blame.KeyID) float64 {
	return c.Share(keep(keys, func(id blame.KeyID) bool { return c.Key(id).Off == events.Robbed }))
}

// burst reports whether what an outcome names computes, and not for requests.
func (c *Case) burst(o outcome) bool {
	return o.entry.Layer == GC || o.entry.Layer == Scheduler && !c.A.Serves(c.Processors().Class)
}

// inItsOwnWay reports whether the process's own threads are among those that have the CPUs while slow requests
// want one, and with which part of them; whether it uses more of them than at other times, when some are idle; and whether others
// are not known to use many more. noMore: they use no more, the hypervisor with them.
func (c *Case) inItsOwnWay() (own float64, noMore, ok bool) {
	h := c.Host
	if h == nil || !h.Machine || !h.OwnCPUs() || h.Rest.WallNS < restMin*h.Whole.WallNS {
		return 0, false, false
	}
	own = h.Crowd().Own
	if c.Watched() {
		var crowded, queued float64
		for i, k := range c.A.Keys {
			switch k.Off {
			case events.Crowded:
				crowded += max(0, c.NS[i])
			case events.Queued:
				queued += max(0, c.NS[i])
			}
		}
		own = crowded / max(1, crowded+queued)
	}
	use := func(u *host.Usage) float64 { return u.RunNS / max(1, u.CPUNS()) }
	others := func(u *host.Usage) float64 { return max(0, u.BusyNS-u.RunNS-u.ChildrenNS) / max(1, u.CPUNS()) }
	noMore = h.Rest.IdleNS+h.Rest.IOWaitNS > alwaysBusy*h.Rest.CPUNS() && others(&h.Tail)+h.Tail.Stolen() <= others(&h.Rest)+h.Rest.Stolen()
	asEver := noMore || h.Roomy() && others(&h.Tail) < othersMore*others(&h.Rest)
	return own, noMore, own >= ownCPUs && use(&h.Tail) >= burstMore*use(&h.Rest) && asEver
}
