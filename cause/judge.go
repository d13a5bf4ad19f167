package cause

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// The thresholds of the verdict. They are calibrated on the healthy controls;
// see DESIGN "Named" and "Verdict".
const (
	// A cause is named when its share reaches NamedShare, the lower bound of the
	// share NamedLow, the interval is not wider than NamedWidth, and its excess
	// reaches NamedExcess and NamedSLO of the SLO; by the lower end of the interval
	// too, unless it certainly is MostShare of the tail. That a share is above zero
	// proves nothing: the tail is selected by its sum.
	NamedShare, NamedLow, NamedWidth = 0.20, 0.10, 0.60
	NamedExcess                      = 1e6
	NamedSLO                         = 0.10
	MostShare                        = 0.5
	// SuspectShare is the smallest share for which look-alikes are reported.
	SuspectShare = 0.10
	// TestedShare is the smallest share for which an entry is tested at all.
	TestedShare = 0.05
	// AbsentShare is the share below which there is nothing to tell of an entry.
	AbsentShare = 0.01
	// Pattern is how many separate episodes make a pattern of an incident.
	Pattern = 5
	// MinRequests is how many finished requests a diagnosis needs.
	MinRequests = 50
	// Without an SLO the tail is healthy when its excess is below HealthyExcess,
	// its mean below HealthyMean, its excess below HealthyMany with a ratio to
	// the typical band below HealthyTimes, or the ratio below HealthyRatio.
	// Means of bands, never p99: rare long stops lie beyond p99.
	HealthyExcess, HealthyMean = 1e6, 2e6
	// HangMin is request.HangMin, in nanoseconds.
	HangMin = int64(request.HangMin)
	// A proxy in front of a peer that takes a millisecond has a ratio of 1.8 to
	// 2.7 and an excess of up to 2.4 ms on a calm machine, from timers alone
	// (incidents/hosts/caddy and dnsproxy, steady). Services that compute for 2 ms on two
	// CPUs, or share a connection, have up to 3.2 and 4.7 ms, from requests that come together;
	// where bursts queue for permits it is 3.6 and 4.4 (incidents, gateway-permits).
	HealthyTimes, HealthyRatio = 3.3, 1.3
	// HealthyMany is the excess below which a tail is healthy although it is felt, if it
	// consists of many things none of which surely takes NamedExcess: controls on two CPUs
	// that clients and peers share have 2.5 to 4.9 ms of it, a part of each wait and each
	// wake-up.
	HealthyMany = 5e6
	// WholeRatio is the p99/p50 below which every request counts as slow, and
	// the tail's whole time is split instead of its excess, if the median request
	// takes LevelWait or more.
	WholeRatio = 2.5
	// MixShare is the share of the mix from which on the tail simply is another
	// endpoint.
	MixShare = 0.5
	// LevelShare and LevelWait: without an SLO the median request must spend this
	// part and this time outside its own CPU to be a finding.
	LevelShare, LevelWait = 0.7, 10e6
	// BaselineGrowth is by how much the median request must have grown over the
	// baseline's, beside NamedExcess, to be a finding.
	BaselineGrowth = 0.3
	// ExplainedShare of the excess must be explained for a verdict of "cause",
	// and not more than UnresolvedShare unresolved.
	ExplainedShare, UnresolvedShare = 0.5, 0.2
	// MinOtherRole is the part of the largest role's requests that another role
	// needs to be diagnosed too.
	MinOtherRole = 0.1
	// FaceRatio is the part of the largest role's requests from which on those of a known server come
	// before it: each of them may be several messages on connections within the process.
	FaceRatio = 0.25
)

// Settings are what the user knows about the service.
type Settings struct {
	// SLO is the latency objective in nanoseconds, 0 if none is given.
	SLO int64
	// Baseline is the typical band of a recording that was fine, nil if none is given.
	Baseline     *Baseline
	BaselineName string
	// Allocated is the site that allocated most, nil if not recorded.
	Allocated *Allocation
	// Host is the host's evidence, nil if not recorded.
	Host *host.Recording
	// Dependencies are what peers of the process said of themselves.
	Dependencies []dependency.Server
	// Kernel is what the kernel counted beside scheduling events.
	Kernel events.After
	// Target is what the recording says of the process.
	Target evidence.Target
	// Own are the spans of the trace's clock, in order, in which whylate waited for
	// profiles other than the CPU's and the trace.
	Own []timeline.Span
}

// Baseline is what the typical requests of a recording spent, by leaf.
type Baseline struct {
	// Role is the name of the role, Leaves the means in nanoseconds.
	Role   string
	Leaves map[string]float64
}

