package report

import (
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/cause"
)

// An account is everything that one contrast's excess consists of. Its rows add
// up to 100.0 % as printed.
type account struct {
	contrast string
	rows     []row
	// total is the sum of the rows in tenths of a per cent. It is 1000 unless
	// the diagnosis itself does not add up.
	total int
}

// cut reports whether a share is beyond what is written out; then the rows need not
// add up.
func (a *account) cut() bool {
	return slices.ContainsFunc(a.rows, func(r row) bool { return math.Abs(r.share) >= maxShare })
}

type rowKind int

const (
	rowNamed rowKind = iota
	rowConsistent
	rowRest
)

// A row is one part of an account.
type row struct {
	kind     rowKind
	mark     string
	label    string
	share    float64
	tenths   int
	excess   int64 // ns; 0 is not printed
	interval string
}

// The contrasts, as in cause.Finding.
const (
	tail   = "tail"
	level  = "level"
	before = "before"
)

// maxUnnamed leaves are listed one by one; the others are summed. Five fit
// beside the findings without pushing them off the screen.
const maxUnnamed = 5

// accounts returns the accounts of d, that of the first finding first. Contrasts
// about which the diagnosis says nothing have none.
func accounts(d *Diagnosis) []account {
	order := []string{tail, level}
	if len(d.Findings) > 0 && contrastOf(d.Findings[0].Contrast) == level ||
		len(d.Findings) == 0 && len(d.ConsistentWith) > 0 && contrastOf(d.ConsistentWith[0].Contrast) == level {
		order = []string{level, tail}
	}
	var out []account
	for _, c := range order {
		base := excessOf(d, c)
		rows := holding(d, c, base)
		if c == tail {
			rows = append(rows, rest(d, base)...)
		} else if len(rows) > 0 {
			rows = append(rows, row{kind: rowRest, mark: "·", label: "everything else", share: 1 - sum(rows)})
		}
		if len(rows) == 0 {
			continue
		}
		out = append(out, account{contrast: c, rows: rows, total: roundTogether(rows)})
	}
	return out
}

func contrastOf(s string) string {
	if s == level || s == before {
		return s
	}
	return tail
}

// excessOf is the excess of contrast c in nanoseconds, 0 if it is not known.
func excessOf(d *Diagnosis, c string) int64 {
	switch {
	case c == tail:
		return d.ExcessNS
	case d.Level != nil:
		return d.Level.ExcessNS
	}
	return 0
}

// holding returns the rows of the findings and of the look-alikes of contrast c.
func holding(d *Diagnosis, c string, base int64) []row {
	var rows []row
	more := row{kind: rowNamed, mark: "+", label: "more findings"}
	for i, f := range d.Findings {
		switch {
		case contrastOf(f.Contrast) != c:
		case i >= maxFindings:
			more.share += bounded(f.Share)
		default:
			rows = append(rows, row{kind: rowNamed, mark: markOf(i), label: quote(f.Cause, maxName), share: bounded(f.Share),
				excess: f.ExcessNS, interval: interval(f.ShareLow, f.ShareHigh)})
		}
	}
	if more.share != 0 {
		rows = append(rows, more)
	}
	more = row{kind: rowConsistent, mark: "?", label: "more look-alikes"}
	for i, k := range d.ConsistentWith {
		switch {
		case contrastOf(k.Contrast) != c:
		case i >= maxFindings:
			more.share += bounded(k.Share)
		default:
			rows = append(rows, row{kind: rowConsistent, mark: "?", label: alternatives(k), share: bounded(k.Share), excess: part(k.Share, base)})
		}
	}
	if more.share != 0 {
		rows = append(rows, more)
	}
	return rows
}

// alternatives writes the causes of a look-alike as one phrase.
func alternatives(k cause.Consistent) string {
	names := make([]string, 0, len(k.Causes))
	for _, c := range k.Causes {
		names = append(names, quote(c, maxName))
	}
	return strings.Join(names, " or ")
}

// minUnnamed is the share below which a leaf without a name is not listed.
const minUnnamed = 0.005

// rest returns the rows for what no cause explains.
func rest(d *Diagnosis, base int64) []row {
	var rows []row
	add := func(label string, share float64) {
		share = bounded(share)
		rows = append(rows, row{kind: rowRest, mark: "·", label: label, share: share, excess: part(share, base)})
	}
	if d.Mix.Share != 0 {
		label := "mix: the tail has more of other endpoints"
		if d.Mix.Endpoint != "" {
			label = "mix: the tail has more of " + quote(d.Mix.Endpoint, maxName)
		}
		if d.Mix.Asks != "" {
			label += " that ask a peer in " + quote(d.Mix.Asks, maxName)
		}
		add(label, d.Mix.Share)
	}
	leaves := append([]cause.Unnamed{}, d.Unnamed...)
	sort.SliceStable(leaves, func(i, j int) bool { return math.Abs(leaves[i].Share) > math.Abs(leaves[j].Share) })
	shown := len(leaves)
	for shown > 0 && (shown > maxUnnamed || math.Abs(leaves[shown-1].Share) < minUnnamed) {
		shown--
	}
	if shown == len(leaves)-1 { // a line that says "1 smaller leaf" says less than the leaf
		shown++
	}
	for _, u := range leaves[:shown] {
		add("unnamed: "+quote(u.Leaf, maxName)+at(u.Where), u.Share)
	}
	if shown < len(leaves) {
		small := 0.0
		for _, u := range leaves[shown:] {
			small += bounded(u.Share)
		}
		add("unnamed: "+count(int64(len(leaves)-shown))+" smaller leaves", small)
	}
	// A zero is shown beside other rows only: it says that nothing was lost.
	if d.UnresolvedShare != 0 || len(rows) > 0 || len(d.Findings)+len(d.ConsistentWith) > 0 {
		add("unresolved", d.UnresolvedShare)
	}
	return rows
}

func at(p *cause.Place) string {
	if p == nil || p.Function == "" {
		return ""
	}
	return " in " + quote(cause.ReadableName(p.Function), maxName)
}

func part(share float64, base int64) int64 { return int64(bounded(share) * float64(base)) }

func sum(rows []row) float64 {
	s := 0.0
	for _, r := range rows {
		s += r.share
	}
	return s
}

// roundTogether rounds the shares to tenths of a per cent so that the printed
// numbers add up to the printed total (largest remainder), and returns the total.
// If the shares are not a whole, each is rounded by itself.
func roundTogether(rows []row) int {
	total := 0
	for i := range rows {
		rows[i].tenths = int(math.Floor(rows[i].share * 1000))
		total += rows[i].tenths
	}
	// Half a per cent is far above what float sums lose and below what a reader
	// would accept as missing.
	if math.Abs(sum(rows)-1) > 0.005 {
		total = 0
		for i := range rows {
			rows[i].tenths = int(math.Round(rows[i].share * 1000))
			total += rows[i].tenths
		}
		return total
	}
	var order []int
	for i := range rows {
		if rows[i].share != 0 { // nothing stays nothing
			order = append(order, i)
		}
	}
	remainder := func(i int) float64 { return rows[i].share*1000 - float64(rows[i].tenths) }
	sort.SliceStable(order, func(a, b int) bool { return remainder(order[a]) > remainder(order[b]) })
	for k := 0; total < 1000; k = (k + 1) % len(order) {
		rows[order[k]].tenths++
		total++
	}
	for k := len(order) - 1; total > 1000; k = (k - 1 + len(order)) % len(order) {
		rows[order[k]].tenths--
		total--
	}
	return total
}
