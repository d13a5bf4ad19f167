package cause

import (
	"slices"

	"github.com/whylate/whylate/blame"
)

// sameRounds is how many more rounds of a worker slow requests may wait for than typical ones to
// wait for as many.
const sameRounds = 1.1

// missed returns what slow requests waited longer than typical ones for one goroutine that does
// something for all who are there, in nanoseconds, if they wait for as many rounds of it, and
// these take about as long, less what they do take longer. Then the slowest are those who came
// just after one had begun, and wait for the rest of that and for the next. It is 0 otherwise.
func (c *Case) missed(keys []blame.KeyID) float64 {
	rounds := func(k blame.Key) bool {
		kind, _ := c.Serial(k)
		return kind == Worker
	}
	those, _ := c.mostly(keys, rounds)
	if those == nil || c.Contrast != TailContrast {
		return 0
	}
	_, n := c.queuedIn(c.Tail, those)
	_, m := c.queuedIn(c.Typical, those)
	slow, usual := c.longestHold(c.Tail, those), c.longestHold(c.Typical, those)
	if n <= 0 || m <= 1 || n > sameRounds*m || slow > GrownHold*usual {
		return 0
	}
	longer := c.Sum(those)
	if c.P.Whole {
		longer = c.grown(those)
	}
	return max(0, longer-n*max(0, slow-usual))
}

// longestHold is the mean of the longest hold, in nanoseconds, that each of the requests that spend
// time under keys waited for in the queues of keys: of two rounds, of which it missed the beginning
// of the first, that is the second.
func (c *Case) longestHold(requests []int, keys []blame.KeyID) (ns float64) {
	in := make([]bool, len(c.A.Keys))
	for _, id := range keys {
		in[id] = true
	}
	sites := c.queuesOf(keys)
	var those []int
	for _, r := range requests {
		if slices.ContainsFunc(c.A.Requests[r].Pieces, func(p blame.Piece) bool { return in[p.Key] }) {
			those = append(those, r)
			ns += c.A.Weight[r] * float64(c.A.Requests[r].In(sites).Longest)
		}
	}
	return ns / c.count(those)
}

// JustMissed is evidence against a peer or a worker being slow; none if nothing speaks for that.
func (c *Case) JustMissed(keys []blame.KeyID) []Evidence {
	ns := c.missed(keys)
	if ns <= 0 {
		return nil
	}
	return []Evidence{{
		Text:  "slow requests wait for as many rounds of one goroutine that works for all who are there as typical ones do, and the rounds take as long: they came just after one had begun",
		Holds: Unknown, Decides: true, Number: ns / max(1, c.Excess),
		Alike: []string{"single-worker"}, Record: "the peer's own time for each of these calls",
	}}
}

// waitingForPeers returns the keys of waits for what peers answer, claimed or not.
func (c *Case) waitingForPeers() (keys []blame.KeyID) {
	for i, k := range c.A.Keys {
		if c.asks(k) {
			keys = append(keys, blame.KeyID(i))
		}
	}
	return keys
}
