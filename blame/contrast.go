package blame

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

// The bands of the latency distribution and the bootstrap.
const (
	// TailMin and TailMax bound the tail band as a ratio of all requests, and
	// TailCount is how many requests it should have between them: with 80 to 300
	// requests the top 1.5 % are 1 to 4 requests, too few to say anything.
	TailMin, TailMax = 0.015, 0.10
	TailCount        = 20
	// TypicalLow and TypicalHigh delimit the typical band.
	TypicalLow, TypicalHigh = 0.40, 0.60
	// MinEndpoint is how many requests an endpoint needs to be compared with its
	// own typical requests rather than with everybody's. FewOfEndpoint are enough of
	// one that is slow whenever it is asked: if each takes alwaysSlow times as long
	// as typical requests do, from the first to the last half a recording later.
	MinEndpoint, FewOfEndpoint = 10, 4
	alwaysSlow                 = 2
	// Replicates of the bootstrap; MinBlocks of wall time are needed for one.
	// Blocks are a fortieth of the recording within [BlockMin, BlockMax]:
	// requests cluster in episodes, and a block must hold a whole one.
	Replicates         = 200
	MinBlocks          = 20
	BlockMin, BlockMax = timeline.Time(100e6), timeline.Time(1e9)
	// maxBlocks bounds them: a damaged time makes a recording last years.
	maxBlocks = 1 << 16
	// Low and High are the percentiles of the interval.
	intervalLow, intervalHigh = 0.05, 0.95
	bootstrapSeed             = 1
)

// Population is the requests of one role, ready to be contrasted.
type Population struct {
	Role int
	// N is how many finished or tail-worthy requests there are, by weight.
	N float64
	// rows are in order of duration; all are their numbers, weights what each counts.
	rows    []row
	all     []int
	weights []float64

	a      *Attribution
	blocks int
	start  timeline.Time
	block  timeline.Time
	// byEndpoint holds the numbers of the rows that say what is usual for an endpoint, of each that is large enough.
	byEndpoint map[int][]int
	doubted    []int // see Doubted
	// Whole makes contrasts split the tail's whole time instead of its excess
	// over the typical band, for services in which every request is slow.
	Whole bool
}

type row struct {
	req      int // index into Attribution.Requests
	d        int64
	weight   float64
	endpoint int
	block    int
	inFlight bool
}

// Population returns the requests of a role. Requests in flight count, with
// their age as a lower bound, when they are older than the 99th percentile of
// those that ended: they belong to the tail.
func (a *Attribution) Population(role int) *Population {
	return a.PopulationWhere(role, func(int) bool { return true })
}

// PopulationWhere returns the requests of a role that of accepts, by their index into Requests, as Population does.
func (a *Attribution) PopulationWhere(role int, of func(i int) bool) *Population {
	p := &Population{Role: role, a: a, start: a.t.Start, byEndpoint: map[int][]int{}}
	p.block = max(min(max(a.t.Duration()/40, BlockMin), BlockMax), a.t.Duration()/maxBlocks)
	for i := range a.Requests {
		r := &a.f.Requests[a.Requests[i].Request]
		endpoint := a.EndpointOf(i)
		if r.Role != role || !of(i) || r.InFlight && a.guards.NoInFlight {
			continue
		}
		p.rows = append(p.rows, row{
			req: i, d: a.Requests[i].D, weight: a.Weight[i], endpoint: endpoint,
			block: int((r.Start() - p.start) / p.block), inFlight: r.InFlight,
		})
	}
	sort.SliceStable(p.rows, func(i, j int) bool { return p.rows[i].d < p.rows[j].d })
	p.dropYoung()
	for i, r := range p.rows {
		p.N += r.weight
		p.all, p.weights = append(p.all, i), append(p.weights, r.weight)
		p.blocks = max(p.blocks, r.block+1)
		if !r.inFlight { // what has not ended says nothing of what is usual
			p.byEndpoint[r.endpoint] = append(p.byEndpoint[r.endpoint], i)
		}
	}
	few, slow := map[int]bool{}, alwaysSlow*p.Quantile(0.5)
	for e, rows := range p.byEndpoint {
		if len(rows) < MinEndpoint {
			if p.always(rows, slow) {
				few[e] = true
			} else {
				delete(p.byEndpoint, e)
			}
		}
	}
	p.dropConditional(few)
	for e, rows := range p.byEndpoint {
		p.byEndpoint[e] = p.usual(rows)
	}
	return p
}

