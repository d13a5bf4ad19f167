package cause

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/evidence"
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
	// ContendsShare is the share of contention for the host's CPUs, of the tail's excess but for the mix, from which on it is
	// the answer. In recordings with a neighbour it has 0.67 to 1. With less of it something else was wrong in 16 of 18
	// recordings, or nothing: who has more to do than at other times, the process, its peers or its clients, has others wait
	// for CPUs.
	ContendsShare = 0.6
	// ShortContends is the same where the excess is less than HealthyMany, and a good part of the machine was idle: any wake-up may wait
	// for a slice of what runs on its CPU. Short tails of controls had 0.5 to 0.71 of it, those of three neighbours that had been
	// planted 0.77 to 0.96, and of a fourth, whose p99 was 1.5 ms, 0.72.
	ShortContends = 0.75
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
	// NeedlessShare and NeedlessNS are what something that no request has to do must take of an endpoint's requests to be
	// the answer where the slow requests are that endpoint. In three recordings that was 0.42 to 0.51 of it, and 6.6 to 11 ms;
	// less than HealthyMany nobody feels.
	NeedlessShare, NeedlessNS = 0.4, HealthyMany
	// SlowerShare is the least part of what slow requests take longer that they must owe to their endpoint, SlowerTail the part
	// of them that must be its, for that to be asked where the endpoint is not most of it: 0.497 and 1 in one recording.
	SlowerShare, SlowerTail = 0.25, 0.9
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
	// Allocated is the functions that allocated most, that of most bytes first; none if not recorded.
	Allocated []Allocation
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
	// Clients is how many requests that waited for their own clients are left out.
	Clients int
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
	// clients are the requests that Clients counts, by their index.
	clients map[int]bool
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
	// whether it has a name or not, but for alone; many is set if that is why it is healthy.
	most float64
	many bool
	// alone is what a slow request loses to contention for the host's CPUs, in nanoseconds, where that is not most of it and
	// nothing else is found or suspected; 0 otherwise.
	alone float64
	// missed is what the slow requests waited longer because they had just missed a round, see
	// Case.missed; onlyMissed is set if without it there is nothing to explain.
	missed     float64
	onlyMissed bool
	// onlyMixed is set if slow requests are not felt to take longer than is usual for their endpoints.
	onlyMixed bool
	// asks is what most of the tail's time goes to if it is healthy because only some requests ask for that, see asked.
	asks   *Finding
	asking float64 // the part of all requests that do
	// spreads is what most of the tail's time goes to if it is healthy because that varies by itself, see spread; varies is how much
	// longer slow requests then take than typical ones, in nanoseconds.
	spreads *Finding
	// onlyBusy is what slow requests are late by, if it is healthy because the machine may have been busy, see busy, and busyNS
	// how much longer they take, in nanoseconds.
	onlyBusy []Consistent
	busyNS   float64
	varies   float64
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
		// A larger one may be a broker's, or another server's within the process, that it calls.
		behind := face(roles[order[0]]) && !roles[r].Known()
		if first != nil && (p.N < MinRequests || p.N < MinOtherRole*first.Role.N || clients || behind && first.Verdict == "inconclusive") {
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
		if first == nil || outer == nil && !behind && first.Verdict == "healthy" && v.Verdict == "inconclusive" {
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
		if x := &v.Consistent[i]; x.Contrast == contrast && !x.accompanies {
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
	if w := v.besideClients(a, s); w != nil {
		v, p = w, w.Role
	}
	if v.mixed && (v.Verdict == "healthy" || v.Verdict != "cause" && v.Level != nil) {
		w := v.withoutMix(a, s)
		if w == nil || w.Verdict != "cause" {
			w = cmp.Or(v.within(a, s), w)
		}
		if w != nil {
			return w
		}
	}
	if v.Verdict != "healthy" && v.Reason != "level" {
		if !v.unaccepted(newCase(a, p, TailContrast), s) {
			v.inTheWake(newCase(a, p, TailContrast), s)
		}
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
	v.contrast(newCase(a, p, TailContrast), s)
	if !healthy && p50 >= LevelWait && float64(p99) < WholeRatio*float64(p50) {
		w := v.whole(a, p, s)
		w.OtherEndpoint, w.MixEndpoint, w.Reason, w.Sentence = 0, -1, v.Reason, v.Sentence
		if c := newCase(a, p, TailContrast); hanging > 0 || !v.outgrows(w, c) {
			v = w
		}
	}
	p.Whole = v.Whole
	if late := s.SLO > 0 && p99 > s.SLO; v.Mix >= MixShare && (late || s.SLO == 0 && hanging == 0 && !healthy) {
		// The slow requests are another endpoint. If they are too slow, or for nothing that anybody wants, what takes
		// their time is asked for, not why they take longer than other endpoints.
		if w := v.whole(a, p, s); late || w.unwanted() {
			v = w
			v.leadNeedless()
		} else if len(w.Findings) > 0 && w.Findings[0].Share >= LevelShare {
			v.takes = &w.Findings[0]
		}
	} else if !healthy && v.named() < ExplainedShare*(1-v.Mix) && v.partly(a, p, s, hanging) {
		if w := v.whole(a, p, s); w.unwanted() {
			w.leadNeedless()
			if w.Findings[0].ExcessNS >= v.contended() {
				v = w
			}
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
	if !healthy && v.asked(a, p, s, hanging) {
		healthy, v.asks = true, &v.Findings[0]
	}
	healthy = healthy || v.alike(p, s, hanging)
	if !healthy && v.busy(p, s, hanging) {
		healthy, v.onlyBusy = true, slices.Clone(v.Consistent)
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

// outgrows reports whether what slow requests take longer answers better why they are slow than what takes the whole of
// their time, w, though every request takes long: they are another endpoint, which always takes as long by what it is made for;
// or most of it has a name, and is a good part of their time, while what takes most of that takes typical requests as long.
func (v *Verdict) outgrows(w *Verdict, c *Case) bool {
	if len(w.Findings) == 0 {
		return v.Mix >= MixShare
	}
	takes := w.leading()
	if x := Lookup(takes.Cause); v.Mix >= MixShare {
		return !x.Unwanted && !x.Crowds && (x.Varies || !x.Computes)
	}
	if len(v.Findings) == 0 || v.named() < ExplainedShare {
		return false
	}
	f, tail := v.leading(), c.P.Tail().Mean
	return !Lookup(f.Cause).Contends && f.Share >= ExplainedShare && f.Share*v.Tail.Excess >= OutgrownShare*tail &&
		c.grown(takes.keys) < OutgrownShare*v.Tail.Excess
}

// OutgrownShare is the part of slow requests' whole time that something must take them longer to be the answer where every
// request is slow, and the part of the excess that what takes most of their time must not reach.
const OutgrownShare = 0.25

// partly reports whether slow requests are of one endpoint, and take longer partly because of that.
func (v *Verdict) partly(a *blame.Attribution, p *blame.Population, s Settings, hanging int) bool {
	if v.Mix < SlowerShare || v.Mix >= MixShare || v.MixEndpoint < 0 || s.SLO > 0 || s.Baseline != nil || hanging > 0 {
		return false
	}
	c := newCase(a, p, TailContrast)
	of := 0.0
	for _, i := range c.Tail {
		if a.EndpointOf(i) == v.MixEndpoint {
			of += a.Weight[i]
		}
	}
	return of >= SlowerTail*c.count(c.Tail)
}

// named is the share of the tail's excess that has a name, but for contention for the host's CPUs, which accompanies others.
func (v *Verdict) named() (share float64) {
	for _, f := range v.Findings {
		if f.Contrast == TailContrast && !Lookup(f.Cause).Contends {
			share += f.Share
		}
	}
	return share
}

// contended is what slow requests lose to contention for the host's CPUs, in nanoseconds, as far as that is found.
func (v *Verdict) contended() (ns int64) {
	for _, f := range v.Findings {
		if f.Contrast == TailContrast && Lookup(f.Cause).Contends {
			ns = max(ns, f.ExcessNS)
		}
	}
	for _, x := range v.Consistent {
		if x.found {
			ns = max(ns, int64(x.Share*v.Tail.Excess))
		}
	}
	return ns
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

// unwanted reports whether most of the time of slow requests goes to something that no endpoint is made for, or much of it to
// what no request has to do.
func (v *Verdict) unwanted() bool {
	if slices.ContainsFunc(v.Findings, needless) {
		return true
	}
	if len(v.Findings) == 0 {
		return false
	}
	f := &v.Findings[0]
	return Lookup(f.Cause).Unwanted && f.Share >= LevelShare && f.ExcessNS >= LevelWait
}

// needless reports whether what a finding names no request has to do, and takes much of the time of slow ones.
func needless(f Finding) bool {
	return Lookup(f.Cause).Needless && f.Share >= NeedlessShare && f.ExcessNS >= NeedlessNS
}

// leadNeedless names what no request has to do before what they wait for anyway.
func (v *Verdict) leadNeedless() {
	if i := slices.IndexFunc(v.Findings, needless); i > 0 {
		f := v.Findings[i]
		f.Evidence = append(f.Evidence, "no request has to do it: it is named before what takes more of their time")
		f.order = math.Nextafter(v.Findings[0].order, math.Inf(1))
		v.Findings = slices.Insert(slices.Delete(v.Findings, i, i+1), 0, f)
	}
}

// minded is the part of p99 that the slow requests of other endpoints than the slowest must take for somebody to mind that they take up
// to SpreadExcess longer, by what varies by itself, or up to HealthyMany, by anything: p99 is the same without that. In 4 recordings where
// something had been planted that makes the others late they took 0.77 of it or more, in 5 of healthy services 0.39 or less.
const minded = 0.5

// unminded reports whether what the other endpoints than the slowest are late by is too little beside p99, in nanoseconds, of them all.
func (v *Verdict) unminded(p99 float64) bool {
	ids := []string{}
	if v.suspects() {
		ids = v.Consistent[0].Causes
	} else if f := v.leading(); f.Contrast == TailContrast {
		ids = append(ids, f.Cause)
	}
	minds := func(id string) bool { e := Lookup(id); return e.Layer == Host || e.Broken }
	if len(ids) == 0 || v.Whole || slices.ContainsFunc(ids, minds) {
		return false
	}
	limit := float64(HealthyMany)
	if !slices.ContainsFunc(ids, func(id string) bool { return !Lookup(id).Varies }) {
		limit = SpreadExcess
	}
	tail, typical := means(v.Role, v.ownAtLeast)
	tail = max(tail, float64(v.Role.Quantile(0.99))) // of few requests the slow ones are the slowest twenty, not all of which are late
	return tail-typical < limit && tail < minded*p99
}

// suspects reports whether nothing is named, but that most of what slow requests take longer is one of a few causes.
func (v *Verdict) suspects() bool {
	if v.Verdict != "inconclusive" || v.Reason != "look-alikes" || len(v.Findings) > 0 || len(v.Consistent) == 0 {
		return false
	}
	c := &v.Consistent[0]
	return c.Contrast == TailContrast && c.Share >= ExplainedShare && !slices.ContainsFunc(c.Causes, func(id string) bool { return Lookup(id).Contends })
}

// withoutMix judges the other endpoints where a tail is but one, or one after the other: who waits
// behind slow ones is late for a reason of its own. The largest of them is asked by itself, too, for
// the others may be the same again. It returns nil unless there is a cause, or a few causes it may be.
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
	w, who := judgeAll(a, v.without(a, slower), s), "others are"
	for w.Verdict != "cause" && w.mixed && w.MixEndpoint >= 0 && len(slower) < min(len(count), maxSlower) {
		slower = append(slower, w.MixEndpoint)
		w = judgeAll(a, v.without(a, slower), s)
	}
	if w.Verdict != "cause" || len(count) == 1 {
		endpoints := slices.Sorted(maps.Keys(count))
		largest := slices.MaxFunc(endpoints, func(x, y int) int { return cmp.Compare(count[x], count[y]) })
		w = judgeAll(a, v.of(a, largest), s)
		w.Only, who, slower = largest, endpointName(a, largest, shortName)+" is", slower[:1]
	}
	if w.Verdict != "cause" && !w.suspects() {
		return nil
	}
	if s.SLO == 0 && w.unminded(float64(v.Role.Quantile(0.99))) {
		return nil
	}
	w.Slower, w.Clients, w.clients = slower, v.Clients, v.clients
	w.Sentence = fmt.Sprintf("The slowest requests are %s (%s), but %s late too: %s", v.another(a), v.endpoint(a), who, w.Sentence)
	return w
}

// leftOfP99 is the part of what p99 exceeds the median by that must be left without the time that goes to clients, for the others to
// be asked what they wait for, and notOfP99 the part from which on it is not the clients' doing.
const leftOfP99, notOfP99 = 0.5, 0.9

// besideClients judges the other requests where some of the slow ones wait for their own clients for most of their time, and
// p99 is not their doing alone: they may take so long that in the mean of the tail nothing is left of what makes the others
// late, of which there may be more. It returns nil unless there is a cause, or nothing to explain without the clients, who hardly move p99.
func (v *Verdict) besideClients(a *blame.Attribution, s Settings) *Verdict {
	if v.Verdict != "cause" || v.Whole && v.OtherEndpoint == 0 || !Lookup(v.leading().Cause).Outside || v.leading().Contrast != TailContrast {
		return nil
	}
	in := map[blame.KeyID]bool{}
	for _, id := range v.leading().keys {
		in[id] = true
	}
	client := map[int]bool{}
	for _, i := range v.Role.All() {
		var ns int64
		for _, p := range a.Requests[i].Pieces {
			if in[p.Key] {
				ns += p.NS
			}
		}
		if 2*ns > a.Requests[i].D {
			client[i] = true
		}
	}
	p50, p99 := float64(v.Role.Quantile(0.5)), float64(v.Role.Quantile(0.99))
	left := 1 - (p99-float64(v.leading().P99WithoutNS))/max(1, p99-p50)
	if left < leftOfP99 {
		return nil
	}
	w := judgeAll(a, a.PopulationWhere(v.Role.Role, func(i int) bool { return !client[i] }), s)
	w.Clients, w.clients = len(client), client
	switch {
	case w.Verdict == "cause":
		w.Sentence = fmt.Sprintf("The slowest requests wait for their own clients (%s), but others are late too: %s", v.leading().Cause, w.Sentence)
	case w.Verdict == "healthy" && left >= notOfP99:
		w.Sentence = fmt.Sprintf("%s %d more wait for their own clients (%s), which hardly moves p99.", w.Sentence, len(client), v.leading().Cause)
	default:
		return nil
	}
	return w
}

// without returns the requests of the role but for those of some endpoints, of returns those of one, both but for those that
// wait for their own clients, if these were left out before.
func (v *Verdict) without(a *blame.Attribution, endpoints []int) *blame.Population {
	return a.PopulationWhere(v.Role.Role, func(i int) bool { return !v.clients[i] && !slices.Contains(endpoints, a.EndpointOf(i)) })
}

func (v *Verdict) of(a *blame.Attribution, endpoint int) *blame.Population {
	return a.PopulationWhere(v.Role.Role, func(i int) bool { return !v.clients[i] && a.EndpointOf(i) == endpoint })
}

// maxSlower bounds how many endpoints are left out one after the other.
const maxSlower = 4

// within judges the endpoint that a tail consists of by itself: some of its requests may be
// late. It returns nil unless that has a cause; that all of them are slow is no reason to ask.
func (v *Verdict) within(a *blame.Attribution, s Settings) *Verdict {
	if v.MixEndpoint < 0 {
		return nil
	}
	w := judgeAll(a, v.of(a, v.MixEndpoint), s)
	if w.Verdict != "cause" || w.Whole || w.leading().Contrast != TailContrast {
		return nil
	}
	w.Only, w.Slower, w.Clients, w.clients = v.MixEndpoint, []int{v.MixEndpoint}, v.Clients, v.clients
	w.Sentence = fmt.Sprintf("The slowest requests are one endpoint (%s), and of these some are late: %s", v.endpoint(a), w.Sentence)
	return w
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
	alone := v.accompanies(c, s, c.scattered)
	c.lead(v.Findings)
	if c.Contrast == TailContrast {
		v.alone = alone
		for i, x := range slices.Concat(whole, t.Columns[len(outcomes):]) {
			if alone == 0 || i >= len(outcomes) || !outcomes[i].entry.Contends {
				v.most = max(v.most, surely(x, t.Excess))
			}
		}
	}
	slices.SortStableFunc(v.Consistent, inOrder)
	sort.SliceStable(v.Findings, func(i, j int) bool { return v.Findings[i].order > v.Findings[j].order })
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
	}
	return whole
}

// hasCPUs reports whether most of what the Ps execute during slow requests, but for what each of these does itself, is what an
// outcome names.
func (c *Case) hasCPUs(o outcome) bool {
	class, _ := TopBy(c, keep(o.j.Keys, func(id blame.KeyID) bool {
		k := c.Key(id)
		return k.Kind == blame.CPU || k.Kind == blame.Behind
	}), func(k blame.Key) blame.ClassID { return k.Class })
	if c.meanwhile == nil {
		c.meanwhile = c.others()
	}
	var its, all timeline.Time
	for id, d := range c.meanwhile {
		is := blame.ClassID(id)
		if all += d; is == class || o.entry.Layer == GC && (is == timeline.ClassGCWorker || is == timeline.ClassGCAssist) {
			its += d
		}
	}
	return all > 0 && 2*its >= all
}

// others returns what the Ps execute during each of the slow requests without what it does itself, by class.
func (c *Case) others() []timeline.Time {
	out := make([]timeline.Time, len(c.A.Classes))
	for _, i := range c.Tail {
		r := &c.A.Found().Requests[c.A.Requests[i].Request]
		executed := c.A.Executed([]timeline.Span{{Start: r.Start(), End: r.End()}})
		for _, p := range c.A.Requests[i].Pieces {
			k := c.Key(p.Key)
			class := k.Class
			switch {
			case k.Flags&blame.Self == 0:
				continue
			case k.Kind == blame.Assist:
				class = timeline.ClassGCAssist
			case k.Kind != blame.CPU && k.Kind != blame.Syscall && k.Kind != blame.Cgo:
				continue
			}
			executed[class] = max(0, executed[class]-timeline.Time(p.NS)) // of a call, the Ps executed the beginning
		}
		for id, d := range executed {
			out[id] += d
		}
	}
	return out
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
		t := j.Holds()
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
