package cause

import (
	"fmt"
	"math"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
)

// lead says which findings of the case's contrast are named before one with a larger share: a queue
// before what its holders do, if all requests together lose more in the queue, and, where slow
// requests' whole time was split, what has grown before what takes as long as always, if it is not
// certain which of the two is larger.
//
// The tail is where requests are that do the slow thing themselves: they take all of it, while those
// that queue come at any time, and wait for what is left of it.
func (c *Case) lead(fs []Finding) {
	var first *Finding
	for i := range fs {
		if f := &fs[i]; f.Contrast == c.Contrast && (first == nil || f.order > first.order) {
			first = f
		}
	}
	if first == nil || c.Contrast != TailContrast {
		return
	}
	for i := range fs {
		f := &fs[i]
		if f == first || f.Contrast != c.Contrast {
			continue
		}
		why := ""
		if queued, held := c.lost(f.keys), c.lost(first.keys); c.standsBefore(f, first) && queued > held {
			why = fmt.Sprintf("all requests together lose %s in this queue, and %s in what its holders wait for (%s): the slowest ones are those that hold", Ms(queued), Ms(held), first.Cause)
		} else if grown := c.grown(f.keys); c.P.Whole && overlap(f, first) && grown > 0 && c.grown(first.keys) <= 0 {
			why = fmt.Sprintf("slow requests spend %s more in it than typical ones do; %s takes them no longer", Ms(grown), first.Cause)
		} else {
			continue
		}
		f.order, f.Evidence = math.Nextafter(first.order, math.Inf(1)), append(f.Evidence, why)
		return
	}
}

// accompanies names contention for the host's CPUs that is less than ContendsShare of the tail's excess, but for the mix, behind
// what else was found, if that takes a part of it that counts, and else as a look-alike; that it is, too, if it is scattered under
// the keys of the finding. Its share includes that of look-alikes that may be more of it, where that is little beside it: else it may as well be something else. It returns what
// a slow request loses to it, in nanoseconds, if nothing else is found or suspected, and 0 otherwise.
func (v *Verdict) accompanies(c *Case, set Settings, scattered func([]blame.KeyID) bool) (alone float64) {
	i := slices.IndexFunc(v.Findings, func(f Finding) bool { return f.Contrast == TailContrast && Lookup(f.Cause).Contends })
	if c.Contrast != TailContrast || c.P.Whole || i < 0 {
		return 0
	}
	f := v.Findings[i]
	like, found, suspected, crowds := 0.0, 0.0, 0.0, false
	for j := range v.Findings {
		if x := &v.Findings[j]; i != j && x.Contrast == TailContrast && x.order > found {
			found, crowds = x.order, Lookup(x.Cause).Crowds
		}
	}
	for _, x := range v.Consistent {
		if x.Contrast == TailContrast {
			if slices.Contains(x.Causes, f.Cause) {
				like += x.Share
			} else {
				suspected = max(suspected, x.Share)
			}
		}
	}
	sure := f.Share
	if like < besideShare*f.Share {
		sure += like
	}
	short := found == 0 && f.Share < ShortContends && c.waitsShortly(v.Tail.Excess, set)
	if sure >= ContendsShare*unmixed(v.Mix) && !short {
		return 0
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("it is %s of what slow requests take longer: whatever gives the process, its peers or its clients more to do has them wait for CPUs, too", Pct(f.Share)))
	beside := found >= besideShare*f.Share
	many := beside && scattered(f.keys)
	if crowds && found < crowdShare*f.Share && !many {
		v.Findings[i] = f
		return 0
	}
	if many {
		f.Evidence = append(f.Evidence, "no program is known to have had them for half of that time, nor the hypervisor")
	}
	if beside && !many {
		f.order = min(f.order, math.Nextafter(found, 0))
		v.Findings[i] = f
		return 0
	}
	v.Consistent = append(v.Consistent, Consistent{
		Causes: []string{f.Cause}, Share: f.Share, Record: recordAlone, Contrast: f.Contrast, Where: f.Where,
		Summary: f.Summary, Evidence: f.Evidence, keys: f.keys, accompanies: true, last: many || suspected >= besideShare*f.Share, found: many,
	})
	v.Findings = slices.Delete(v.Findings, i, i+1)
	if found > 0 || suspected > 0 || like >= f.Share {
		return 0
	}
	return float64(f.ExcessNS)
}

// oneHas is the part of the time in which others had the CPUs that one of them is known to have had if it is told from the process's own
// load, which wakes many. In 43 recordings where contention was found beside something else, it had been planted in none. In 17 of these
// it was asked who had the CPUs: in 8 nobody had them for so long.
const oneHas = 0.5