// always reports whether few requests, in order of durations, each take so long at least, at all times: their endpoint may be one
// that is slow whenever it is asked.
func (p *Population) always(rows []int, slow int64) bool {
	if len(rows) < FewOfEndpoint || p.rows[rows[0]].d < slow {
		return false
	}
	first, last := p.a.t.End, p.a.t.Start
	for _, i := range rows {
		at := p.a.f.Requests[p.a.Requests[p.rows[i].req].Request].Start()
		first, last = min(first, at), max(last, at)
	}
	return 2*(last-first) >= p.a.t.Duration()
}

// alwaysShown is the part of an endpoint's requests that must show the same thing, for the
// endpoint to show itself always.
const alwaysShown = 0.8

// dropConditional removes endpoints of which only those requests are known that waited. Nothing
// is seen of a handler that neither waits nor calls the system. So where more requests were not
// seen than are an endpoint's, and its own have nothing in common that each of them does, it
// was seen because it was late, what is usual for it is unknown, and to compare its late
// requests with the others of it would take what made them late for usual. What each of them
// does is a wait at one place, for a peer, for time, for a child or for a reply, or to compute
// for a good part of their time; a wait in a queue is none, for it depends on the others in it,
// unlike one for what is announced to all who are there; nor is one at a rate limiter. What is done once, for the first request that needs
// it, is none either. Endpoints of which there are few are asked for that whoever was not seen.
func (p *Population) dropConditional(few map[int]bool) {
	type shown struct {
		kind LeafKind
		site SiteID
	}
	if len(few) == 0 && !slices.ContainsFunc(p.rows, func(r row) bool { return p.a.f.Requests[p.a.Requests[r.req].Request].Unseen }) {
		return
	}
	var unseen float64
	all := map[shown]float64{} // of those that were not seen: what the library itself does
	seen := map[int]float64{}
	guess := map[int]bool{}
	by := map[int]map[shown]float64{}
	mine := map[shown]bool{} // what one request shows
	for _, row := range p.rows {
		r := &p.a.Requests[row.req]
		clear(mine)
		var cpu int64
		for _, x := range r.Pieces {
			k := p.a.Keys[x.Key]
			switch {
			case x.NS <= 0:
			case p.a.Sites[k.First.Site].Once || k.First.Site == 0 && p.a.Sites[k.Site].Once: // it is done once, by none of the others
			case p.a.Sites[k.Site].Limit: // as in a queue, it depends on the others
			case k.First.Site != 0:
				// for its own children, for a reply, or for what is announced to all
				if k.First.Site != k.Queue.Site && !p.a.HandedOver(k.First) || k.Kind == Timer && p.a.Announced(k.First.Site) {
					mine[shown{leafKinds, k.First.Site}] = true
					switch { // and what these do
					case k.Queue.Site != 0 || k.Kind == UnknownHolder:
					case k.Kind == CPU:
						cpu += x.NS
					case k.Site != 0:
						mine[shown{k.Kind, k.Site}] = true
					}
				}
			case k.Flags&Self == 0 || k.Kind == UnknownHolder:
			case k.Kind == CPU:
				cpu += x.NS
			case k.Site != 0:
				mine[shown{k.Kind, k.Site}] = true
			}
		}
		if 4*cpu >= row.d { // the rest may be waiting for a CPU
			mine[shown{kind: CPU}] = true
		}
		if p.a.f.Requests[r.Request].Unseen {
			unseen += row.weight
			guess[row.endpoint] = true
			for s := range mine {
				if s.kind != CPU {
					all[s] += row.weight
				}
			}
			continue
		}
		seen[row.endpoint] += row.weight
		if by[row.endpoint] == nil {
			by[row.endpoint] = map[shown]float64{}
		}
		for s := range mine {
			by[row.endpoint][s] += row.weight
		}
	}
	for e := range p.byEndpoint {
		if guess[e] || unseen <= seen[e] && !few[e] {
			continue
		}
		most, computes := 0.0, 0.0
		for s, n := range by[e] {
			switch {
			case s.kind == CPU:
				computes = n
			case all[s] < unseen/2 || unseen == 0:
				most = max(most, n)
			}
		}
		switch {
		case most >= alwaysShown*seen[e]:
		case computes >= alwaysShown*seen[e] && unseen <= seen[e]:
		case computes >= alwaysShown*seen[e]:
			p.doubted = append(p.doubted, e)
		default:
			delete(p.byEndpoint, e)
		}
	}
}