// Typical returns what the typical requests of a recording's largest role spend,
// to be another recording's baseline; nil if it has no requests.
func Typical(a *blame.Attribution) *Baseline {
	best := -1
	for i, r := range a.Found().Roles {
		if best < 0 || r.Count > a.Found().Roles[best].Count {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	c := newCase(a, a.Population(best), LevelContrast)
	b := &Baseline{Role: a.Found().Roles[best].Name, Leaves: map[string]float64{}}
	for i, ns := range c.NS {
		b.Leaves[c.leafOnCPU(c.A.Keys[i])] += ns
	}
	return b
}

// against takes from the keys of a level contrast what the baseline's requests
// spent in the same leaves, in proportion to what they spend now. A leaf that
// has become smaller counts as gone, not as a gain.
func (c *Case) against(b *Baseline) (taken []float64) {
	now := map[string]float64{}
	for i, ns := range c.NS {
		now[c.leafOnCPU(c.A.Keys[i])] += ns
	}
	taken = make([]float64, len(c.NS))
	for i, ns := range c.NS {
		leaf := c.leafOnCPU(c.A.Keys[i])
		if now[leaf] <= 0 {
			continue
		}
		taken[i] = ns * min(1, b.Leaves[leaf]/now[leaf])
		c.NS[i] -= taken[i]
		c.Excess -= taken[i]
	}
	return taken
}

// Verdict is the judged recording, for one role.
type Verdict struct {
	Role       *blame.Population
	Verdict    string
	Reason     string
	Sentence   string
	Tail       blame.Contrast
	Findings   []Finding
	Consistent []Consistent
	RuledOut   []RuledOut
	Unnamed    []Unnamed
	Unresolved float64
	// Mix is the part of the excess due to the composition of endpoints.
	Mix         float64
	MixEndpoint int
	// Only is the endpoint that was judged alone, -1 if none was.
	Only int
	// Slower are the endpoints that are the tail of all, because of which the others were judged
	// without them, or one of them alone.
	Slower []int
	// Level is set when the median request was found to be slow.
	Level *LevelVerdict
	// OtherEndpoint is the part of the excess that the slow requests owe to being
	// another endpoint, if their whole time was split because of that.
	OtherEndpoint float64
	// Whole is set when the tail's whole time was split, not its excess.
	Whole bool

	// own is what the recording itself took of the tail, too little or too uncertain
	// to be named; onlyOwn is set if without it there is nothing to explain.
	own     blame.Share
	onlyOwn bool
	// takes is what takes most of the time of another endpoint that the tail is.
	takes *Finding
	// mixed is set if it is healthy because the tail is but another endpoint.
	mixed bool
	// ownAtLeast is own, or what it surely is where that is in doubt; told is then its share,
	// which is explained although it is not named.
	ownAtLeast blame.Share
	told       float64
	// beside are the shares of causes that hold and are not named, as far as they are sure, by the function that is at
	// fault; crowded is that of time in which the process's own threads had the CPUs, of no cause, by the cause that has them.
	beside, crowded map[string]float64
	// yielded is the share of contention for the host's CPUs that comes with a cause, see Case.yields.
	yielded   float64
	yieldedTo string
	// most is what the largest part of the tail's excess surely takes, in nanoseconds,
	// whether it has a name or not; many is set if that is why it is healthy.
	most float64
	many bool
	// missed is what the slow requests waited longer because they had just missed a round, see
	// Case.missed; onlyMissed is set if without it there is nothing to explain.
	missed     float64
	onlyMissed bool
	// onlyMixed is set if slow requests are not felt to take longer than is usual for their endpoints.
	onlyMixed bool
	// spreads is what most of the tail's time goes to if it is healthy because that varies by itself, see spread.
	spreads *Finding
	// place says where most of the excess went of which no cause speaks, and to what.
	place string
}

// LevelVerdict says how slow the median request is outside its own CPU.
type LevelVerdict struct {
	Median    int64
	WaitShare float64
	// Excess is what was split, in nanoseconds per request, Other the part of it
	// that belongs to no finding and no set of look-alikes.
	Excess, Other float64
	Against       string
}

// Judge tests the catalogue against the requests of every role that is large
// enough and returns the verdict of the one that matters most: the largest with a
// cause, else the largest without an answer, else the largest, and of these a known server before
// others. What a role whose
// requests are but calls from requests of another one is late by, and what for, is
// part of the other's time: it is judged only where the other has no answer of its
// own, and gives one only to what the other is late by.
func Judge(a *blame.Attribution, s Settings) *Verdict {
	roles := a.Found().Roles
	order := make([]int, len(roles))
	caller := make([]int, len(roles))
	for i := range order {
		order[i], caller[i] = i, a.Caller(i)
		if by := caller[i]; by >= 0 && roles[by].Count < MinRequests {
			caller[i] = -1
		}
	}
	most := 0
	for _, r := range roles {
		most = max(most, r.Count)
	}
	face := func(r request.Role) bool { return r.Known() && float64(r.Count) >= FaceRatio*float64(most) }
	sort.SliceStable(order, func(i, j int) bool {
		x, y := order[i], order[j]
		if inner := caller[x] >= 0; inner != (caller[y] >= 0) {
			return !inner
		}
		if is := face(roles[x]); is != face(roles[y]) {
			return is
		}
		return roles[x].Count > roles[y].Count
	})
	over := make([]*Verdict, len(roles)) // what the calls from a role are held against
	var first *Verdict
	for _, r := range order {
		p := a.Population(r)
		var outer *Verdict
		if by := caller[r]; by >= 0 {
			outer = over[by]
		}
		if outer.settled() {
			over[r] = outer
			continue
		}
		// A generic role beside a known one may be a client's goroutines, unless it is larger.
		clients := roles[order[0]].Known() && !roles[r].Known() && roles[r].Count <= roles[order[0]].Count
		if first != nil && (p.N < MinRequests || p.N < MinOtherRole*first.Role.N || clients) {
			continue
		}
		v := judgeRole(a, p, s)
		over[r] = v
		if outer != nil && outer.Verdict == "inconclusive" {
			if v.Verdict == "cause" && !outer.spends(a, v.leading()) {
				continue
			}
			if !v.settled() {
				over[r] = outer
			}
		}
		if v.Verdict == "cause" {
			return v
		}
		if first == nil || outer == nil && first.Verdict == "healthy" && v.Verdict == "inconclusive" {
			first = v
		}
	}
	if first == nil {
		v := &Verdict{Verdict: "inconclusive", Reason: "no-requests", MixEndpoint: -1, Only: -1,
			Sentence: "No requests were found in the recording. Was there traffic? If so, say which function is a request: --request func=REGEXP."}
		if f, _ := a.Found().Perhaps(); f != "" {
			v.Sentence += fmt.Sprintf(" %s may be one: it is entered again and again.", shortName(f))
		}
		v.Sentence += still(a)
		return v
	}
	if first.Verdict == "healthy" {
		first.Sentence += tooFew(a, first.Role.Role)
	}
	return first
}

// tooFew tells of the requests of known servers that are too few for a diagnosis, where others are
// requests only for want of them: these may be late, however fast the others are. It is "" if there
// are none.
func tooFew(a *blame.Attribution, role int) (text string) {
	roles := a.Found().Roles
	if !roles[role].ForWant() {
		return ""
	}
	for i, r := range roles {
		if !r.Known() || r.Count == 0 || r.Count >= MinRequests {
			continue
		}
		text += fmt.Sprintf(" Of %s there are only %d requests, too few to tell whether they are late: their median is %s.",
			r.Name, r.Count, Ms(float64(a.Population(i).Quantile(0.5))))
	}
	return text
}

// still tells of goroutines that stood in handlers all the time, where too few requests ended for a diagnosis: they may be
// what hangs. It is "" if there are none.
func still(a *blame.Attribution) string {
	all, stacks := a.Found().Still, a.Timeline().Stacks
	if len(all) == 0 {
		return ""
	}
	n := 0
	for _, s := range all {
		n += s.N
	}
	text := fmt.Sprintf(" %d goroutines stood in handlers all the time", n)
	if f, ok := request.AppFrame(stacks.Frames(all[0].Stack)); ok {
		text += fmt.Sprintf(", %d of them in %s", all[0].N, shortName(f.Func))
	}
	return text + ": requests that hang, or who waits for news."
}

// settled reports whether a verdict speaks for the calls of its requests too: it
// has a cause, or there is nothing to explain. A tail that is but another endpoint
// says nothing of calls, which only some endpoints make.
func (v *Verdict) settled() bool {
	return v != nil && (v.Verdict == "cause" || v.Verdict == "healthy" && v.Mix < MixShare)
}

// leading returns the finding that a verdict of "cause" states first.
func (v *Verdict) leading() *Finding {
	i := slices.IndexFunc(v.Findings, func(f Finding) bool { return f.Contrast == TailContrast })
	return &v.Findings[max(i, 0)]
}

// spends reports whether the role's requests are late in the leaves of a finding
// about their calls too, by SuspectShare of their excess and not by less than in
// what already has look-alikes. If all its requests are slow, all must be so there.
func (v *Verdict) spends(a *blame.Attribution, f *Finding) bool {
	type leaf struct {
		kind  blame.LeafKind
		class blame.ClassID
		site  blame.SiteID
	}
	in := map[leaf]bool{}
	for _, id := range f.keys {
		k := a.Keys[id]
		in[leaf{k.Kind, k.Class, k.Site}] = true
	}
	contrast, least := f.Contrast, SuspectShare
	if v.Level != nil {
		contrast = LevelContrast
	}
	for i := range v.Consistent {
		if v.Consistent[i].Contrast == contrast {
			least = max(least, v.Consistent[i].Share)
		}
	}
	v.Role.Whole = v.Whole
	c := newCase(a, v.Role, contrast)
	v.Role.Whole = false
	return c.Share(c.Free(func(k blame.Key) bool { return in[leaf{k.Kind, k.Class, k.Site}] })) >= least
}

func judgeRole(a *blame.Attribution, p *blame.Population, s Settings) *Verdict {
	v := judgeAll(a, p, s)
	if v.mixed && (v.Verdict == "healthy" || v.Verdict != "cause" && v.Level != nil) {
		if w := v.withoutMix(a, s); w != nil {
			return w
		}
		if w := v.within(a, s); w != nil {
			return w
		}
	}
	if v.Verdict != "healthy" && v.Reason != "level" {
		v.inTheWake(newCase(a, p, TailContrast), s)
		return v
	}
	v.before(newCase(a, p, TailContrast), s)
	return v
}

// judgeAll judges requests of a role, whatever endpoints they are.
func judgeAll(a *blame.Attribution, p *blame.Population, s Settings) *Verdict {
	v := &Verdict{Role: p, Verdict: "inconclusive", MixEndpoint: -1, Only: -1}
	hanging, oldest := p.InFlight()
	if oldest < HangMin {
		hanging = 0
	}
	if p.N < MinRequests {
		v.Reason = "few-requests"
		v.Sentence = fmt.Sprintf("Only %.0f requests were found; %d are needed. Record longer.", p.N, MinRequests)
		if hanging > 0 {
			v.Sentence = fmt.Sprintf("%d requests hang, the oldest for %s, and only %.0f others ended.", hanging, Ms(float64(oldest)), p.N-float64(hanging))
		}
		if p.Len() == 0 || hanging == 0 {
			v.Sentence += still(a)
			return v
		}
	}
	p50, p99 := p.Quantile(0.5), p.Quantile(0.99)
	healthy := isHealthy(p, s, hanging, blame.Share{})
	p.Whole = !healthy && p50 >= LevelWait && float64(p99) < WholeRatio*float64(p50)
	v.Whole = p.Whole
	v.contrast(newCase(a, p, TailContrast), s)
	if late := s.SLO > 0 && p99 > s.SLO; v.Mix >= MixShare && (late || s.SLO == 0 && hanging == 0 && !healthy) {
		// The slow requests are another endpoint. If they are too slow, or for nothing that anybody wants, what takes
		// their time is asked for, not why they take longer than other endpoints.
		if w := v.whole(a, p, s); late || w.unwanted() {
			v = w
		} else if len(w.Findings) > 0 && w.Findings[0].Share >= LevelShare {
			v.takes = &w.Findings[0]
		}
	}
	p.Whole = false
	if v.Mix >= MixShare && s.SLO == 0 && hanging == 0 && !healthy && p.Doubted(v.MixEndpoint) {
		if w := v.doubted(a, p, s); w != nil {
			return w
		}
	}
	if !healthy && isHealthy(p, s, hanging, v.ownAtLeast) {
		healthy, v.onlyOwn = true, true
	}
	if !healthy && v.faint(s, hanging) {
		healthy, v.many = true, true
	}
	if !healthy && v.usual(p, s, hanging) {
		healthy, v.onlyMixed = true, true
	}
	if missed := (blame.Share{NS: v.missed + max(0, v.ownAtLeast.NS)}); !healthy && v.missed > 0 && s.SLO == 0 && isHealthy(p, s, hanging, missed) {
		healthy, v.onlyMissed = true, true
	}
	if !healthy && v.spread(p, s, hanging) {
		healthy, v.spreads = true, &v.Findings[0]
	}
	mixed := v.Mix >= MixShare && hanging == 0 && (s.SLO == 0 || p99 <= s.SLO)
	if healthy || mixed {
		v.drop()
	}
	v.level(a, p, s, healthy)
	if v.Level != nil && isHealthy(p, Settings{}, hanging, v.ownAtLeast) {
		v.drop() // slow and fast requests do not differ: all are slow
	}
	v.mixed = mixed && !healthy
	v.conclude(a, p, s, healthy, mixed, hanging, oldest)
	return v
}

// recordRoutes is how to learn which requests are of which endpoint.
const recordRoutes = "runtime/trace tasks that are called after the route"

// doubted judges slow requests that may be another endpoint, or some of those of which nothing was seen in their
// handlers because they are fast. It returns nil unless there is a cause for which they would take longer than these.
func (v *Verdict) doubted(a *blame.Attribution, p *blame.Population, s Settings) *Verdict {
	w := judgeAll(a, p.Unlike(v.MixEndpoint), s)
	if w.Verdict == "inconclusive" && len(w.Consistent) > 0 && w.Consistent[0].Record == recordRoutes {
		return w // so may another one
	}
	if w.Verdict != "cause" || w.Whole || w.leading().Contrast != TailContrast {
		return nil
	}
	i := slices.IndexFunc(w.Findings, func(f Finding) bool { return f.Contrast == TailContrast })
	f := w.Findings[i]
	w.Verdict, w.Reason, w.Findings = "inconclusive", "look-alikes", slices.Delete(w.Findings, i, i+1)
	w.Consistent = slices.Insert(w.Consistent, 0, Consistent{
		Causes: []string{f.Cause}, Share: f.Share, Record: recordRoutes, Contrast: f.Contrast, Where: f.Where, Evidence: f.Evidence, keys: f.keys,
		Summary: fmt.Sprintf("%s Or %s always takes as long: nothing was seen of the handlers of most requests, which are fast, and may be of that endpoint or not.", f.Summary, v.endpoint(a)),
	})
	w.Sentence = fmt.Sprintf("p99 is %s: %s It may be %s, or nothing; to be sure, record %s.", Ms(float64(p.Quantile(0.99))), lowerFirst(w.Consistent[0].Summary), f.Cause, recordRoutes)
	return w
}

// whole judges what takes the whole time of slow requests that are another endpoint.
func (v *Verdict) whole(a *blame.Attribution, p *blame.Population, s Settings) *Verdict {
	w := &Verdict{Role: p, Verdict: "inconclusive", Mix: v.Mix, MixEndpoint: v.MixEndpoint, Only: -1, Whole: true}
	p.Whole = true
	w.contrast(newCase(a, p, TailContrast), s)
	w.Mix, w.MixEndpoint, w.OtherEndpoint = 0, v.MixEndpoint, v.Mix
	return w
}

// unwanted reports whether most of the time of slow requests goes to something that no endpoint is made for.
func (v *Verdict) unwanted() bool {
	if len(v.Findings) == 0 {
		return false
	}
	f := &v.Findings[0]
	return Lookup(f.Cause).Unwanted && f.Share >= LevelShare && f.ExcessNS >= LevelWait
}

// withoutMix judges the other endpoints where a tail is but one, or one after the other: who waits
// behind slow ones is late for a reason of its own. The largest of them is asked by itself, too, for
// the others may be the same again. It returns nil unless there is a cause.
func (v *Verdict) withoutMix(a *blame.Attribution, s Settings) *Verdict {
	if v.MixEndpoint < 0 {
		return nil
	}
	s.Baseline = nil // it is that of all endpoints
	slower := []int{v.MixEndpoint}
	count := map[int]float64{}
	for i, weight := range a.Weight {
		if e := a.EndpointOf(i); a.Found().Requests[a.Requests[i].Request].Role == v.Role.Role && e != v.MixEndpoint {
			count[e] += weight
		}
	}
	if len(count) == 0 {
		return nil
	}
	w, who := judgeAll(a, a.PopulationWithout(v.Role.Role, slower...), s), "others are"
	for w.Verdict != "cause" && w.mixed && w.MixEndpoint >= 0 && len(slower) < min(len(count), maxSlower) {
		slower = append(slower, w.MixEndpoint)
		w = judgeAll(a, a.PopulationWithout(v.Role.Role, slower...), s)
	}
	if w.Verdict != "cause" || len(count) == 1 {
		endpoints := slices.Sorted(maps.Keys(count))
		largest := slices.MaxFunc(endpoints, func(x, y int) int { return cmp.Compare(count[x], count[y]) })
		w = judgeAll(a, a.PopulationOf(v.Role.Role, largest), s)
		w.Only, who, slower = largest, endpointName(a, largest, shortName)+" is", slower[:1]
	}
	if w.Verdict != "cause" {
		return nil
	}
	w.Slower = slower
	w.Sentence = fmt.Sprintf("The slowest requests are %s (%s), but %s late too: %s", v.another(a), v.endpoint(a), who, w.Sentence)
	return w
}

// maxSlower bounds how many endpoints are left out one after the other.
const maxSlower = 4

// within judges the endpoint that a tail consists of by itself: some of its requests may be
// late. It returns nil unless that has a cause; that all of them are slow is no reason to ask.
func (v *Verdict) within(a *blame.Attribution, s Settings) *Verdict {
	if v.MixEndpoint < 0 {
		return nil
	}
	w := judgeAll(a, a.PopulationOf(v.Role.Role, v.MixEndpoint), s)
	if w.Verdict != "cause" || w.Whole || w.leading().Contrast != TailContrast {
		return nil
	}
	w.Only, w.Slower = v.MixEndpoint, []int{v.MixEndpoint}
	w.Sentence = fmt.Sprintf("The slowest requests are one endpoint (%s), and of these some are late: %s", v.endpoint(a), w.Sentence)
	return w
}

// isHealthy applies the absolute part of the verdict: is there anything to
// explain, beside what the recording itself took?
func isHealthy(p *blame.Population, s Settings, hanging int, own blame.Share) bool {
	if hanging > 0 {
		return false
	}
	if s.SLO > 0 {
		return p.Quantile(0.99) <= s.SLO || own.NS > 0 && own.P99Without <= s.SLO
	}
	return !felt(means(p, own))
}

// means returns how long slow and typical requests take, in nanoseconds. One request, however slow, is no tail.
func means(p *blame.Population, own blame.Share) (tail, typical float64) {
	return min(p.Tail().Mean, p.MeanButSlowest(p.Tail())) - max(0, own.NS), p.Typical().Mean
}

// usual reports whether slow requests are not felt to take longer than is usual for their endpoints, in which
// they differ from typical ones.
func (v *Verdict) usual(p *blame.Population, s Settings, hanging int) bool {
	tail, typical := means(p, v.ownAtLeast)
	return s.SLO == 0 && hanging == 0 && v.Mix > 0 && v.Mix < MixShare && !felt(tail, typical+v.Mix*v.Tail.Excess)
}

// felt reports whether slow requests take so much longer than typical ones, in
// nanoseconds, that without an SLO somebody minds.
func felt(tail, typical float64) bool {
	excess := tail - typical
	return excess >= HealthyExcess && tail >= HealthyMean &&
		(excess >= HealthyMany || tail >= HealthyTimes*typical) && tail >= HealthyRatio*typical
}

// faint reports whether a tail is felt, but by many small things: none has a name.
func (v *Verdict) faint(s Settings, hanging int) bool {
	return s.SLO == 0 && hanging == 0 && len(v.Findings) == 0 && v.Unresolved <= UnresolvedShare && v.Mix < MixShare &&
		v.Tail.Excess < HealthyMany && v.most < NamedExcess
}

// The shape of what varies by itself: from the median it is 2.3 times as far to the quantile 0.9 as to 0.75, and 2.4 times as
// far to 0.99 as to 0.9, if something is exponentially distributed, 1.9 and 1.8 times if normally, 1.6 and 1.2 times if equally.
// Where a part of the requests is late and others are not, one of these is many times as far, or hardly farther. SpreadExcess is
// the excess below which that is healthy: services whose peers, or parts, vary by a millisecond or two have 6 to 9 ms.
const (
	leastStep, mostStep = 1.4, 3.2
	SpreadExcess        = 2 * HealthyMany
	// everywhere is the part of the recording's tenths in which slow requests begin, at least, where nothing happened at a
	// time: twenty by chance are in nine of ten.
	everywhere = 0.7
	// mostlyVaries is the part of the excess that must be in what varies, and OtherThings what may fit several causes, or
	// not be known.
	mostlyVaries, otherThings = 0.6, 0.2
)

// spread reports whether slow requests are but the end of what varies by itself: no step tells them from others, they
// come at all times, and take not many times as long.
func (v *Verdict) spread(p *blame.Population, s Settings, hanging int) bool {
	if s.SLO > 0 || s.Baseline != nil || hanging > 0 || len(v.Findings) == 0 || v.Findings[0].Contrast != TailContrast || !Lookup(v.Findings[0].Cause).Varies {
		return false
	}
	varies, others := 0.0, v.Unresolved
	for _, f := range v.Findings {
		switch {
		case f.Contrast != TailContrast:
		case !Lookup(f.Cause).Varies:
			return false
		default:
			varies += f.Share
		}
	}
	for _, c := range v.Consistent {
		if c.Contrast == TailContrast {
			others += c.Share
		}
	}
	tail, typical := means(p, v.ownAtLeast)
	if varies < mostlyVaries || others > otherThings || max(tail-typical, v.Tail.Excess) >= SpreadExcess || tail >= HealthyTimes*typical {
		return false
	}
	half, quarter, tenth, last := float64(p.Quantile(0.5)), float64(p.Quantile(0.75)), float64(p.Quantile(0.9)), float64(p.Quantile(0.99))
	step := func(long, short float64) bool {
		return long-half >= leastStep*(short-half) && long-half <= mostStep*(short-half)
	}
	return quarter > half && step(tenth, quarter) && step(last, tenth) && p.Tenths(p.Tail()) >= everywhere
}

// drop forgets the names in the tail: what there is to see is shown as leaves only.
func (v *Verdict) drop() {
	var findings []Finding
	for _, f := range v.Findings {
		if f.Contrast == LevelContrast {
			findings = append(findings, f)
			continue
		}
		v.Unnamed = append(v.Unnamed, Unnamed{Share: f.Share, Leaf: f.Cause + " (not material)", Where: f.Where, Causes: []string{f.Cause}})
	}
	var suspects []Consistent
	for _, c := range v.Consistent {
		if c.Contrast == LevelContrast {
			suspects = append(suspects, c)
			continue
		}
		v.Unnamed = append(v.Unnamed, Unnamed{Share: c.Share, Leaf: strings.Join(c.Causes, " or ") + " (not material)", Where: c.Where, Causes: c.Causes})
	}
	v.Findings, v.Consistent = findings, suspects
	v.Unnamed = joined(v.Unnamed)
}

// joined adds up what reads the same, and sorts it. Leaves differ in more than a reader sees: in
// where the request stood while it was ready to run, in what its thread did meanwhile.
func joined(list []Unnamed) (out []Unnamed) {
	type read struct {
		leaf, causes string
		where        Place
	}
	at := map[read]int{}
	for _, u := range list {
		key := read{leaf: u.Leaf, causes: strings.Join(u.Causes, "|")}
		if u.Where != nil {
			key.where = *u.Where
		}
		i, ok := at[key]
		if !ok {
			at[key] = len(out)
			out = append(out, u)
			continue
		}
		out[i].Share += u.Share
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Share > out[j].Share })
	return out
}

// outcome is an entry's judgement that claims time.
type outcome struct {
	entry *Entry
	j     *Judgement
	holds Truth
}

// contrast tests every entry against one contrast and adds what it finds.
func (v *Verdict) contrast(c *Case, s Settings) {
	c.know(s)
	outcomes, ruledOut := c.test()
	cols, names := c.columns(outcomes)
	var t blame.Contrast
	if c.Contrast == LevelContrast {
		base := make([]float64, len(names))
		for k, ns := range c.usual {
			base[cols[k]] += ns
		}
		t = c.P.LevelContrast(cols, len(names), base)
	} else {
		t = c.P.TailContrast(cols, len(names))
		v.missed = c.missed(c.waitingForPeers())
		v.Tail, v.Mix, v.MixEndpoint = t, t.Mix.Share, t.MixEndpoint
		for _, x := range t.Columns {
			v.most = max(v.most, surely(x, t.Excess))
		}
	}
	unresolved := t.Columns[len(outcomes)].Share
	if c.Contrast == TailContrast {
		v.Unresolved = unresolved
	}
	whole := v.wholes(c, outcomes, names, t)
	// least is the share of the smallest cause that certainly matters: what is larger is
	// named before it.
	least := math.Inf(1)
	for i, o := range outcomes {
		if x := whole[i]; o.holds == Yes && unmaterial(x, t.Mix.Share, s, Yes) == "" && !slight(x, t.Excess, s) {
			least = min(least, x.Share)
		}
	}
	material := func(i int) bool { return unmaterial(whole[i], t.Mix.Share, s, outcomes[i].holds) == "" }
	contention, to, yields := c.yields(outcomes, t.Columns, material, func(i int) bool { return material(i) && !slight(whole[i], t.Excess, s) })
	for i, o := range outcomes {
		share := t.Columns[i]
		why, leaf := unmaterial(whole[i], t.Mix.Share, s, o.holds), o.entry.Title
		if i == contention {
			why, leaf = yields, fmt.Sprintf("%s, with %s", leaf, to)
			v.yielded, v.yieldedTo = max(0, share.Share), to
		}
		doubt := func(text string, number float64) {
			o.holds = Unknown
			o.j = o.j.With(Evidence{Text: text, Holds: Unknown, Decides: true, Number: number, Record: "longer, with more requests in it"})
		}
		if why != "" && i != contention && o.holds == Yes && !o.entry.Ours && whole[i].Share >= MostShare && why == uncertain(whole[i], t.Mix.Share) {
			doubt(why, whole[i].Share) // most of it is there, and may be chance: not to be named, but neither to be left out
			why = ""
		}
		if why == "" && o.holds == Yes && slight(whole[i], t.Excess, s) && !(least < share.Share) {
			text := fmt.Sprintf("it may be no more than %s, by the interval of its share or for want of episodes", Ms(surely(whole[i], t.Excess)))
			if o.entry.Ours { // it is told, but nothing to act on
				why = text
				if c.Contrast == TailContrast {
					v.told = share.Share
				}
			} else {
				doubt(text, surely(share, t.Excess))
			}
		}
		if why != "" {
			ruledOut = append(ruledOut, RuledOut{Cause: o.entry.ID, Because: why, Fits: share.Share >= SuspectShare && i != contention, ByShare: true, Number: share.Share})
			if o.entry.Ours && c.Contrast == TailContrast {
				v.own, v.ownAtLeast = share, share
				if v.told > 0 {
					v.ownAtLeast.NS = surely(share, t.Excess)
				}
			}
			v.addUnnamed(c, Unnamed{Share: share.Share, Leaf: leaf, Where: o.j.Where})
			if o.holds == Yes && o.j.Where != nil && c.Contrast == TailContrast {
				if v.beside == nil {
					v.beside = map[string]float64{}
				}
				v.beside[o.j.Where.Function] += max(0, surely(share, t.Excess)) / max(1, t.Excess)
			}
			continue
		}
		if o.holds == Yes {
			v.Findings = append(v.Findings, finding(c, o, share, unresolved))
		} else {
			v.Consistent = append(v.Consistent, consistent(c, o, share))
		}
	}
	c.lead(v.Findings)
	sort.SliceStable(v.Findings, func(i, j int) bool { return v.Findings[i].order > v.Findings[j].order })
	sort.SliceStable(v.Consistent, func(i, j int) bool { return v.Consistent[i].Share > v.Consistent[j].Share })
	if c.Contrast == LevelContrast {
		v.Level.Excess, v.Level.Other = t.Excess, 1
		for _, f := range v.Findings {
			if f.Contrast == LevelContrast {
				v.Level.Other -= f.Share
			}
		}
		for _, x := range v.Consistent {
			if x.Contrast == LevelContrast {
				v.Level.Other -= x.Share
			}
		}
		return
	}
	v.RuledOut = c.acquitted(ruledOut)
	v.place = c.mostAt(names, t.Columns, len(outcomes)+1)
	for i := len(outcomes) + 1; i < len(names); i++ {
		v.addUnnamed(c, Unnamed{Share: t.Columns[i].Share, Leaf: names[i].text, Where: names[i].where})
	}
	v.Unnamed = joined(v.Unnamed)
}

func (v *Verdict) addUnnamed(c *Case, u Unnamed) {
	if c.Contrast == TailContrast && u.Share != 0 {
		v.Unnamed = append(v.Unnamed, u)
	}
}

// wholes are the shares of outcomes with the time in which the process's own threads had the CPUs, where they compute, and
// that of other outcomes of the same function: how much somebody minds is asked of all of it, and what part of the
// excess it is of its own.
func (v *Verdict) wholes(c *Case, outcomes []outcome, names []leafName, t blame.Contrast) []blame.Share {
	whole := slices.Clone(t.Columns[:len(outcomes)])
	if c.Contrast != TailContrast {
		return whole
	}
	crowded := 0.0
	for i := len(outcomes) + 1; i < len(names); i++ {
		if wants(names[i].key) && names[i].key.Off == events.Crowded {
			crowded += max(0, t.Columns[i].NS)
		}
	}
	v.crowded = map[string]float64{}
	for i, o := range outcomes {
		if o.holds != Yes || !o.entry.Computes {
			continue
		}
		more := 0.0
		if c.hasCPUs(o) {
			more = crowded
			v.crowded[o.entry.ID] = crowded / max(1, t.Excess)
		}
		for j, other := range outcomes {
			if i != j && other.holds == Yes && o.j.Where != nil && other.j.Where != nil && other.j.Where.Function == o.j.Where.Function {
				more += max(0, t.Columns[j].NS)
			}
		}
		x := &whole[i]
		x.NS += more
		x.Low, x.High = x.Low+more/max(1, t.Excess), x.High+more/max(1, t.Excess)
		v.most = max(v.most, surely(*x, t.Excess))
	}
	return whole
}

// hasCPUs reports whether most of what the Ps execute during slow requests is what an outcome names.
func (c *Case) hasCPUs(o outcome) bool {
	class, _ := TopBy(c, keep(o.j.Keys, func(id blame.KeyID) bool {
		k := c.Key(id)
		return k.Kind == blame.CPU || k.Kind == blame.Behind
	}), func(k blame.Key) blame.ClassID { return k.Class })
	if c.executed == nil {
		c.executed = c.A.Executed(c.tailSpans())
	}
	var its, all timeline.Time
	for id, d := range c.executed {
		is := blame.ClassID(id)
		if all += d; is == class || o.entry.Layer == GC && (is == timeline.ClassGCWorker || is == timeline.ClassGCAssist) {
			its += d
		}
	}
	return all > 0 && 2*its >= all
}

// know adds what the user and the host know.
func (c *Case) know(s Settings) {
	c.Allocated, c.Target, c.Own, c.kernel = s.Allocated, s.Target, s.Own, s.Kernel
	c.Dependencies = s.Dependencies
	c.onHost(s.Host)
}

// test asks every entry, in the order of ownership, and marks what it claims.
func (c *Case) test() (out []outcome, ruledOut []RuledOut) {
	for _, e := range Entries() {
		if e.Judge == nil {
			continue
		}
		j := e.Judge(c)
		if j == Untested {
			continue
		}
		if j == nil {
			ruledOut = append(ruledOut, RuledOut{Cause: e.ID, Because: "nothing of its kind in the slow requests", Absent: true, ByShare: true})
			continue
		}
		j.Keys = c.stillFree(j.Keys)
		t := j.holds()
		if share := c.Share(j.Keys); share < TestedShare && (t != No || len(j.Keys) > 0) {
			ruledOut = append(ruledOut, RuledOut{Cause: e.ID, Because: fmt.Sprintf("%s of %s excess", Ms(c.Sum(j.Keys)), Ms(c.Excess)), Number: share, Absent: math.Abs(share) < AbsentShare, ByShare: true})
			continue
		}
		if t == No {
			ruledOut = append(ruledOut, RuledOut{Cause: e.ID, Because: against(j), Number: number(j)})
			continue
		}
		for _, k := range j.Keys {
			c.taken[k] = true
		}
		out = append(out, outcome{e, j, t})
	}
	return out, ruledOut
}

// TooLittle reports whether what is still free of keys is too little of the excess for
// an entry to be tested. Then only their sum is told: an entry that claims no more than
// these need not look for evidence. Where nothing is free, what speaks against it is told.
func (c *Case) TooLittle(keys []blame.KeyID) bool {
	free := c.stillFree(keys)
	return len(free) > 0 && c.Share(free) < TestedShare
}

func (c *Case) stillFree(keys []blame.KeyID) []blame.KeyID {
	var free []blame.KeyID
	for _, k := range keys {
		if !c.taken[k] {
			free = append(free, k)
		}
	}
	return free
}

func against(j *Judgement) string {
	for _, e := range j.Evidence {
		if e.Decides && e.Holds == No {
			return e.Text
		}
	}
	return ""
}

func number(j *Judgement) float64 {
	for _, e := range j.Evidence {
		if e.Decides && e.Holds == No {
			return e.Number
		}
	}
	return 0
}

// leafName is a column that is no cause.
type leafName struct {
	text  string
	where *Place
	key   blame.Key
}

// mostAt says where more than half of the excess went of which no cause of the catalogue
// speaks, and to what: "" if there is no such place. names are of columns, the leaves from the
// first on; those of the place get its line.
func (c *Case) mostAt(names []leafName, columns []blame.Share, first int) string {
	type place struct {
		kind blame.LeafKind
		site blame.SiteID
	}
	at := func(k blame.Key) place { return place{k.Kind, k.Site} }
	of := "what slow requests take longer"
	if c.P.Whole {
		of = "the time of slow requests"
	}
	stopped := 0.0
	for i := first; i < len(names); i++ {
		if names[i].key.Kind == blame.Suspended {
			stopped += columns[i].Share
		}
	}
	if stopped > ExplainedShare {
		return fmt.Sprintf("%s of %s passed while %s", Pct(min(1, stopped)), of, Suspended)
	}
	sums := map[place]float64{}
	for i := first; i < len(names); i++ {
		if k := names[i].key; k.Site != 0 && !wants(k) {
			sums[at(k)] += columns[i].Share
		}
	}
	most := first
	for i := first; i < len(names); i++ {
		if k := names[i].key; k.Site != 0 && !wants(k) && sums[at(k)] > sums[at(names[most].key)] {
			most = i
		}
	}
	if most >= len(names) || sums[at(names[most].key)] <= ExplainedShare {
		return ""
	}
	p := at(names[most].key)
	for i := first; i < len(names); i++ { // its largest part says whose it is
		if k := names[i].key; at(k) == p && !wants(k) && columns[i].Share > columns[most].Share {
			most = i
		}
	}
	who, where := c.leafPhrase(names[most].key)
	for i := first; i < len(names); i++ {
		if at(names[i].key) == p && where != nil {
			names[i].where = where
		}
	}
	return fmt.Sprintf("%s of %s is %s", Pct(sums[p]), of, who)
}

// leafPhrases say what somebody does in a leaf at a place.
var leafPhrases = map[blame.LeafKind]string{
	blame.Syscall: "in a system call", blame.Cgo: "in C code", blame.Network: "waiting for the network", blame.Timer: "waiting for a timer",
	blame.GCWait: "waiting for the garbage collector", blame.Awaited: "in a wait that a deadline or a cancellation ended",
	blame.Open: "in a wait that had not ended when the recording did",
}

// leafPhrase describes a leaf at a place for a sentence: who, what, by which call and where.
func (c *Case) leafPhrase(k blame.Key) (phrase string, where *Place) {
	who := c.ClassName(k.Class)
	if k.Flags&blame.Self != 0 {
		who = "the request itself"
	}
	doing := leafPhrases[k.Kind]
	if doing == "" {
		doing = "in " + k.Kind.String()
	}
	frames := c.A.Timeline().Stacks.Frames(c.longestAt(k))
	call := ""
	switch {
	case k.Kind == blame.Cgo:
		call = c.A.Sites[k.Site].C
	case k.Kind == blame.Syscall:
		call = systemCall(frames)
	}
	if call != "" {
		doing += ", " + shortName(call) + ","
	}
	at := shortName(c.A.Sites[k.Site].Func)
	if f, ok := request.AppFrame(frames); ok {
		where = &Place{Function: f.Func, File: f.File, Line: f.Line}
		at = fmt.Sprintf("%s (%s:%d)", shortName(f.Func), path.Base(f.File), f.Line)
	}
	return fmt.Sprintf("%s %s in %s", who, doing, at), where
}

// longestAt is the stack on which slow requests, or all goroutines meanwhile if a key is of
// others, stood longest at a key's site: its lines of the program are taken together.
func (c *Case) longestAt(k blame.Key) gotrace.StackID {
	site := c.A.Sites[k.Site].Stack
	here := func(s timeline.Segment) bool { return s.Stack != 0 && c.A.SiteOf(s.Stack).Stack == site }
	var parts []timeline.Span
	for _, i := range c.Tail {
		for _, p := range c.A.Found().Requests[c.A.Requests[i].Request].Parts {
			parts = append(parts, timeline.Span{Start: p.Start, End: p.End, G: p.G})
		}
	}
	stood := c.stoodMeanwhile
	if k.Flags&blame.Self != 0 {
		stood = c.stoodIn
	}
	ns := stood(parts, here)
	longest := site
	for s, d := range ns {
		if d > ns[longest] || d == ns[longest] && s < longest {
			longest = s
		}
	}
	return longest
}

// stoodIn is how long goroutines stood on each stack in parts of requests, where here says so.
func (c *Case) stoodIn(parts []timeline.Span, here func(timeline.Segment) bool) map[gotrace.StackID]timeline.Time {
	ns := map[gotrace.StackID]timeline.Time{}
	for _, p := range parts {
		me := &c.A.Timeline().Gs[p.G]
		for _, s := range me.SegsFrom(me.SegmentNear(p.Start, 0)) {
			if s.Start >= p.End {
				break
			}
			if here(s) {
				ns[s.Stack] += max(0, min(s.End, p.End)-max(s.Start, p.Start))
			}
		}
	}
	return ns
}

// stoodMeanwhile is stoodIn of all goroutines that were blocked while there was any of the parts,
// which it puts in order.
func (c *Case) stoodMeanwhile(parts []timeline.Span, here func(timeline.Segment) bool) map[gotrace.StackID]timeline.Time {
	slices.SortFunc(parts, func(x, y timeline.Span) int { return cmp.Compare(x.Start, y.Start) })
	meanwhile := parts[:0]
	for _, p := range parts {
		if n := len(meanwhile); n > 0 && p.Start <= meanwhile[n-1].End {
			meanwhile[n-1].End = max(meanwhile[n-1].End, p.End)
		} else {
			meanwhile = append(meanwhile, p)
		}
	}
	t, ns := c.A.Timeline(), map[gotrace.StackID]timeline.Time{}
	for g := range t.Gs {
		if t.Gs[g].Len() < 2 { // it never did anything
			continue
		}
		for _, s := range t.Gs[g].Blocked() {
			if here(s) {
				ns[s.Stack] += timeline.Overlap(meanwhile, s.Start, s.End)
			}
		}
	}
	return ns
}

// systemCall is the function by which a stack makes its system call: the outermost of the packages
// that have one for each of them, "" if none of those is on the stack.
func systemCall(frames []gotrace.Frame) (call string) {
	own, _ := request.AppFrame(frames)
	for _, f := range frames {
		if f == own {
			break
		}
		for _, of := range []string{"syscall.", "golang.org/x/sys/unix.", "internal/syscall/unix."} {
			if strings.HasPrefix(f.Func, of) {
				call = f.Func
			}
		}
	}
	return call
}

// Claimed returns what the findings of a contrast, and the sets of causes that fit, claim:
// the id of a cause by key, or the ids of several with "|" between them.
func (v *Verdict) Claimed(contrast string) map[blame.KeyID]string {
	by := map[blame.KeyID]string{}
	for i := range v.Findings {
		if f := &v.Findings[i]; f.Contrast == contrast {
			for _, k := range f.keys {
				by[k] = f.Cause
			}
		}
	}
	for i := range v.Consistent {
		if x := &v.Consistent[i]; x.Contrast == contrast {
			for _, k := range x.keys {
				by[k] = strings.Join(x.Causes, "|")
			}
		}
	}
	return by
}

// LeafText describes what pieces of a key are: of whom, and where.
func LeafText(a *blame.Attribution, k blame.Key) string { return (&Case{A: a}).leafText(k) }

// columns gives every key its column: the outcomes', then one for what is
// unresolved, then one per leaf.
func (c *Case) columns(outcomes []outcome) (blame.Columns, []leafName) {
	cols := make(blame.Columns, len(c.A.Keys))
	for i := range cols {
		cols[i] = -1
	}
	names := make([]leafName, len(outcomes)+1)
	for i, o := range outcomes {
		for _, k := range o.j.Keys {
			cols[k] = i
		}
	}
	byName := map[leafKey]int{}
	for i, k := range c.A.Keys {
		switch {
		case cols[i] >= 0:
			continue
		case k.Kind == blame.Unresolved || k.Kind == blame.UnknownHolder:
			cols[i] = len(outcomes)
			continue
		}
		key := leafKey{k.Kind, k.Class, k.Site, k.Flags & blame.Self, k.Off}
		if wants(k) {
			key = leafKey{off: k.Off}
		}
		n, ok := byName[key]
		if !ok {
			n = len(names)
			byName[key] = n
			names = append(names, leafName{c.leafText(k), c.PlaceOf(k.Site), k})
		}
		cols[i] = n
	}
	return cols, names
}

type leafKey struct {
	kind  blame.LeafKind
	class blame.ClassID
	site  blame.SiteID
	flags blame.Flags
	off   events.State
}

// offNames say who had the CPU that a thread wanted.
var offNames = map[events.State]string{events.Queued: "others had it", events.Crowded: "the process's own threads had it", events.Stopped: "the quota was used up"}

// leafOnCPU describes a leaf whatever the thread did: of a baseline that may not be known.
func (c *Case) leafOnCPU(k blame.Key) string {
	k.Off = events.Unknown
	return c.leafText(k)
}

// Suspended is what no cause of the catalogue speaks of, and nobody looks for in a program.
const Suspended = "the whole process was made to stop from outside (by SIGSTOP, a frozen cgroup or a debugger)"

// leafText describes a leaf for the list of unnamed ones.
func (c *Case) leafText(k blame.Key) string {
	who := c.ClassName(k.Class)
	if k.Flags&blame.Self != 0 {
		who = "the request itself"
	}
	switch {
	case wants(k):
		return "wanting a CPU: " + offNames[k.Off]
	case k.Off == events.Faulted:
		return "waiting for a page: " + who
	}
	switch k.Kind {
	case blame.CPU:
		return "running: " + who
	case blame.Behind:
		return "waiting for a P behind " + c.ClassName(k.Class)
	case blame.STW:
		return "stop-the-world (" + c.A.Reasons[k.Reason] + ")"
	case blame.LateWakeup:
		return "ready to run with an idle P: the thread was late"
	case blame.Suspended:
		return Suspended
	}
	if k.Site != 0 {
		return fmt.Sprintf("%s in %s, by %s", k.Kind, shortName(c.A.Sites[k.Site].Func), who)
	}
	return fmt.Sprintf("%s, by %s", k.Kind, who)
}

// unmaterial says why a share is too small or too uncertain to be reported by
// name, or "". What endpoints differ in, mix, is no cause's: the shares are those of the rest.
func unmaterial(s blame.Share, mix float64, set Settings, holds Truth) string {
	if holds == Unknown {
		if s.Share < SuspectShare {
			return fmt.Sprintf("only %s of the excess", Pct(s.Share))
		}
		return ""
	}
	switch {
	case s.Share < NamedShare*unmixed(mix):
		return fmt.Sprintf("only %s of the excess", Pct(s.Share))
	case s.NS < NamedExcess:
		return fmt.Sprintf("only %s per slow request", Ms(s.NS))
	case s.NS < NamedSLO*float64(set.SLO):
		return fmt.Sprintf("%s per slow request, below a tenth of the SLO", Ms(s.NS))
	}
	return uncertain(s, mix)
}

// unmixed is the part of the excess that is not mix, where that is less than what would be told instead.
func unmixed(mix float64) float64 { return 1 - min(max(0, mix), MixShare) }

// uncertain says that a share is not known well enough to be reported by name, or "".
func uncertain(s blame.Share, mix float64) string {
	if s.HasInterval && s.Episodes >= Pattern {
		switch {
		case s.Low < NamedLow*unmixed(mix):
			return fmt.Sprintf("its share is uncertain: %s [%s..%s]", Pct(s.Share), Pct(s.Low), Pct(s.High))
		case s.High-s.Low > NamedWidth:
			return fmt.Sprintf("its share is too uncertain: %s [%s..%s]", Pct(s.Share), Pct(s.Low), Pct(s.High))
		}
	}
	return ""
}

// slight reports whether a share may be so little of the excess, in nanoseconds, that
// nobody minds, although it is there: of small tails that consist of many things, which
// one is larger than NamedExcess is chance.
func slight(s blame.Share, excess float64, set Settings) bool {
	minded := NamedExcess
	if set.SLO > 0 {
		minded = min(minded, NamedSLO*float64(set.SLO))
	}
	most := s.HasInterval && s.Episodes >= Pattern && s.Low >= MostShare
	return !most && surely(s, excess) < minded
}

// surely is what a share of the excess is at least, in nanoseconds. Of fewer episodes than
// make a pattern there is no interval to speak of: chance alone makes them half as many
// (the standard deviation of a count of 4 is 2).
func surely(s blame.Share, excess float64) float64 {
	if s.HasInterval && s.Episodes >= Pattern {
		return s.Low * excess
	}
	return s.NS / 2
}

// finding builds the report of an outcome that holds.
func finding(c *Case, o outcome, s blame.Share, unresolved float64) Finding {
	f := Finding{
		Cause: o.entry.ID, Contrast: c.Contrast, Share: s.Share, Pattern: repeated,
		ExcessNS: int64(s.NS), P99WithoutNS: s.P99Without, order: s.Share,
		Where: o.j.Where, Fix: append(slices.Clone(o.j.Fix), o.entry.Fix...), Verify: o.entry.Verify, Via: o.j.Via,
		Summary: summary(c, o, s), keys: o.j.Keys,
	}
	if s.HasInterval {
		low, high := s.Low, s.High
		f.ShareLow, f.ShareHigh = &low, &high
	}
	doubt := 0
	if !s.HasInterval {
		doubt++
	}
	for _, e := range o.j.Evidence {
		f.Evidence = append(f.Evidence, e.Text)
		if !e.Decides && e.Holds != Yes {
			doubt++
		}
	}
	if unresolved > UnresolvedShare/2 {
		doubt++
	}
	f.settled = [...]string{"high", "medium", "low"}[min(doubt, 2)]
	if f.Confidence = f.settled; s.Episodes < Pattern {
		f.Pattern, f.Confidence = oneIncident, "low"
	}
	f.Examples = c.examples(o.j.Keys)
	return f
}

func consistent(c *Case, o outcome, s blame.Share) Consistent {
	alike, record := o.j.alike()
	if c.Watched() { // what was recorded cannot be asked for
		record = strings.ReplaceAll(record, recordKernel, "longer, on a calm machine")
	}
	out := Consistent{
		Causes: append([]string{o.entry.ID}, alike...), Share: s.Share, Record: record,
		Contrast: c.Contrast, Where: o.j.Where, Summary: summary(c, o, s), keys: o.j.Keys,
	}
	for _, e := range o.j.Evidence {
		out.Evidence = append(out.Evidence, e.Text)
	}
	return out
}

func summary(c *Case, o outcome, s blame.Share) string {
	if c.Contrast == LevelContrast {
		if fast := c.P.Quantile(0.1); WholeRatio*float64(fast) < float64(c.P.Quantile(0.5)) {
			return fmt.Sprintf("Most requests spend %s (%s of their time), although a tenth takes no more than %s in all: %s.", Ms(s.NS), Pct(s.Share), Ms(float64(fast)), o.j.Subject)
		}
		return fmt.Sprintf("Every request spends %s (%s of its time): %s.", Ms(s.NS), Pct(s.Share), o.j.Subject)
	}
	if c.P.Whole {
		return fmt.Sprintf("Slow requests spend %s (%s of their time): %s.", Ms(s.NS), Pct(s.Share), o.j.Subject)
	}
	return fmt.Sprintf("Slow requests take %s longer (%s of their excess): %s.", Ms(s.NS), Pct(s.Share), o.j.Subject)
}

// examples returns the ids of up to three tail requests that spend most under keys.
func (c *Case) examples(keys []blame.KeyID) []string {
	in := map[blame.KeyID]bool{}
	for _, k := range keys {
		in[k] = true
	}
	type hit struct {
		r  int
		ns int64
	}
	var hits []hit
	for _, r := range c.Tail {
		h := hit{r: r}
		for _, p := range c.A.Requests[r].Pieces {
			if in[p.Key] {
				h.ns += p.NS
			}
		}
		if h.ns > 0 {
			hits = append(hits, h)
		}
	}
	sort.SliceStable(hits, func(i, j int) bool { return hits[i].ns > hits[j].ns })
	var out []string
	for _, h := range hits[:min(3, len(hits))] {
		out = append(out, fmt.Sprintf("r%d", c.A.Requests[h.r].Request))
	}
	return out
}

// level judges the median request against zero or a baseline. Requests of a service that is
// healthy but for that are judged, too, if they connect anew: see [Case.anew].
func (v *Verdict) level(a *blame.Attribution, p *blame.Population, s Settings, healthy bool) {
	c := newCase(a, p, LevelContrast)
	own := c.Sum(c.Free(func(k blame.Key) bool {
		return k.Flags&blame.Self != 0 && (k.Kind == blame.CPU || k.Kind == blame.Assist)
	}))
	wait, whole := c.Excess-own, c.Excess
	if s.Baseline != nil {
		c.usual = c.against(s.Baseline)
		wait = c.Excess
	}
	median, only := p.Quantile(0.5), false
	switch {
	case c.Excess <= 0, wait <= 0:
		return
	case s.SLO > 0:
		if median <= s.SLO {
			return
		}
	case s.Baseline != nil:
		if wait < NamedExcess || wait < BaselineGrowth*(whole-wait) {
			return
		}
	case wait < LevelShare*c.Excess || wait < LevelWait:
		if !healthy || !c.anew(s) {
			return
		}
		only = true
	}
	v.Level = &LevelVerdict{Median: median, WaitShare: wait / whole, Against: "zero"}
	if s.Baseline != nil {
		v.Level.Against = s.BaselineName
	}
	findings, suspects := slices.Clone(v.Findings), slices.Clone(v.Consistent)
	v.contrast(c, s)
	if only && !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Contrast == LevelContrast && f.anew() }) {
		v.Level, v.Findings, v.Consistent = nil, findings, suspects
	}
}

