// Package dependency asks a redis or postgres that the recorded service calls
// what it did while the trace ran: its own counters before and after, its slow
// log, what its sessions waited for.
//
// A [Recorder] writes the member dependency.jsonl of an incident; [Read] reads it
// back. It only asks: nothing is written to the dependency, nothing reset, and
// every question has a deadline and a bound. What a dependency says of itself is the
// time that it spent executing. What waited in its socket, on the way or in the
// client's pool is not in there; a slow command of somebody else is, and while redis
// runs one all others wait.
package dependency

// Schema names the format of dependency.jsonl: one JSON object per line, each a
// [Server] that names the schema.
const Schema = "whylate.dependency/1"

// The kinds of dependencies.
const (
	Redis    = "redis"
	Postgres = "postgres"
)

// Bounds of one Server.
const (
	// MaxCalls, MaxSlow, MaxEvents and MaxWaits bound its lists; SLOWLOG keeps 128
	// entries by default.
	MaxCalls, MaxSlow, MaxEvents, MaxWaits = 40, 256, 40, 40
	// MaxMissing bounds what could not be had.
	MaxMissing = 20
	// MaxText bounds a statement in bytes, and any other text.
	MaxText = 400
	// MaxServers is how many dependencies are asked at most.
	MaxServers = 8
)

// Server is what one dependency said. All durations are nanoseconds, counters are
// those of the window between the two questions.
type Server struct {
	Schema string `json:"schema"`
	// Kind is Redis or Postgres.
	Kind string `json:"kind"`
	// Address is what the user called it, without user and password; Peer the
	// address at which it was reached, as host:port, "" if it was not.
	Address string `json:"address"`
	Peer    string `json:"peer,omitempty"`
	Version string `json:"version,omitempty"`
	// FromNS and ToNS bound the window: ns since 1970 on the clock of whoever
	// recorded. ToNS is 0 if there was no second answer: then there are no counters.
	FromNS int64 `json:"from_ns,omitempty"`
	ToNS   int64 `json:"to_ns,omitempty"`
	// Restarted: it began anew in the window, and its counters are those since then.
	// Reset: counters became smaller; those are what they had counted since.
	Restarted bool `json:"restarted,omitempty"`
	Reset     bool `json:"reset,omitempty"`
	// Count and NS are the calls in the window and the time executing them, an upper bound: what
	// a script or a function calls counts twice. BoundNS is what no call took
	// longer than, 0 if that is not known.
	Count   int64 `json:"count"`
	NS      int64 `json:"ns"`
	BoundNS int64 `json:"bound_ns,omitempty"`
	// Calls are commands or statements, those that took the most time first; CallsCut
	// tells that there were more.
	Calls    []Call `json:"calls,omitempty"`
	CallsCut bool   `json:"calls_cut,omitempty"`
	// Slow are the entries of redis's SLOWLOG that ended in the window, the longest
	// first, and SlowLost how many it had dropped by then. SlowAboveNS is what a
	// command must take to be logged, -1 if none is, absent if not known.
	Slow        []Slow `json:"slow,omitempty"`
	SlowLost    int64  `json:"slow_lost,omitempty"`
	SlowAboveNS *int64 `json:"slow_above_ns,omitempty"`
	// Events are redis's latency events; EventsAboveNS is what makes one, 0 if they
	// are not monitored, absent if not known.
	Events        []Event `json:"events,omitempty"`
	EventsAboveNS *int64  `json:"events_above_ns,omitempty"`
	// Busy is how much of one CPU redis's main thread used, a ratio.
	Busy *float64 `json:"busy,omitempty"`
	// Waits are what active sessions of postgres waited for in Looks looks, about one
	// a second.
	Waits []Wait `json:"waits,omitempty"`
	Looks int    `json:"looks,omitempty"`
	// Asked is how many commands were sent, AskedNS how long their answers took
	// together: no less than what they cost the server.
	Asked   int   `json:"asked"`
	AskedNS int64 `json:"asked_ns"`
	// Missing is what could not be had.
	Missing []Missing `json:"missing,omitempty"`
}

// Call is one command of redis, or one statement of postgres as
// pg_stat_statements normalises it.
type Call struct {
	// Name is the command, or the statement without comments and literals.
	Name string `json:"name"`
	// Count is how often it was called, NS how long that took together.
	Count int64 `json:"count"`
	NS    int64 `json:"ns"`
	// MaxNS is what no call in the window took longer than, 0 if that is not known;
	// Exact means that one took as long.
	MaxNS int64 `json:"max_ns,omitempty"`
	Exact bool  `json:"exact,omitempty"`
	// P50NS, P99NS and P999NS are redis's percentiles since it started.
	P50NS  int64 `json:"p50_ns,omitempty"`
	P99NS  int64 `json:"p99_ns,omitempty"`
	P999NS int64 `json:"p999_ns,omitempty"`
}

// Slow is an entry of SLOWLOG: the command without its arguments.
type Slow struct {
	Command string `json:"command"`
	NS      int64  `json:"ns"`
	// At is when it was logged, in seconds since 1970 on the server's clock.
	At int64 `json:"at"`
}

// Event is one of redis's latency events, such as fork or command.
type Event struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	MaxNS int64  `json:"max_ns"`
}

// Wait is one thing that sessions of postgres waited for.
type Wait struct {
	// Type and Event are those of pg_stat_activity, such as Lock and transactionid.
	Type  string `json:"type"`
	Event string `json:"event"`
	// Looks is in how many looks a session waited for it, Most how many at once.
	Looks int `json:"looks"`
	Most  int `json:"most"`
}

// OtherUsers is missing where postgres shows a user only its own sessions and statements.
const OtherUsers = "sessions and statements of other users"

// Missing is something that the dependency did not tell.
type Missing struct {
	What    string `json:"what"`
	Why     string `json:"why"`
	Command string `json:"command,omitempty"`
}

// Name is what reports call it, such as "redis 127.0.0.1:6379".
func (s *Server) Name() string { return s.Kind + " " + s.Address }

// Answered reports whether there are counters of the window.
func (s *Server) Answered() bool { return s.ToNS > 0 }

// WindowNS is the length of the window, at least 1.
func (s *Server) WindowNS() int64 { return max(1, s.ToNS-s.FromNS) }

// Longest is the longest call or stop of the window of which the server knows for
// sure, and its name; 0 if it knows of none.
func (s *Server) Longest() (name string, ns int64) {
	for _, e := range s.Events {
		if e.MaxNS > ns {
			name, ns = e.Name, e.MaxNS
		}
	}
	for _, c := range s.Calls {
		if c.Exact && c.MaxNS > ns {
			name, ns = c.Name, c.MaxNS
		}
		if c.Count > 0 && c.NS/c.Count > ns { // one of them took the mean, at least
			name, ns = c.Name, c.NS/c.Count
		}
	}
	for _, e := range s.Slow { // last, so that a command is named rather than the event "command" of the same
		if e.NS > 0 && float64(e.NS) > 0.9*float64(ns) {
			name, ns = e.Command, max(ns, e.NS)
		}
	}
	return name, ns
}