// dropYoung removes requests in flight that are not older than the p99 of those
// that ended.
func (p *Population) dropYoung() {
	ended := p.rows[:0:0]
	for _, r := range p.rows {
		if !r.inFlight {
			ended = append(ended, r)
		}
	}
	q := &Population{rows: ended}
	for _, r := range ended {
		q.N += r.weight
	}
	limit := q.Quantile(0.99)
	kept := p.rows[:0]
	for _, r := range p.rows {
		if !r.inFlight || r.d > limit {
			kept = append(kept, r)
		}
	}
	p.rows = kept
}

// Doubted reports whether it is not known if an endpoint's requests usually are as slow: those that are known to be its
// computed for long, which shows in any handler, while more requests of the role showed nothing of their handlers,
// and may be of the same endpoint.
func (p *Population) Doubted(endpoint int) bool { return slices.Contains(p.doubted, endpoint) }

// Unlike returns the same requests, which it shares with p, as if nothing were known of what is usual for an endpoint.
func (p *Population) Unlike(endpoint int) *Population {
	q := *p
	q.byEndpoint = maps.Clone(p.byEndpoint)
	delete(q.byEndpoint, endpoint)
	return &q
}

// Len returns the number of attributed requests in the population.
func (p *Population) Len() int { return len(p.rows) }

// InFlight returns how many requests were open at the end and more than twice as
// old as the longest that ended, and the age of the oldest. At any instant some
// slow request is open; one that is so much older than all others hangs.
func (p *Population) InFlight() (n int, oldest int64) {
	var longest int64
	for _, r := range p.rows {
		if !r.inFlight {
			longest = max(longest, r.d)
		}
	}
	for _, r := range p.rows {
		if r.inFlight && r.d > 2*longest {
			n++
			oldest = max(oldest, r.d)
		}
	}
	return n, oldest
}

// Quantile returns the duration below or at which a part q of the requests lies.
func (p *Population) Quantile(q float64) int64 {
	if len(p.rows) == 0 {
		return 0
	}
	var sum float64
	for _, r := range p.rows {
		if sum += r.weight; sum >= q*p.N {
			return r.d
		}
	}
	return p.rows[len(p.rows)-1].d
}

// tailRatio is the tail band's part of n requests.
func tailRatio(n float64) float64 {
	return max(TailMin, min(TailCount/max(n, 1), TailMax))
}

// Band is a set of requests of the population, by row.
type Band struct {
	rows []int
	// Count is their number, by weight.
	Count float64
	// Mean is their mean duration in nanoseconds.
	Mean float64
}

// Tail and Typical return the two bands.
func (p *Population) Tail() Band { return p.band(p.all, 1-tailRatio(p.N), 1, p.weights) }

// Typical returns the band around the median.
func (p *Population) Typical() Band { return p.band(p.all, TypicalLow, TypicalHigh, p.weights) }

