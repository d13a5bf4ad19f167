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
	// Contrast is the contrast in which Cause shows: "tail", "level" or "before".
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
	// Peers are the other processes that the service calls.
	Peers []Peer

	// Quota is how many CPUs the service may use, in a cgroup of its own; 0 is no
	// limit. It needs a writable cpu hierarchy.
	Quota float64
	// Neighbours compute beside the service. They need the right to raise a
	// priority.
	Neighbours Neighbours
	// NoVDSO starts the service without the kernel's fast clock.
	NoVDSO bool
	// Reader is whoever reads the service's standard error.
	Reader Reader

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
	// Body is how many bytes clients post; 0 is a GET.
	Body int
	// Pause is how long clients take their time in the middle of their request, or
	// without a body before they read the answer.
	Pause time.Duration
	// Once opens a connection for each request.
	Once bool
}

// Peer is an HTTP server in a process of its own that answers any GET.
type Peer struct {
	Name string
	// Reply is how long it takes to answer, Slow how long for the ratio
	// SlowShare of the requests, chosen at random.
	Reply     time.Duration
	Slow      time.Duration
	SlowShare float64
	// Remote keeps it from being disturbed by neighbours, as on a machine of its
	// own. It needs the right to raise a priority.
	Remote bool
	// Handshake, if not 0, makes it an HTTPS server with a certificate that nobody
	// signed, which takes so long to greet a new connection.
	Handshake time.Duration
	// Lost is the ratio of the TCP segments to it that are lost on connections, at
	// random, LostFirst of those that open one.
	Lost, LostFirst float64
	// Frames makes it a TCP server of frames, each of them a length and a text.
	Frames bool
	// DNS makes it a name server over UDP, which knows every name's address.
	DNS bool
}

// Neighbours are processes of the highest priority, one per CPU, that compute
// for Busy together, at a random time in every interval of length Every.
type Neighbours struct{ Busy, Every time.Duration }

// Reader reads a pipe and pauses for Pause, at random intervals with the mean
// Every.
type Reader struct{ Pause, Every time.Duration }

// symbol is the prefix of this package's functions in a stack.
const symbol = "github.com/whylate/whylate/demo."

// twoPs makes the services behave alike on small and large machines.
const twoPs = "GOMAXPROCS=2"

// scenarios is the table of all scenarios; the first is the default.
var scenarios = []Scenario{
	lockHeldAcrossWait,    // catalogue.go
	lockInPassing,         // menus.go
	lockHeldAcrossWork,    // search.go
	lockConvoy,            // inventory.go
	rwmutexWriter,         // fares.go
	faresImport,           // fares.go
	faresSales,            // fares.go
	cacheStampede,         // timetables.go
	tripsReview,           // timetables.go
	timetablesOperator,    // timetables.go
	singleWorker,          // ledger.go
	backPressure,          // audit.go
	poolExhausted,         // quotes.go
	poolExhaustedSQL,      // accounts.go
	poolLeak,              // labels.go
	timerWait,             // checkout.go
	gcAssist,              // feed.go
	gcWorkers,             // graph.go
	stopTheWorld,          // sessions.go
	expensiveRequest,      // thumbnails.go
	growth,                // exports.go
	runtimeLock,           // ballots.go
	ballotsApart,          // ballots.go
	ballotsStacks,         // ballots.go
	slowDependency,        // ratings.go
	finalizerBacklog,      // translations.go
	translationsRegistrar, // translations.go
	translationsReturned,  // translations.go
	translationsThesis,    // translations.go
	translationsLibrarian, // translations.go
	retryStorm,            // flights.go
	cpuHog,                // forecast.go
	goroutineFlood,        // presence.go
	netpollStarvation,     // shipping.go
	overload,              // render.go
	gomaxprocsTooLow,      // render.go
	levelSlow,             // tax.go
	hung,                  // bookings.go
	quotaTooLow,           // offers.go
	gomaxprocsOverQuota,   // routes.go
	hostContention,        // weather.go
	syncLogging,           // payments.go
	forcedGC,              // documents.go
	memoryLimitThrash,     // photos.go
	slowDNS,               // delivery.go
	dialPerRequest,        // exchange.go
	coldStart,             // shops.go
	tcpLoss,               // tariffs.go
	goroutineLeak,         // alerts.go
	gcPause,               // billing.go
	slowToStop,            // premiums.go
	slowToStopCopy,        // library.go
	slowClock,             // timesheets.go
	syscallHandoff,        // vault.go
	lockedThread,          // plans.go
	plansDetailed,         // plans.go
	slowDisk,              // statements.go
	pageFaults,            // maps.go
	fanInStraggler,        // tours.go
	slowClient,            // galleries.go
	galleriesVisit,        // galleries.go
	acceptQueue,           // gates.go
	lateTimer,             // newsletters.go
	routesQuota,           // routes.go
	routesCrowd,           // routes.go
	paymentsExchange,      // payments.go
	timesheetsLong,        // timesheets.go
	tariffsPatient,        // tariffs.go
	tariffsAnew,           // tariffs.go
	toursAirline,          // tours.go
	galleriesAppraiser,    // galleries.go
	gatesRequest,          // gates.go
	newslettersLarge,      // newsletters.go
	ordersInParts,         // orders.go
	ordersAtOnce,          // orders.go
	observer,              // stations.go
	controlSteady,         // profiles.go
	controlBursts,         // profiles.go
	controlGC,             // news.go
	controlMixture,        // reports.go
	controlIdleGoroutines, // devices.go
	controlBusy,           // ticker.go
	controlSyscalls,       // files.go
	controlLog,            // files.go
	controlUploads,        // files.go
	controlGalleries,      // galleries.go
	controlGates,          // gates.go
	controlNewsletters,    // newsletters.go
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
