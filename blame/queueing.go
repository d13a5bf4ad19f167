package blame

import "slices"

// Queueing says what a request waited for in one of its queues.
type Queueing struct {
	// Site is where holders were waited for: that of the queue in the keys of its pieces.
	Site SiteID
	// Longest is the longest single hold, in nanoseconds, Held the sum of all, Holders their number.
	Longest, Held int64
	Holders       int
}

// maxQueues is how many queues of one request are told apart; what was waited for in others is not
// measured.
const maxQueues = 8

// queueing is what a walker measures of the queues of a request. The zero value is empty. It is a
// value: a copy is not changed by what is added.
type queueing struct {
	of [maxQueues]Queueing
	n  int
}

// add adds holds at a site.
func (q *queueing) add(x Queueing) {
	for i := range q.of[:q.n] {
		if o := &q.of[i]; o.Site == x.Site {
			o.Longest, o.Held, o.Holders = max(o.Longest, x.Longest), o.Held+x.Held, o.Holders+x.Holders
			return
		}
	}
	if q.n < maxQueues {
		q.of[q.n] = x
		q.n++
	}
}

// all returns a copy of what there is, nil if there is nothing.
func (q *queueing) all() []Queueing { return slices.Clone(q.of[:q.n:q.n]) }

// In sums up what a request waited for in queues that is accepts.
func (r *Attributed) In(is func(SiteID) bool) (all Queueing) {
	for _, q := range r.Queues {
		if is(q.Site) {
			all.Longest, all.Held, all.Holders = max(all.Longest, q.Longest), all.Held+q.Held, all.Holders+q.Holders
		}
	}
	return all
}