// Tenths returns in which part of the recording's tenths requests of a band begin.
func (p *Population) Tenths(b Band) float64 {
	var in [10]bool
	n, whole := 0, max(1, p.a.t.Duration())
	for _, i := range b.rows {
		at := p.a.f.Requests[p.a.Requests[p.rows[i].req].Request].Start() - p.start
		if k := int(min(max(0, at)*10/whole, 9)); !in[k] {
			in[k] = true
			n++
		}
	}
	return float64(n) / 10
}

// band selects of ids, which are in order of duration, those between two
// quantiles; weights says by row what each counts. What counts nothing may be among them.
func (p *Population) band(ids []int, low, high float64, weights []float64) Band {
	var n float64
	for _, i := range ids {
		n += weights[i]
	}
	var b Band
	var sum, d float64
	first, end := 0, 0
	for k, i := range ids {
		w := weights[i]
		if w == 0 {
			continue
		}
		mid := sum + w/2
		sum += w
		if mid < low*n || mid > high*n {
			continue
		}
		if end == 0 {
			first = k
		}
		end = k + 1
		b.Count += w
		d += w * float64(p.rows[i].d)
	}
	b.rows = ids[first:end]
	if len(b.rows) == 0 && len(ids) > 0 { // fewer requests than the band is narrow
		k := min(len(ids)-1, int(high*float64(len(ids))))
		b.rows, b.Count = ids[k:k+1], max(weights[ids[k]], 1)
		d = b.Count * float64(p.rows[ids[k]].d)
	}
	if b.Count > 0 {
		b.Mean = d / b.Count
	}
	return b
}

// All returns the indexes into Attribution.Requests of the whole population,
// fastest first.
func (p *Population) All() []int {
	out := make([]int, len(p.rows))
	for i, r := range p.rows {
		out[i] = r.req
	}
	return out
}

// MeanButSlowest returns the mean duration of a band without its slowest request.
func (p *Population) MeanButSlowest(b Band) float64 {
	if len(b.rows) < 2 {
		return b.Mean
	}
	r := p.rows[b.rows[len(b.rows)-1]]
	return (b.Mean*b.Count - float64(r.d)) / (b.Count - 1)
}

// Requests returns the indexes into Attribution.Requests of a band, slowest first.
func (p *Population) Requests(b Band) []int {
	out := make([]int, len(b.rows))
	for i, r := range b.rows {
		out[len(out)-1-i] = p.rows[r].req
	}
	return out
}

// Columns assigns a column to every key, by KeyID. Columns are what shares are
// computed of: leaves, families of leaves, causes.
type Columns []int

// Share is a column's part of a contrast.
type Share struct {
	// NS is the mean excess of the column, in nanoseconds per request.
	NS float64
	// Share is NS over the whole excess; Low and High its interval, valid if HasInterval.
	Share, Low, High float64
	HasInterval      bool
	// Episodes is how many separate times the column carried the tail.
	Episodes int
	// P99Without is the p99 of the requests without the column's time, as far as
	// it exceeds the typical band's and they need not wait for another child instead.
	P99Without int64
}

// Contrast is the difference between two bands, split into columns.
type Contrast struct {
	Tail, Typical Band
	// Excess is Tail.Mean - Typical.Mean.
	Excess float64
	// Mix is the part of the excess that exists because the tail consists of
	// other endpoints; MixEndpoint is the one that adds most.
	Mix         Share
	MixEndpoint int
	Columns     []Share
	// Episodes counts separate clusters of tail requests.
	Episodes int
	Blocks   int
}

