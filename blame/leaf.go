// Package blame partitions every request's wall time into leaves, following each
// wait to whoever ended it, and contrasts the slow requests with typical ones.
//
// The leaves of a request add up to its duration exactly, in integer
// nanoseconds; [Attribution.Check] verifies it.
package blame

import (
	"cmp"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/timeline"
)

// LeafKind is what a piece of a request's time finally went to.
type LeafKind uint8

// The kinds of leaves.
const (
	// CPU: a goroutine ran. Whether its thread was on a CPU a trace does not tell.
	CPU LeafKind = iota
	// Assist: a goroutine ran for the GC, to pay for its allocations: it marked, or swept.
	Assist
	// STW: the world was stopped.
	STW
	// LateWakeup: runnable although a P was idle; the thread was slow to run.
	LateWakeup
	// Behind: runnable, or ready in the network poller, while all Ps executed
	// something else; Class says what.
	Behind
	// Syscall: in a system call.
	Syscall
	// Cgo: in C code.
	Cgo
	// Network: waiting for a peer.
	Network
	// Timer: waiting for time to pass.
	Timer
	// GCWait: waiting for the GC's phases or for assist credit.
	GCWait
	// Awaited: a wait that a deadline or a cancellation ended, for something that
	// is no network peer.
	Awaited
	// Open: a wait that had not ended when the recording did.
	Open
	// UnknownHolder: behind a lock or permit whose holder at that time is unknown.
	UnknownHolder
	// Unresolved: lost, evicted, or outside the recording.
	Unresolved
	// Uncollected: until the garbage collector had found out that nobody used something
	// any more, to run what gives it back.
	Uncollected
	// Suspended: somebody outside made the whole process stop, see [events.Suspension].
	Suspended
	leafKinds
)

var leafNames = [...]string{"cpu", "gc assist", "stop-the-world", "late wake-up", "behind", "syscall", "cgo",
	"network", "timer", "gc wait", "awaited", "not ended", "unknown holder", "unresolved", "not yet collected", "suspended"}

func (k LeafKind) String() string { return leafNames[k] }

// Flags qualify a piece.
type Flags uint16

// The flags.
const (
	// Self: spent by the request's own goroutine, not by one it waited for.
	Self Flags = 1 << iota
	// Blind: the reply may have been in, but nobody polled the network.
	Blind
	// TimedOut: a deadline or cancellation ended the wait.
	TimedOut
	// Ahead: spent by earlier holders of what the request queued for, not by the
	// one that finally handed it over.
	Ahead
	// LostP: runnable right after a system call or C code: it lost its P.
	LostP
	// Silent: in a silence of the whole process, or of a thread that should have
	// been preempted (see timeline.SilenceMin): it was not on a CPU.
	Silent
	// Birth: spent by a creator before the goroutine that the request ran on, or
	// waited for, was born.
	Birth
	// Due: a timer was due, but nobody ran it.
	Due
	// Inbound: waiting for the request's own client, to send the rest of its
	// request or to take its answer.
	Inbound
	// Clock: running, to read the clock.
	Clock
	// Reading: spent by readers of a lock whom a writer waited for, while the
	// request waited for that writer.
	Reading
	// Growth: running, to make room for more and copy what there was.
	Growth
	// Switched: ready, but on the way to another thread, because somebody is locked
	// to one.
	Switched
	// Expired: TimedOut, by the deadline or the close of the socket that was waited for,
	// not of a wait for whoever waited there.
	Expired
	// Answer: Inbound, of a goroutine that only writes answers, see [request.Found.Answering].
	Answer
	// Unended: of a wait for a peer that had not ended when the recording did.
	Unended
)

// SiteID and ClassID index Attribution.Sites and Attribution.Classes; 0 is none.
type (
	SiteID  uint32
	ClassID = timeline.ClassID
)

// Hop is one wait that was replaced by what its waker did.
type Hop struct {
	// Site is where the waiter stood, Waker who ended the wait, WakerSite where
	// the waker stood when it did. A zero Site means "no hop".
	Site      SiteID
	WakerSite SiteID
	Waker     ClassID
	Reason    timeline.Reason
}

// Key identifies pieces that are added up.
type Key struct {
	Kind LeafKind
	// Flags qualify the piece.
	Flags Flags
	// Class is who spent the time, or for Behind who held the Ps.
	Class ClassID
	// Site is where the leaf's goroutine stood; 0 for CPU and Behind.
	Site SiteID
	// Reason is the index of a stop-the-world reason in Attribution.Reasons.
	Reason uint16
	// Starter is who started the cycle, for what the garbage collector took.
	Starter timeline.Starter
	// Off is what the thread did instead of being on a CPU, as far as the kernel told:
	// the one that ran the goroutine, for Behind those that had the Ps, for waits the one
	// that saw their end late. Unknown is on a CPU, or not known.
	Off events.State
	// First is the hop next to the request, Last the one next to the leaf. Queue
	// is the deepest hop at the site of the first queue on the way: whom everybody
	// in it waited for. Waits for children and replies are no queues, and of work that was handed
	// over it is the lock that the worker waits for, if it does.
	First, Queue, Last Hop
}

// KeyID indexes Attribution.Keys.
type KeyID int32

// Piece is a number of nanoseconds that a request spent under a key.
type Piece struct {
	Key KeyID
	NS  int64
}

// Attributed is one request with its pieces.
type Attributed struct {
	// Request indexes request.Found.Requests.
	Request int
	// D is the request's duration, the sum of the pieces.
	D int64
	// Queues are the queues in which it waited for holders.
	Queues []Queueing
	// Outside is how many waits for peers, system calls and calls into C are in
	// Pieces, as if they were equally long: the square of their sum over the sum of
	// their squares. 0 if there are none. Waits of one goroutine for a peer, between
	// which it writes nothing, are one: also those of a reader that brings answers to
	// others meanwhile.
	Outside float64
	// Peer is the longest of the waits for a peer in Pieces that its answer ended.
	Peer   Stretch
	Pieces []Piece
	// FanIns are the waits in Pieces for one of several children; those that are nested stand before the one that they are nested in.
	FanIns []FanIn
}

// Stretch is one wait at a site, as far as it belongs to a request.
type Stretch struct {
	G        timeline.GID
	Site     SiteID
	From, To timeline.Time
}

// Length is how long it took.
func (s Stretch) Length() timeline.Time { return s.To - s.From }

func compareKeys(x, y Key) int {
	return cmp.Or(
		cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Flags, y.Flags), cmp.Compare(x.Class, y.Class),
		cmp.Compare(x.Site, y.Site), cmp.Compare(x.Reason, y.Reason), cmp.Compare(x.Starter, y.Starter), cmp.Compare(x.Off, y.Off),
		compareHops(x.First, y.First), compareHops(x.Queue, y.Queue), compareHops(x.Last, y.Last),
	)
}

func compareHops(x, y Hop) int {
	return cmp.Or(
		cmp.Compare(x.Site, y.Site), cmp.Compare(x.WakerSite, y.WakerSite),
		cmp.Compare(x.Waker, y.Waker), cmp.Compare(x.Reason, y.Reason),
	)
}