// scattered reports whether it was asked who had the CPUs, and no other program and not the hypervisor is known to have had them for
// oneHas of the time under keys in which others than the process had them. Where one of its own threads had it before, it is not known
// who had it before that. It is false where peers on the machine lacked CPUs for most of that time, too: who had those was not asked.
func (c *Case) scattered(keys []blame.KeyID) bool {
	if !c.Watched() {
		return false
	}
	in := func(state events.State) float64 {
		return max(0, c.Sum(keep(keys, func(id blame.KeyID) bool { return c.Key(id).Off == state })))
	}
	others, robbed := in(events.Queued), in(events.Robbed)
	if 2*(others+robbed) < c.Sum(keys) {
		return false
	}
	list, none := c.programs()
	most := 0.0
	if len(list) > 0 {
		most = list[0].Share
	}
	return most+none > 0 && max(robbed, most*others) < oneHas*(others+robbed)
}

// waitsShortly reports whether threads that wait for a CPU make requests late by so little, in nanoseconds, that nobody minds: by no
// more than waking up may cost where a good part of the machine is idle.
func (c *Case) waitsShortly(late float64, s Settings) bool {
	return s.SLO == 0 && late < HealthyMany && c.Host.Roomy()
}

// besideShare is the part of contention for the host's CPUs that something else must take to be named before it: in recordings
// where that was what had been planted it took 0.45 to 1 of it.
const besideShare = 0.4

// crowdShare is the part of contention for the host's CPUs that what follows from it, too, must take to be named before it. Where that
// had been planted it took 0.97 of it, and where a neighbour had been 0.45 and 0.53.
const crowdShare = 0.75

// recordAlone is how to learn what is left when nobody else wants the CPUs.
const recordAlone = "the service on CPUs that its clients, its peers and other jobs do not use"

// standsBefore reports whether most of the time of a finding was spent in queues whose holders do
// what those of another one do themselves.
func (c *Case) standsBefore(queue, other *Finding) bool {
	does := map[shareable]bool{}
	for _, id := range other.keys {
		if k := c.Key(id); Waits(k) {
			if kind, _ := c.Serial(k); kind == NoQueue || kind == Reader {
				does[c.doneIn(k)] = true
			}
		}
	}
	same, all := 0.0, 0.0
	for _, id := range queue.keys {
		k := c.Key(id)
		if kind, _ := c.Serial(k); kind == Lock || kind == Pool {
			if does[c.doneIn(k)] {
				same += c.NS[id]
			}
		}
		all += c.NS[id]
	}
	return same > 0.5*all
}

// doneIn is what a leaf is about, whoever does it: what is behind the queue in which it was spent.
func (c *Case) doneIn(k blame.Key) shareable {
	s := shareable{k.Kind, k.Site, k.Last.Site}
	if kind, h := c.Serial(k); k.Last == h && kind != Reader {
		s.caller = 0
	}
	return s
}

// lost is what all requests together spent under keys, in nanoseconds.
func (c *Case) lost(keys []blame.KeyID) (ns float64) {
	return c.spent(c.P.All(), keys)
}

// grown is by how much more a slow request spends under keys than a typical one, in nanoseconds.
func (c *Case) grown(keys []blame.KeyID) float64 {
	tail, typical := c.Spent(keys)
	return tail - typical
}

// Spent returns the mean time under keys of slow requests and of typical ones, in nanoseconds.
func (c *Case) Spent(keys []blame.KeyID) (tail, typical float64) {
	return c.spent(c.Tail, keys) / c.count(c.Tail), c.spent(c.Typical, keys) / c.count(c.Typical)
}

func (c *Case) spent(requests []int, keys []blame.KeyID) (ns float64) {
	in := make([]bool, len(c.A.Keys))
	for _, id := range keys {
		in[id] = true
	}
	for _, r := range requests {
		for _, p := range c.A.Requests[r].Pieces {
			if in[p.Key] {
				ns += c.A.Weight[r] * float64(p.NS)
			}
		}
	}
	return ns
}

// count is how many requests attributed ones stand for.
func (c *Case) count(requests []int) (n float64) {
	for _, r := range requests {
		n += c.A.Weight[r]
	}
	return max(n, 1)
}

// overlap reports whether the intervals of two shares overlap.
func overlap(a, b *Finding) bool {
	return a.ShareLow != nil && b.ShareLow != nil && *a.ShareLow <= *b.ShareHigh && *b.ShareLow <= *a.ShareHigh
}