// TailContrast contrasts the tail with the typical band.
func (p *Population) TailContrast(cols Columns, n int) Contrast {
	m := p.matrix(cols, n)
	c := Contrast{Tail: p.Tail(), Typical: p.Typical(), MixEndpoint: -1, Blocks: p.blocks}
	e := m.excess(p.weights)
	c.fill(e)
	c.MixEndpoint = e.mixEndpoint
	c.Episodes = p.episodes(c.Tail.rows)
	usual := make([]float64, n)
	if !p.Whole {
		usual = m.mean(c.Typical, p.weights)
	}
	for j, parts := range m.byColumn() {
		c.Columns[j].P99Without = p.without(parts, usual[j])
		c.Columns[j].Episodes = p.episodes(m.carried(c.Tail.rows, j))
	}
	m.bootstrap(&c, m.excess)
	return c
}

// TailMeans returns the mean tail excess of every column in nanoseconds, and the
// whole excess: a TailContrast without intervals.
func (p *Population) TailMeans(cols Columns, n int) (ns []float64, total float64) {
	e := p.matrix(cols, n).excess(p.weights)
	return e.cols, e.total
}

// TypicalMeans returns the mean of every column over the typical band.
func (p *Population) TypicalMeans(cols Columns, n int) (ns []float64, total float64) {
	b := p.Typical()
	return p.matrix(cols, n).mean(b, p.weights), b.Mean
}

// TailMean is what TailMeans is of columns, of one value that requests have.
func (p *Population) TailMean(value func(r *Attributed) float64) float64 {
	return p.single(value).excess(p.weights).cols[0]
}

// TypicalMean is the mean of a value over the typical band.
func (p *Population) TypicalMean(value func(r *Attributed) float64) float64 {
	return p.single(value).mean(p.Typical(), p.weights)[0]
}

// single is a matrix whose only column is a value of each request.
func (p *Population) single(value func(r *Attributed) float64) *matrix {
	return p.rowed(1, func(r *Attributed) []cell { return []cell{{0, value(r)}} })
}

// LevelContrast splits the typical band's whole duration, against a baseline of
// means by column, or against zero when base is nil.
func (p *Population) LevelContrast(cols Columns, n int, base []float64) Contrast {
	m := p.matrix(cols, n)
	c := Contrast{Tail: p.Typical(), MixEndpoint: -1, Blocks: p.blocks}
	level := func(weights []float64) excess {
		b := p.band(p.all, TypicalLow, TypicalHigh, weights)
		e := excess{cols: m.mean(b, weights), total: b.Mean, mixEndpoint: -1}
		for j, x := range base {
			if j < len(e.cols) {
				e.cols[j] -= x
				e.total -= x
			}
		}
		return e
	}
	c.fill(level(p.weights))
	c.Episodes = p.episodes(c.Tail.rows)
	for j, parts := range m.byColumn() {
		c.Columns[j].Episodes = c.Episodes
		c.Columns[j].P99Without = p.without(parts, 0)
	}
	m.bootstrap(&c, level)
	return c
}

func (c *Contrast) fill(e excess) {
	c.Excess = e.total
	c.Columns = make([]Share, len(e.cols))
	for j, x := range e.cols {
		c.Columns[j] = Share{NS: x, Share: ratio(x, e.total)}
	}
	c.Mix = Share{NS: e.mix, Share: ratio(e.mix, e.total)}
}

func ratio(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}

// matrix is the population with its pieces summed by column.
type matrix struct {
	p    *Population
	n    int
	cols Columns
	// sums returns what a request has in each column, in order of columns; cells are those
	// that were asked for, by row: means over bands need no others.
	sums  func(r *Attributed) []cell
	cells [][]cell
}

type cell struct {
	col int
	ns  float64
}

func (p *Population) matrix(cols Columns, n int) *matrix {
	sum := make([]float64, n)
	var touched []int
	m := p.rowed(n, func(r *Attributed) []cell {
		touched = touched[:0]
		for _, x := range r.Pieces {
			c := cols[x.Key]
			if sum[c] == 0 {
				touched = append(touched, c)
			}
			sum[c] += float64(x.NS)
		}
		slices.Sort(touched)
		out := make([]cell, 0, len(touched))
		for _, c := range touched {
			if sum[c] != 0 {
				out = append(out, cell{c, sum[c]})
			}
			sum[c] = 0
		}
		return out
	})
	m.cols = cols
	return m
}

