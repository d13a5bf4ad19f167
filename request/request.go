// Package request finds the requests of a timeline: the intervals whose latency
// a user feels.
//
// In this order: runtime/trace tasks and regions, known servers by their
// stacks, and generic activations of goroutines that the network drives. Tasks that are a tracing
// library's spans come after known servers.
package request

import (
	"regexp"
	"strings"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/timeline"
)

// Part is the stretch of a request that one goroutine carries.
type Part struct {
	G          timeline.GID
	Start, End timeline.Time
}

// Request is one interval whose latency a user feels. Its parts are contiguous
// and in order of time: most requests have one.
type Request struct {
	Parts []Part
	// Role is an index into Found.Roles, Endpoint one into Found.Endpoints.
	Role, Endpoint int
	// InFlight marks a request that was open at the end of the trace: its
	// duration is a lower bound.
	InFlight bool
	// Beyond marks a request that begins behind [timeline.Timeline.Until]: it is the next part's,
	// and no role counts it here.
	Beyond bool
	// ByNetwork says that the request began with a wake-up by the network
	// poller: some of its lateness may lie before its start.
	ByNetwork bool
	// Unseen marks a request of which nothing was seen in its handler: its endpoint is that
	// of most requests as fast, as far as any of those was seen, and may be another one.
	Unseen bool
	// Guessed marks a request of which nothing was seen in its handler, nor of
	// any other as fast: that it has the endpoint of those that were seen, which
	// are slower, is a guess.
	Guessed bool
}

// Start is when the request was made runnable, End when its answer was written.
func (r *Request) Start() timeline.Time { return r.Parts[0].Start }

// End is when the last part ended.
func (r *Request) End() timeline.Time { return r.Parts[len(r.Parts)-1].End }

// Duration is End - Start, in nanoseconds.
func (r *Request) Duration() timeline.Time { return r.End() - r.Start() }

// Shape is how the goroutines of a role share the work of a request.
type Shape uint8

// The shapes.
const (
	// Annotated: a runtime/trace task or region.
	Annotated Shape = iota
	// Connection: one goroutine reads, works and writes.
	Connection
	// PerRequest: a reader gives birth to a goroutine for every request.
	PerRequest
	// ReaderWriter: a reader hands over to others and a writer answers.
	ReaderWriter
	// Function: the intervals in which a function named by the user is on the stack, or between the
	// calls of one that takes messages from a queue (see Taken).
	Function
)

// Role is a way in which requests enter the process.
type Role struct {
	// Name says what it is: "net/http", "net/http (HTTP/2)", "grpc-go unary",
	// or the root function of a generic role.
	Name  string
	Shape Shape
	// Root is the root function of its goroutines.
	Root string
	// Count is how many requests it has, without those in flight and beyond.
	Count int
}

// Known reports whether requests of the role were recognised, by annotations, a
// library's functions or the user's word, rather than found by their shape.
func (r Role) Known() bool {
	switch r.Shape {
	case Annotated, Function:
		return true
	}
	return r.Library()
}

// Library reports whether a known library reads the role's requests and writes their
// answers.
func (r Role) Library() bool {
	return strings.HasPrefix(r.Name, "net/http") || strings.HasPrefix(r.Name, "grpc-go") || r.Name == "fasthttp"
}

// Taken reports whether requests of the role are messages that a client library's function took from
// a queue.
func (r Role) Taken() bool { return r.Shape == Function && r.Name != roleFunction }

// Pushed reports whether requests of the role are what streams send: of who has the news nothing is
// in them.
func (r Role) Pushed() bool { return r.Name == rolePushes }

// ForWant reports whether requests of the role are requests only where others are too few for a
// diagnosis.
func (r Role) ForWant() bool { return r.Pushed() || strings.HasPrefix(r.Name, roleTakenOver) }

// Class is a named count.
type Class struct {
	Name  string
	Count int
}

// Found is what Find found.
type Found struct {
	// Requests are in order of their ends; those in flight come last.
	Requests  []Request
	Roles     []Role
	Endpoints []string
	// Outgoing counts calls that the process makes, by client library.
	Outgoing []Class
	// Excluded counts what looks like a request and is none: the observer's own
	// requests, streams, long polls, and hijacked connections where there are requests of
	// another kind.
	Excluded []Class
	// Still is where goroutines that are no requests stood all the time in handlers of known servers: those of a service
	// that stands still, or of subscribers. Most goroutines come first.
	Still []Still
	// Consumer is the function whose calls are the requests because nothing else is one: goroutines
	// take work for it from others again and again. "" if that is not so.
	Consumer string
	// LargestShare is the part of all activations that belongs to the largest
	// role; below 0.6 the user should be asked for --request.
	LargestShare float64

	t *timeline.Timeline
	// keys holds the home key of each stack, home that of each goroutine (0: none).
	keys, home []int32
	// busy are the starts of waits at home during which others waited for the goroutine:
	// those of g are busy[firstBusy[g]:firstBusy[g+1]], in order.
	busy      []timeline.Time
	firstBusy []int32
	answering map[timeline.GID]bool
	// carried marks goroutines that carried a part of a request.
	carried []bool
	// parts lists, goroutine by goroutine from first[g] to first[g+1], what each
	// of them carried, in order of starts.
	parts []carriedPart
	first []int32
}

// Options change how requests are found. The zero value finds them by itself.
type Options struct {
	// Func, if not nil, defines requests: the intervals in which a function
	// that it matches is on the stack at every blocking event.
	Func *regexp.Regexp
	// Calls, if there are any, are the requests: calls of a function as the kernel's probes
	// saw them, also those in which nothing else was recorded. Func then means nothing.
	Calls []events.Call
	// Functions are the names of the functions of Calls.
	Functions []string
	// served leaves out what a program works off, see consumed.
	served bool
}
