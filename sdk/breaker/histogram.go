package breaker

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Durations are counted in buckets that are a sixteenth of an octave wide, 4 to 6 %: from
// 1 µs to 69 s, with what is below and above in the first and the last. A quantile of such
// counts is wrong by 1 % as a rule; estimators without buckets are wrong by 20 to 400 % with
// the sizes of window that a breaker has.
const (
	lowest    = 10 // 2^10 ns
	octaves   = 26
	perOctave = 16
	buckets   = octaves * perOctave
	failed    = buckets - 1 // what failed is as late as can be
)

// bucket returns the number of the bucket of a duration in nanoseconds.
func bucket(ns int64) int {
	if ns < 1<<lowest {
		return 0
	}
	e := bits.Len64(uint64(ns)) - 1
	return min((e-lowest)*perOctave+int(ns>>(e-4))&(perOctave-1), buckets-1)
}

// edge returns the shortest duration of a bucket in nanoseconds.
func edge(i int) int64 {
	if i <= 0 {
		return 0
	}
	return (perOctave + int64(i%perOctave)) << (i/perOctave + lowest - 4)
}

// counters are those of one breaker, of the calls since they were last taken: a power of two of shards, at
// most mostShards.
type counters struct {
	shards []shard
	shift  uint8 // leaves as many bits of 64 as choose a shard
}

// shard is one counter of each bucket, 1.8 KB.
type shard struct {
	n      [buckets]atomic.Uint32
	errors atomic.Uint32 // fast ones that do not count
	_      [124]byte
}

// There are four shards for each P, so that two seldom meet in one.
const (
	shardsPerP = 4
	mostShards = 64
)

func newCounters() counters {
	n := min(shardsPerP*runtime.GOMAXPROCS(0), mostShards)
	log := bits.Len(uint(n - 1))
	return counters{make([]shard, 1<<log), uint8(64 - log)}
}

// of returns the shard of this goroutine. Two CPUs that count in the same cost each other 20 to 50 ns, and so
// do those that choose at random, for the other one has mostly been there before. A goroutine
// stays with the one that the address of its stack gives. Of the product it is the highest bits that keep
// stacks beside each other apart.
func (c *counters) of() *shard {
	var here byte
	hash := uint64(uintptr(unsafe.Pointer(&here))) >> 11 * 0x9e3779b97f4a7c15
	return &c.shards[hash>>(c.shift&63)]
}

// take moves what was counted to w.
func (c *counters) take(w *window) {
	*w = window{}
	for s := range c.shards {
		c := &c.shards[s]
		w.errors += int(c.errors.Swap(0))
		for i := range c.n {
			if c.n[i].Load() == 0 {
				continue
			}
			n := c.n[i].Swap(0)
			w.count[i] += n
			w.n += int(n)
		}
	}
}

// window is what was counted within some time.
type window struct {
	count [buckets]uint32
	n     int // sum of count
	// errors is how many failed fast in a way that does not count: calls that were not slow, but
	// no example of how long a good one takes.
	errors int
	// aged and overdue are how many in flight have become older than judge.age, and than Options.Limit.
	aged, overdue int
}

// from returns how many calls were in a bucket or in one above it.
func (w *window) from(bucket int) (n int) {
	for _, c := range w.count[bucket:] {
		n += int(c)
	}
	return n
}

// history is what many windows counted, the old ones with less weight.
type history struct {
	count [buckets]float64
	n     float64
}

func (h *history) add(w *window) {
	for i, c := range w.count {
		h.count[i] += float64(c)
	}
	h.n += float64(w.n)
}

func (h *history) merge(other *history, keep float64) {
	for i := range h.count {
		h.count[i] = h.count[i]*keep + other.count[i]
	}
	h.n = h.n*keep + other.n
}

// above returns the part of the calls in a bucket and those above it.
func (h *history) above(bucket int) float64 {
	var n float64
	for _, c := range h.count[min(bucket, buckets):] {
		n += c
	}
	return n / max(h.n, 1)
}

// quantile returns the duration, in nanoseconds, that a part q of the calls did not exceed.
func (h *history) quantile(q float64) int64 {
	need := q * h.n
	for i, c := range h.count {
		if c > 0 && need <= c {
			return edge(i) + int64(need/c*float64(edge(i+1)-edge(i)))
		}
		need -= c
	}
	return edge(buckets - 1)
}
