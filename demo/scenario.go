// Package demo holds small services with one planted cause of lateness each, and
// healthy controls beside them. The running binary executes itself to become
// such a service, so that a demonstration needs nothing installed: see Run for
// the parent's side and Victim for the child's.
//
// Names of functions, methods and files in this package speak of the business of
// each service and never of its fault: a diagnosis must not be able to guess the
// answer from a stack. Which file holds which scenario is in the table below.
package demo

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// Scenario is one service, the load it is put under, and the truth about it.
type Scenario struct {
	Name  string
	Title string // one line for a list

	// Cause is the catalogue id of the planted cause. It is empty for controls
	// and for a service that hangs, where it is enough not to call it healthy.
	Cause string
	// Contrast is the contrast in which Cause shows: "tail" or "level".
	Contrast string
	// Accept holds other cause ids that are right too, either as the first
	// finding or as a member of a consistent_with set.
	Accept []string
	// Verdicts are the right verdicts, the best first: "cause", "healthy",
	// "inconclusive".
	Verdicts []string
	// Mix says that the tail is simply another endpoint.
	Mix bool
	// Place is the symbol of the function to blame; a closure inside it, whose
	// symbol begins with Place, is right too. Empty: no place of its own.
	Place string

	// Rate is the load in requests per second over all Endpoints, Bursts the
	// bursts on top of it.
	Rate      float64
	Bursts    Bursts
	Endpoints []Endpoint
	// Env is added to the service's environment, Go runtime settings only.
	Env []string
	// NoVDSO hides the vDSO from the service, so that reading the clock is a system call.
	NoVDSO bool
	// Peers are the other processes that the service calls.
	Peers []Peer

	// New builds the service inside the child. peers holds the base URL of each
	// peer by name. Goroutines that New starts end with ctx, or with the process.
	New func(ctx context.Context, peers map[string]string) (http.Handler, error)
}

// Bursts are groups of requests that are due at one instant, at random times.
type Bursts struct {
	Mean time.Duration // mean time between bursts
	Size int           // requests per burst
}

// Endpoint is one path of a service and its part of the requests.
type Endpoint struct {
	Path   string
	Weight float64 // 0 means 1
}

// Peer is an HTTP server in a process of its own that answers any GET.
type Peer struct {
	Name string
	// Reply is how long it takes to answer, Slow how long for the ratio
	// SlowShare of the requests, chosen at random.
	Reply     time.Duration
	Slow      time.Duration
	SlowShare float64
}

// symbol is the prefix of this package's functions in a stack.
const symbol = "github.com/whylate/whylate/demo."

// twoPs makes the services behave alike on small and large machines.
const twoPs = "GOMAXPROCS=2"

// scenarios is the table of all scenarios; the first is the default.
var scenarios = []Scenario{
	lockHeldAcrossWait,    // catalogue.go
	lockHeldAcrossWork,    // search.go
	lockConvoy,            // inventory.go
	singleWorker,          // ledger.go
	backPressure,          // audit.go
	poolExhausted,         // quotes.go
	poolExhaustedSQL,      // accounts.go
	timerWait,             // checkout.go
	gcAssist,              // feed.go
	gcWorkers,             // graph.go
	forcedGC,              // archive.go
	memoryLimitThrash,     // offers.go
	gcPause,               // tickets.go
	stopTheWorld,          // sessions.go
	expensiveRequest,      // thumbnails.go
	slowClock,             // events.go
	slowDependency,        // ratings.go
	cpuHog,                // forecast.go
	goroutineFlood,        // presence.go
	goroutineLeak,         // alerts.go
	observer,              // devices.go
	netpollStarvation,     // shipping.go
	overload,              // render.go
	gomaxprocsTooLow,      // render.go
	levelSlow,             // tax.go
	hung,                  // bookings.go
	controlSteady,         // profiles.go
	controlBursts,         // profiles.go
	controlGC,             // news.go
	controlMixture,        // reports.go
	controlIdleGoroutines, // devices.go
}

// All returns the scenarios, the default first. Changing the slice changes
// nothing else.
func All() []Scenario { return slices.Clone(scenarios) }

// Default is the scenario to show when none is named.
func Default() Scenario { return scenarios[0] }

// Lookup returns the scenario of that name.
func Lookup(name string) (Scenario, bool) {
	i := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return scenarios[i], true
}
