package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// side is what services do beside or within their calls; nothing of it by default.
type side struct {
	desk, booked, plain, room    bool
	hold, each, job, pause       time.Duration
	permits, rooms, jobs, users  int
	turns, stamps                int
	pages, posts, matches        int
	beat, list, bind, load, tidy time.Duration

	asked   chan chan struct{}
	records chan struct{}
	free    chan struct{}
	mu      sync.Mutex
	seal    [sha256.Size]byte
	next    struct {
		mu   sync.Mutex
		beat chan struct{}
	}
	stacks, all, copied []byte
	heap                []*post
	recent              [][]byte
}

func (x *side) flags() {
	flag.BoolVar(&x.desk, "desk", false, "let one goroutine do what is slow")
	flag.BoolVar(&x.booked, "book", false, "let one goroutine book every call, and do what is slow")
	flag.BoolVar(&x.plain, "plain", false, "guard the list by a lock that readers do not share")
	flag.DurationVar(&x.hold, "hold", 0, "time for which every call computes")
	flag.IntVar(&x.turns, "turns", 0, "`number` of turns in which the calls compute that for all of them; 0 is each for itself")
	flag.IntVar(&x.stamps, "stamps", 0, "`number` of records that a call stamps with the time, of those of the share that is slow")
	flag.IntVar(&x.permits, "permits", 0, "`number` of calls that may take their time at once; 0 is any")
	flag.IntVar(&x.rooms, "rooms", 0, "`number` of goroutines that wake together")
	flag.DurationVar(&x.beat, "beat", 0, "how often they do")
	flag.DurationVar(&x.each, "each", 0, "how long each computes then")
	flag.IntVar(&x.jobs, "jobs", 0, "`number` of goroutines that compute now and then")
	flag.DurationVar(&x.job, "job", 0, "for how long")
	flag.DurationVar(&x.pause, "pause", 0, "mean time between")
	flag.IntVar(&x.users, "users", 0, "`number` of goroutines that wait")
	flag.DurationVar(&x.list, "list", 0, "how often all goroutines are listed; 0 is never")
	flag.IntVar(&x.pages, "pages", 0, "`bytes` in one piece of memory")
	flag.DurationVar(&x.bind, "bind", 0, "how often these are copied; 0 is never")
	flag.BoolVar(&x.room, "room", false, "let every call ask how much memory there is")
	flag.IntVar(&x.posts, "posts", 0, "`number` of pairs of objects that point at each other")
	flag.IntVar(&x.matches, "matches", 0, "`number` of pointers that every call makes room for")
	flag.DurationVar(&x.load, "load", 0, "how often a record is loaded; 0 is never")
	flag.DurationVar(&x.tidy, "tidy", 0, "how often memory is handed back; 0 is never")
}

// begin starts what goes on beside the calls, for as long as the process lives.
func (x *side) begin(s *stock) {
	if x.desk {
		x.asked = make(chan chan struct{})
		go x.answer(s)
	}
	if x.booked {
		x.records = make(chan struct{}, 4)
		go x.book(s)
	}
	if x.permits > 0 {
		x.free = make(chan struct{}, x.permits)
	}
	x.next.beat = make(chan struct{})
	for range x.rooms {
		go x.follow()
	}
	for range x.jobs {
		go x.plan()
	}
	for range x.users {
		go x.attend()
	}
	x.all, x.copied = make([]byte, x.pages), make([]byte, x.pages)
	rand.NewChaCha8([32]byte{}).Read(x.all)
	x.heap = newPosts(x.posts)
	x.recent = make([][]byte, 64)
	if x.users > 0 {
		x.stacks = make([]byte, 64<<20)
	}
	always(x.beat, x.pulse)
	always(x.list, func() { runtime.Stack(x.stacks, true) })
	always(x.bind, func() { copy(x.copied, x.all) })
	always(x.tidy, debug.FreeOSMemory)
	n := 0
	always(x.load, func() {
		x.recent[n%len(x.recent)] = make([]byte, 64<<10)
		n++
	})
}

// always does something every so often, if that is ever.
func always(every time.Duration, do func()) {
	if every <= 0 {
		return
	}
	go func() {
		for range time.Tick(every) {
			do()
		}
	}()
}

// enter waits until a call may take its time; leave ends that.
func (x *side) enter(ctx context.Context) error {
	if x.free == nil {
		return nil
	}
	select {
	case x.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (x *side) leave() {
	if x.free != nil {
		<-x.free
	}
}

// within is what is done in every call.
func (x *side) within() {
	if x.asked != nil {
		done := make(chan struct{}, 1)
		x.asked <- done
		<-done
	}
	if x.hold > 0 {
		x.reserve()
	}
	if x.room {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
	}
	if x.matches > 0 {
		found := make([]*post, x.matches)
		for i := range min(2000, len(found)) {
			found[i] = x.heap[rand.IntN(len(x.heap))]
		}
		runtime.KeepAlive(found)
	}
	if x.records != nil {
		x.records <- struct{}{}
	}
}

// answer does what is slow for one after the other.
func (x *side) answer(s *stock) {
	for done := range x.asked {
		if s.drawn() {
			s.settle()
		}
		done <- struct{}{}
	}
}

// settle waits until others have followed.
func (s *stock) settle() { time.Sleep(s.slow) }

// book takes records, of which few fit in front of it.
func (x *side) book(s *stock) {
	for range x.records {
		if s.drawn() {
			s.settle()
		}
	}
}

// reserve computes for a call, or in turns for all of them.
func (x *side) reserve() {
	if x.turns == 0 {
		compute([sha256.Size]byte{}, x.hold)
	}
	for range x.turns {
		x.turn(x.hold / time.Duration(x.turns))
	}
}

// stamp notes when each of some records was seen.
func (x *side) stamp() {
	if x.stamps == 0 {
		return
	}
	seen := make([]time.Time, x.stamps)
	for i := range seen {
		seen[i] = time.Now()
	}
}

// turn computes while nobody else may.
func (x *side) turn(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seal = compute(x.seal, d)
}

func (x *side) pulse() {
	x.next.mu.Lock()
	defer x.next.mu.Unlock()
	close(x.next.beat)
	x.next.beat = make(chan struct{})
}

// follow computes at every beat.
func (x *side) follow() {
	var sum [sha256.Size]byte
	for {
		x.next.mu.Lock()
		beat := x.next.beat
		x.next.mu.Unlock()
		<-beat
		sum = compute(sum, x.each)
	}
}

// plan computes now and then.
func (x *side) plan() {
	var sum [sha256.Size]byte
	for {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(x.pause)))
		sum = compute(sum, x.job)
	}
}

func (x *side) attend() { select {} }

// compute takes about that long on a CPU.
func compute(sum [sha256.Size]byte, d time.Duration) [sha256.Size]byte {
	for range max(1, int(d/rounds)) {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

// rounds is about how long a digest of 32 bytes takes.
const rounds = 100 * time.Nanosecond

// A post points at others, so that it is work to find it alive.
type post struct {
	next, reply *post
	author      *string
	likes       [3]int
}

func newPosts(n int) []*post {
	all := make([]*post, n)
	for i := range all {
		name := "author"
		all[i] = &post{author: &name}
		if i > 0 {
			all[i].next, all[i].reply = all[rand.IntN(i)], all[rand.IntN(i)]
		}
	}
	return all
}