// rowed is a matrix of n columns with what sums returns for each request.
func (p *Population) rowed(n int, sums func(r *Attributed) []cell) *matrix {
	return &matrix{p: p, n: n, cells: make([][]cell, len(p.rows)), sums: sums}
}

// row returns the cells of a row.
func (m *matrix) row(i int) []cell {
	if m.cells[i] == nil {
		m.cells[i] = m.sums(&m.p.a.Requests[m.p.rows[i].req])
	}
	return m.cells[i]
}

// part is what a row has in a column, and what stays of it if that is taken away, because
// the request would wait for another child.
type part struct {
	row       int
	ns, stays float64
}

// byColumn returns the parts of every column, in order of rows.
func (m *matrix) byColumn() [][]part {
	rows := make([]int, m.n)
	for i := range m.p.rows {
		for _, c := range m.row(i) {
			rows[c.col]++
		}
	}
	out := make([][]part, m.n)
	for col, n := range rows {
		out[col] = make([]part, 0, n)
	}
	sum, other := make([]float64, m.n), make([]float64, m.n)
	for i, r := range m.p.rows {
		for _, c := range m.row(i) {
			out[c.col] = append(out[c.col], part{row: i, ns: c.ns})
		}
		for _, c := range m.p.a.Requests[r.req].bound(m.cols, sum, other) {
			if n := len(out[c.col]) - 1; n >= 0 && out[c.col][n].row == i {
				out[c.col][n].stays += c.ns
			}
		}
	}
	return out
}

// mean returns the mean of every column over a band of rows with these weights.
func (m *matrix) mean(b Band, weights []float64) []float64 {
	out := make([]float64, m.n)
	for _, i := range b.rows {
		w := weights[i]
		if w == 0 {
			continue
		}
		for _, c := range m.row(i) {
			out[c.col] += w * c.ns / b.Count
		}
	}
	return out
}

// excess is a contrast's raw result, in nanoseconds per request.
type excess struct {
	cols        []float64
	total, mix  float64
	mixEndpoint int
}

// excess contrasts the bands: every tail request with the typical requests of
// its own endpoint, and what remains, the endpoints' composition, is the mix.
// Columns and mix add up to the total (Kitagawa's decomposition).
func (m *matrix) excess(weights []float64) excess {
	p := m.p
	var n float64
	for _, w := range weights {
		n += w
	}
	tail := p.band(p.all, 1-tailRatio(n), 1, weights)
	typical := p.band(p.all, TypicalLow, TypicalHigh, weights)
	everybody := m.mean(typical, weights)
	e := excess{cols: m.mean(tail, weights), total: tail.Mean - typical.Mean, mixEndpoint: -1}

	if p.Whole {
		e.total = tail.Mean
		return e
	}
	share := map[int]float64{} // of the tail, by endpoint
	for _, i := range tail.rows {
		if w := weights[i]; w > 0 {
			share[p.rows[i].endpoint] += w / tail.Count
		}
	}
	most := 0.0
	for _, k := range sortedKeys(share) {
		w := share[k]
		own, mean := everybody, typical.Mean
		if rows := p.byEndpoint[k]; rows != nil {
			b := p.band(rows, TypicalLow, TypicalHigh, weights)
			if b.Count > 0 {
				own, mean = m.mean(b, weights), b.Mean
			}
		}
		for j := range e.cols {
			e.cols[j] -= w * own[j]
		}
		d := w * (mean - typical.Mean)
		e.mix += d
		if d > most {
			most, e.mixEndpoint = d, k
		}
	}
	return e
}