// conclude forms the verdict and its sentence.
func (v *Verdict) conclude(a *blame.Attribution, p *blame.Population, s Settings, healthy, mixed bool, hanging int, oldest int64) {
	p99 := p.Quantile(0.99)
	var tailFindings, levelFindings []Finding
	explained, levelShare := 0.0, 0.0
	for _, f := range v.Findings {
		if f.Contrast == LevelContrast {
			levelFindings = append(levelFindings, f)
			levelShare += f.Share
			continue
		}
		tailFindings = append(tailFindings, f)
		explained += f.Share
	}
	if len(tailFindings) > 0 {
		explained += v.told + v.alongside(&tailFindings[0])
	}
	suspects := 0.0
	var tailSuspects, levelSuspects []Consistent
	for _, c := range v.Consistent {
		if c.Contrast == LevelContrast {
			levelSuspects = append(levelSuspects, c)
			continue
		}
		tailSuspects = append(tailSuspects, c)
		suspects += c.Share
	}
	// Of look-alikes one of which was found the rest may be more of the same: they do
	// not speak against it unless they are twice as much.
	backed := 0.0
	for _, c := range tailSuspects {
		if len(tailFindings) > 0 && slices.Contains(c.Causes, tailFindings[0].Cause) {
			backed += c.Share
		}
	}
	enough := ExplainedShare * (1 - max(0, v.Mix)) // what endpoints differ in is no cause's
	switch {
	case p.N < MinRequests: // the sentence stands
		switch {
		case hanging == 0:
		case len(v.Findings) > 0:
			v.Sentence += " " + v.Findings[0].Summary
		case len(v.Consistent) > 0:
			v.Sentence += fmt.Sprintf(" %s It may be %s.", v.Consistent[0].Summary, strings.Join(v.Consistent[0].Causes, " or "))
		default:
			v.Sentence += " Record longer, or look at their goroutines."
		}
	case len(tailFindings) > 0 && explained+suspects >= enough && (explained >= enough || explained >= max(suspects-backed, backed/2)):
		f := tailFindings[0]
		v.Verdict, v.Findings = "cause", slices.Concat(tailFindings, levelFindings) // the first is the answer
		v.Sentence = fmt.Sprintf("p99 is %s: %s", Ms(float64(p99)), lowerFirst(f.Summary))
		switch {
		case v.OtherEndpoint > 0:
			v.Sentence = fmt.Sprintf("p99 is %s, and the slow requests are %s (%s): %s", Ms(float64(p99)), v.another(a), v.endpoint(a), lowerFirst(f.Summary))
		case v.Whole:
			v.Sentence = fmt.Sprintf("p99 is %s, and every request is slow: %s", Ms(float64(p99)), lowerFirst(f.Summary))
		}
	case v.Level != nil && (levelShare >= ExplainedShare || len(levelSuspects) > 0 && suspects < ExplainedShare):
		v.Reason = "level"
		if len(levelFindings) > 0 {
			v.Findings = slices.Concat(levelFindings, tailFindings)
			v.Sentence = levelFindings[0].Summary
			if levelShare >= ExplainedShare && (s.Baseline != nil || s.SLO > 0 || levelFindings[0].anew()) {
				v.Verdict, v.Reason = "cause", ""
			}
		} else {
			v.Sentence = levelSuspects[0].Summary
		}
	case healthy && v.Level == nil:
		v.Verdict = "healthy"
		v.Sentence = fmt.Sprintf("Nothing to explain: p50 %s, p99 %s over %.0f requests.", Ms(float64(p.Quantile(0.5))), Ms(float64(p99)), p.N)
		if s.SLO > 0 {
			v.Sentence = fmt.Sprintf("Within the objective of %s: p50 %s, p99 %s over %.0f requests.", Ms(float64(s.SLO)), Ms(float64(p.Quantile(0.5))), Ms(float64(p99)), p.N)
		}
		if f := v.spreads; f != nil {
			v.Sentence += fmt.Sprintf(" What slow requests take longer, %s, is how much they vary: there is no step between them and others. Most of it goes to %s: %s", Ms(v.Tail.Excess), f.Cause, lowerFirst(f.Summary))
		}
		if v.many {
			v.Sentence += fmt.Sprintf(" Slow requests take %s longer by many things, none of which surely takes %s.", Ms(v.Tail.Excess), Ms(NamedExcess))
		}
		if a.Found().Roles[p.Role].Pushed() {
			v.Sentence += " They are what streams send, from when the stream's goroutine was woken: whether the news was late is not known."
		}
		if v.onlyMixed {
			v.Sentence += fmt.Sprintf(" Slow requests are more often of endpoints that take longer, and %s longer than is usual for these.", Ms((1-v.Mix)*v.Tail.Excess))
		}
		if v.onlyMissed {
			v.Sentence += fmt.Sprintf(" Slow requests take %s longer because they came just after one goroutine had begun to work for those before them: it takes as long as always.", Ms(v.missed))
		}
		if v.onlyOwn {
			v.Sentence += fmt.Sprintf(" The recording itself cost slow requests %s.", Ms(v.own.NS))
		}
	case mixed && v.Level == nil:
		v.Verdict = "healthy"
		v.Sentence = fmt.Sprintf("The slow requests are %s, not a stall: %s of the difference is %s.", v.another(a), Pct(v.Mix), v.endpoint(a))
		if v.takes != nil {
			v.Sentence += fmt.Sprintf(" Its time goes to %s: %s", v.takes.Cause, lowerFirst(v.takes.Summary))
		}
	case v.Level != nil && suspects+explained < ExplainedShare:
		v.Reason = "unexplained"
		v.Sentence = fmt.Sprintf("Every request spends %s of its %s outside its own CPU, and no cause of the catalogue explains it.", Pct(v.Level.WaitShare), Ms(float64(v.Level.Median)))
	case suspects+explained >= ExplainedShare && len(tailSuspects) > 0:
		v.Reason = "look-alikes"
		s := tailSuspects[0]
		v.Sentence = fmt.Sprintf("p99 is %s: %s ", Ms(float64(p99)), lowerFirst(s.Summary))
		if len(s.Causes) == 1 {
			v.Sentence += fmt.Sprintf("It may be %s; to be sure, record %s.", s.Causes[0], s.Record)
		} else {
			v.Sentence += fmt.Sprintf("It is %s; to tell them apart, record %s.", strings.Join(s.Causes, " or "), s.Record)
		}
	case hanging > 0:
		v.Reason = "unexplained"
		v.Sentence = fmt.Sprintf("%d requests were open at the end, the oldest for %s.", hanging, Ms(float64(oldest)))
	case v.Unresolved > UnresolvedShare:
		v.Reason = "unresolved"
		v.Sentence = fmt.Sprintf("p99 is %s, and %s of what slow requests take longer cannot be resolved.", Ms(float64(p99)), Pct(v.Unresolved))
	case v.place != "":
		v.Reason = "unexplained"
		v.Sentence = fmt.Sprintf("p99 is %s, and no cause of the catalogue explains it: %s.", Ms(float64(p99)), v.place)
	default:
		v.Reason = "unexplained"
		v.Sentence = fmt.Sprintf("p99 is %s, and no cause of the catalogue explains half of what slow requests take longer.", Ms(float64(p99)))
	}
}

