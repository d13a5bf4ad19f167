package blame

// Queueing says what a request waited for in one of its queues.
type Queueing struct {
	// Site is the Place where holders were waited for.
	Site SiteID
	// Longest is the longest single hold, in nanoseconds, Held the sum of all, Holders their number. As far as the kernel told,
	// the time in which a lock's holder wanted a CPU is not in them.
	Longest, Held int64
	Holders       int
}

// maxQueues is how many queues of one request are told apart; what was waited for in others is not
// measured.
const maxQueues = 64

// queueing is what is measured of the queues of a request.
type queueing []Queueing

// add adds holds in a queue. It may change q in place.
func (q queueing) add(x Queueing) queueing {
	for i := range q {
		if o := &q[i]; o.Site == x.Site {
			o.Longest, o.Held, o.Holders = max(o.Longest, x.Longest), o.Held+x.Held, o.Holders+x.Holders
			return q
		}
	}
	if len(q) < maxQueues {
		q = append(q, x)
	}
	return q
}

// In sums up what a request waited for in queues that is accepts, by their Place.
func (r *Attributed) In(is func(SiteID) bool) (all Queueing) {
	for _, q := range r.Queues {
		if is(q.Site) {
			all.Longest, all.Held, all.Holders = max(all.Longest, q.Longest), all.Held+q.Held, all.Holders+q.Holders
		}
	}
	return all
}