func sortedKeys(m map[int]float64) []int {
	ks := make([]int, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	sort.Ints(ks)
	return ks
}

// without returns the p99 of durations without a column, of which these are the parts, as
// far as it exceeds what is usual and what would be spent in waiting for other children.
func (p *Population) without(parts []part, usual float64) int64 {
	type shorter struct {
		row int
		d   float64
	}
	var moved []shorter
	for _, x := range parts {
		if ns := x.ns - max(usual, x.stays); ns > 0 {
			moved = append(moved, shorter{x.row, float64(p.rows[x.row].d) - ns})
		}
	}
	byLength := slices.Clone(moved)
	slices.SortFunc(byLength, func(x, y shorter) int { return cmp.Compare(x.d, y.d) })
	var sum float64
	reached := func(row int) bool {
		sum += p.weights[row]
		return sum >= 0.99*p.N
	}
	for i := range p.rows { // the others are still in order
		if len(moved) > 0 && moved[0].row == i {
			moved = moved[1:]
			continue
		}
		for ; len(byLength) > 0 && byLength[0].d < float64(p.rows[i].d); byLength = byLength[1:] {
			if reached(byLength[0].row) {
				return int64(byLength[0].d)
			}
		}
		if reached(i) {
			return p.rows[i].d
		}
	}
	for _, x := range byLength {
		if reached(x.row) {
			return int64(x.d)
		}
	}
	return 0
}

// carried returns the rows in which a column makes up at least a quarter of the
// request's duration.
func (m *matrix) carried(rows []int, col int) []int {
	var out []int
	for _, i := range rows {
		over := float64(m.p.rows[i].d)
		for _, c := range m.row(i) {
			if c.col == col && c.ns >= 0.25*over {
				out = append(out, i)
			}
		}
	}
	return out
}

// episodes counts the separate clusters in time of requests: those that overlap,
// or follow each other within their own mean duration, belong together.
func (p *Population) episodes(rows []int) int {
	type span struct{ a, b timeline.Time }
	var xs []span
	var mean float64
	for _, i := range rows {
		r := &p.a.f.Requests[p.a.Requests[p.rows[i].req].Request]
		xs = append(xs, span{r.Start(), r.End()})
		mean += float64(r.Duration()) / float64(len(rows))
	}
	sort.Slice(xs, func(i, j int) bool { return xs[i].a < xs[j].a })
	n := 0
	var end timeline.Time
	for i, x := range xs {
		if i == 0 || float64(x.a-end) > mean {
			n++
		}
		end = max(end, x.b)
	}
	return n
}

// bootstrap fills the intervals of a contrast's shares by drawing blocks of wall
// time with replacement and recomputing cuts and shares: requests cluster, so
// they are not the unit that varies independently.
func (m *matrix) bootstrap(c *Contrast, f func(weights []float64) excess) {
	occupied := make([]bool, m.p.blocks)
	n := 0
	for _, r := range m.p.rows {
		if !occupied[r.block] {
			occupied[r.block] = true
			n++
		}
	}
	if n < MinBlocks {
		return
	}
	rng := rand.New(rand.NewPCG(bootstrapSeed, bootstrapSeed))
	shares := make([][]float64, len(c.Columns)+1)
	times := make([]int, m.p.blocks)
	weights := make([]float64, len(m.p.rows))
	for range Replicates {
		clear(times)
		for range times {
			times[rng.IntN(len(times))]++
		}
		for i, r := range m.p.rows {
			weights[i] = r.weight * float64(times[r.block])
		}
		e := f(weights)
		if e.total <= 0 {
			continue
		}
		for j, x := range e.cols {
			shares[j] = append(shares[j], x/e.total)
		}
		shares[len(c.Columns)] = append(shares[len(c.Columns)], e.mix/e.total)
	}
	set := func(s *Share, xs []float64) {
		if len(xs) < Replicates/2 {
			return
		}
		sort.Float64s(xs)
		s.Low, s.High, s.HasInterval = xs[int(intervalLow*float64(len(xs)))], xs[int(intervalHigh*float64(len(xs)-1))], true
	}
	for j := range c.Columns {
		set(&c.Columns[j], shares[j])
	}
	set(&c.Mix, shares[len(c.Columns)])
}