// alongside is the share of what has no name and comes with what a finding names: contention that yields to it, other
// effects of the same function, and, of who computes, that the process's own threads had the CPUs.
func (v *Verdict) alongside(f *Finding) (share float64) {
	if f.Cause == v.yieldedTo {
		share = v.yielded
	}
	if f.Where != nil {
		share += v.beside[f.Where.Function]
	}
	return share + v.crowded[f.Cause]
}

func (v *Verdict) endpoint(a *blame.Attribution) string {
	if name := endpointName(a, v.MixEndpoint, shortName); name != "" {
		return name
	}
	return "the mixture of endpoints"
}

// another says what a tail is more often than others.
func (v *Verdict) another(a *blame.Attribution) string {
	if _, asks := a.Endpoint(v.MixEndpoint); asks != 0 {
		return "those that ask a peer"
	}
	return "another endpoint"
}

// EndpointName is the name of an endpoint, see blame.Attribution.EndpointOf; "" if there is none.
func EndpointName(a *blame.Attribution, e int) string {
	return endpointName(a, e, func(function string) string { return function })
}

func endpointName(a *blame.Attribution, e int, name func(function string) string) string {
	endpoint, asks := a.Endpoint(e)
	switch {
	case endpoint == "":
		return ""
	case asks == 0:
		return name(endpoint)
	}
	return fmt.Sprintf("%s when it asks a peer in %s", name(endpoint), name(a.Sites[asks].Func))
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
