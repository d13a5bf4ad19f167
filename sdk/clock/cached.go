package clock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// CachedOptions are those of a cached clock. Their zero value is useful.
type CachedOptions struct {
	// Every is how often the time is stored: 1 ms to 1 s, 0 is 10 ms. In an idle program
	// each is a wake-up of a thread: 1 ms costs 2 % of a core, 10 ms 0.5 %.
	Every time.Duration
	// Limit is how old the time may become. When it was older, reads are of Coarse
	// for a while. 0 is five times Every.
	Limit time.Duration
}

// Cached is a clock whose reads take less than a nanosecond, and whose time may be old.
// A goroutine stores the time each CachedOptions.Every; when no P runs that goroutine, because
// they are all busy, what is read grows older, without bound: 10 ms can be 40 or 200, exactly
// when there is much to do. So Cached is guarded: whenever the goroutine runs, it knows how
// old the time has become; was it older than the limit, reads are of [Coarse] until the goroutine
// has been on time again for a while, for longer each time it happens. That bounds how often the
// limit is broken, not how far: [Cached.Stats] and [Cached.Metrics] tell what was seen.
//
// Coarse has a bound, needs no goroutine and takes about five nanoseconds. Take Cached only where
// a profile says that this matters (see [Pays]).
type Cached struct {
	now   atomic.Pointer[time.Time] // nil: ask Coarse
	last  atomic.Pointer[time.Time] // what now was last: Coarse may be two ticks behind that
	every time.Duration
	limit time.Duration
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once
	mu    sync.Mutex
	stats CachedStats
}

// CachedStats is what a cached clock knows of itself.
type CachedStats struct {
	// Updates counts how often the time was stored or compared, Violations how often it was then
	// older than the limit.
	Updates, Violations uint64
	// Oldest is the greatest age that a read may have had, of those times reads were not of Coarse.
	Oldest time.Duration
	// Guarded is whether reads are of Coarse now.
	Guarded bool
}

// NewCached starts a cached clock. The caller ends it with Stop.
func NewCached(o CachedOptions) (*Cached, error) {
	if o.Every == 0 {
		o.Every = 10 * time.Millisecond
	}
	if o.Limit == 0 {
		o.Limit = 5 * o.Every
	}
	if o.Every < time.Millisecond || o.Every > time.Second {
		return nil, fmt.Errorf("clock: store the time every %v: it has to be 1ms to 1s", o.Every)
	}
	if o.Limit <= o.Every {
		return nil, fmt.Errorf("clock: a limit of %v is never kept: the time is stored every %v", o.Limit, o.Every)
	}
	c := &Cached{every: o.Every, limit: o.Limit, stop: make(chan struct{}), done: make(chan struct{})}
	now := time.Now()
	c.store(&now)
	go c.run(now)
	return c, nil
}

// Now returns the stored time, or that of Coarse while the guard does not trust it, and after
// Stop. It has a monotonic part and never goes backward. Any number of goroutines may call it.
func (c *Cached) Now() time.Time {
	if t := c.now.Load(); t != nil {
		return *t
	}
	return c.guarded()
}

// guarded is the time of Coarse, or what was stored if that is later.
func (c *Cached) guarded() time.Time {
	t := Coarse()
	if last := c.last.Load(); last != nil && last.After(t) {
		return *last
	}
	return t
}

func (c *Cached) store(t *time.Time) {
	c.last.Store(t)
	c.now.Store(t)
}

// Stats returns what was seen until now.
func (c *Cached) Stats() CachedStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Metrics tells the statistics as numbers: clock_cached_updates_total,
// clock_cached_violations_total, clock_cached_oldest_seconds and clock_cached_guarded (0 or 1).
func (c *Cached) Metrics(emit func(name string, value float64)) {
	s := c.Stats()
	emit("clock_cached_updates_total", float64(s.Updates))
	emit("clock_cached_violations_total", float64(s.Violations))
	emit("clock_cached_oldest_seconds", s.Oldest.Seconds())
	guarded := 0.0
	if s.Guarded {
		guarded = 1
	}
	emit("clock_cached_guarded", guarded)
}

// Stop ends the goroutine and waits for it. Reads are of Coarse from then on.
func (c *Cached) Stop() {
	c.once.Do(func() { close(c.stop) })
	<-c.done
}

func (c *Cached) run(stored time.Time) {
	defer close(c.done)
	defer c.now.Store(nil)
	t := time.NewTicker(c.every)
	defer t.Stop()
	g := guard{limit: c.limit}
	for {
		select {
		case <-c.stop:
			return
		case <-t.C:
		}
		now := time.Now()
		trusted := g.observe(now.Sub(stored))
		stored = now
		if trusted {
			c.store(&now)
		} else {
			c.now.Store(nil)
		}
		c.mu.Lock()
		c.stats = g.stats
		c.mu.Unlock()
	}
}

// guard decides whether a stored time may be read.
type guard struct {
	limit   time.Duration
	stats   CachedStats
	penalty int // how many times on time end the distrust
	good    int // how many there were since the last violation
}

// How many times after each other the goroutine has to be on time after a violation, for the
// first and at most: with 10 ms 1 s and about 1 min.
const leastPenalty, mostPenalty = 100, 6400

// observe is told how old the stored time was when it was replaced, and returns whether the
// next one may be read.
func (g *guard) observe(age time.Duration) bool {
	g.stats.Updates++
	if !g.stats.Guarded {
		g.stats.Oldest = max(g.stats.Oldest, age)
	}
	if age > g.limit {
		g.good = 0
		if !g.stats.Guarded {
			g.stats.Violations++
			g.stats.Guarded = true
			g.penalty = min(max(2*g.penalty, leastPenalty), mostPenalty)
		}
		return false
	}
	g.good++
	if g.stats.Guarded && g.good >= g.penalty {
		g.stats.Guarded, g.good = false, 0
	}
	if !g.stats.Guarded && g.good >= 10*max(g.penalty, leastPenalty) {
		g.penalty /= 2 // it has kept its word for ten times as long
		g.good = 0
	}
	return !g.stats.Guarded
}
