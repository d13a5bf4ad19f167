package blame

import (
	"slices"
	"strconv"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// SiteKind says what kind of place a stack stands at, as far as functions of the
// standard library and of published libraries tell.
type SiteKind uint8

// The kinds of sites.
const (
	SiteOther SiteKind = iota
	SiteMutex
	SiteRLock   // a reader waiting for a writer
	SiteRWLock  // a writer waiting for readers or writers
	SiteOnce    // somebody else's one-time initialisation
	SiteGroup   // WaitGroup: waits for its children
	SiteShared  // singleflight: waits for another caller's result
	SitePool    // a client library's connection pool
	SitePermit  // a counting semaphore, or a connection's bound of streams
	SiteCall    // an outgoing call's reply
	SiteDial    // connecting
	SiteDNS     // resolving a name
	SiteFile    // a file system call
	SiteSync    // fsync and its like
	SiteWriteFD // writing to a file or pipe
	SiteSocket  // a socket system call
	SiteInbound // reading from or writing to the client of the request itself
	SiteSleep   // a system call that only lets time pass
	SiteBusy    // sleeping before it tries again to lock a database
	SiteLocked  // waiting for a file's lock
	SiteWeak    // making a strong pointer of a weak one
)

// sites maps functions to the kind of a stack on which they stand, between the
// blocking call and the program's own code. Of several on one stack the row with
// the lowest rank decides.
// Source: the named packages' own sources (Go 1.22 to 1.26 for the standard library).
var sites = slices.Concat(rowsOf(0, SitePool, request.Pools), rowsOf(1, SitePermit, request.Permits), []siteRow{ // a pool may count with a semaphore
	{0, SiteInbound, "net/http.(*connReader).Read"},
	{0, SiteInbound, "net/http.(*connReader).backgroundRead"},
	{0, SiteInbound, "net/http.checkConnErrorWriter.Write"},
	{0, SiteInbound, "net/http.(*http2serverConn).readFrames"},
	{0, SiteInbound, "net/http.(*http2serverConn).writeFrameAsync"},
	{0, SiteInbound, "net/http/internal/http2.(*serverConn).readFrames"},
	{0, SiteInbound, "net/http/internal/http2.(*serverConn).writeFrameAsync"},
	{0, SiteInbound, "golang.org/x/net/http2.(*serverConn).readFrames"},
	{0, SiteInbound, "golang.org/x/net/http2.(*serverConn).writeFrameAsync"},
	{0, SiteInbound, "google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams"},
	{0, SiteShared, "golang.org/x/sync/singleflight.(*Group).Do"},
	{0, SiteInbound, "crypto/tls.(*Conn).serverHandshake"},
	{0, SiteDNS, "net.(*Resolver).lookup"},
	{0, SiteDNS, "net.(*Resolver).goLookup"},
	{0, SiteDNS, "net.(*Resolver).tryOneName"},
	{0, SiteDNS, "net.(*Resolver).exchange"},
	{0, SiteDNS, "net.dnsPacketRoundTrip"},
	{0, SiteDNS, "net.dnsStreamRoundTrip"},
	{0, SiteDNS, "net.doBlockingWithCtx"},
	{0, SiteDNS, "net.cgoLookup"},
	{1, SiteDial, "net.(*Dialer).Dial"},
	{1, SiteDial, "net/http.(*Transport).dialConn"},
	{1, SiteDial, "net/http.(*Transport).startDialConn"},
	{1, SiteDial, "net/http.(*persistConn).addTLS"},
	{1, SiteDial, "crypto/tls.(*Conn).Handshake"},
	{1, SiteDial, "google.golang.org/grpc.(*pickerWrapper).pick"},
	{1, SiteDial, "google.golang.org/grpc.(*addrConn).createTransport"},
	{1, SiteDial, "google.golang.org/grpc/internal/grpcsync.(*CallbackSerializer).run"}, // tells of what becomes of connections
	{1, SiteDial, "github.com/jackc/pgx/v5/pgconn.Connect"},
	{1, SiteDial, "github.com/lib/pq.(*Connector).open"},
	{1, SiteDial, "github.com/go-sql-driver/mysql.(*connector).Connect"},
	{1, SiteDial, "github.com/gomodule/redigo/redis.DialContext"},
	{1, SiteDial, "github.com/redis/rueidis._newPipe"},
	{1, SiteDial, "go.mongodb.org/mongo-driver/x/mongo/driver/topology.(*connection).connect"},
	{1, SiteDial, "go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology.(*connection).connect"},
	{1, SiteDial, "github.com/rabbitmq/amqp091-go.Open"},
	{1, SiteDial, "github.com/gorilla/websocket.(*Dialer).DialContext"},
	{1, SiteDial, "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).dialConn"},
	{1, SiteDial, "github.com/redis/go-redis/v9.(*baseClient).initConn"},
	{1, SiteDial, "github.com/go-redis/redis/v8.(*baseClient).initConn"},
	{2, SitePool, "net/http.(*Transport).getConn"},
	{2, SiteCall, "net/http.(*persistConn).roundTrip"},
	{2, SiteCall, "net/http.(*http2ClientConn).RoundTrip"},
	{2, SiteCall, "golang.org/x/net/http2.(*ClientConn).RoundTrip"},
	{2, SiteCall, "net/http.(*persistConn).readLoop"},
	{3, SiteOnce, "sync.(*Once).doSlow"},
	{3, SiteWeak, "weak.runtime_makeStrongFromWeak"},
	{3, SiteWeak, "internal/weak.runtime_makeStrongFromWeak"},
	{4, SiteRLock, "sync.(*RWMutex).RLock"},
	{4, SiteRWLock, "sync.(*RWMutex).Lock"},
	{5, SiteMutex, "sync.(*Mutex).Lock"},
	{5, SiteMutex, "internal/sync.(*Mutex).lockSlow"},
	{5, SiteGroup, "sync.(*WaitGroup).Wait"},
	{6, SiteSync, "os.(*File).Sync"},
	{6, SiteSync, "syscall.Fsync"},
	{6, SiteSync, "syscall.Fdatasync"},
	{6, SiteSync, "golang.org/x/sys/unix.Fsync"},
	{6, SiteSync, "golang.org/x/sys/unix.Fdatasync"},
	{6, SiteSync, "golang.org/x/sys/unix.Msync"},
	{6, SiteSync, "modernc.org/libc.Xfsync"},
	{6, SiteSync, "modernc.org/libc.Xfdatasync"},
	{6, SiteSync, "modernc.org/libc.Xmsync"},
	{6, SiteFile, "os.(*File).WriteAt"}, // never a pipe
	{6, SiteFile, "syscall.Pread"},
	{6, SiteFile, "syscall.Pwrite"},
	{6, SiteFile, "golang.org/x/sys/unix.Pread"},
	{6, SiteFile, "golang.org/x/sys/unix.Pwrite"},
	{6, SiteFile, "modernc.org/libc.Xpread"},
	{6, SiteFile, "modernc.org/libc.Xpwrite"},
	{6, SiteFile, "modernc.org/libc.Xopen"},
	{6, SiteFile, "modernc.org/libc.Xunlink"},
	{6, SiteFile, "modernc.org/libc.Xftruncate"},
	{5, SiteBusy, "modernc.org/sqlite/lib._sqliteDefaultBusyCallback"},
	{5, SiteBusy, "modernc.org/sqlite/lib.sqliteDefaultBusyCallback"},
	{6, SiteLocked, "syscall.Flock"},
	{6, SiteLocked, "syscall.FcntlFlock"},
	{6, SiteLocked, "golang.org/x/sys/unix.Flock"},
	{6, SiteLocked, "golang.org/x/sys/unix.FcntlFlock"},
	{6, SiteSleep, "syscall.Nanosleep"},
	{6, SiteSleep, "golang.org/x/sys/unix.Nanosleep"},
	{6, SiteSleep, "golang.org/x/sys/unix.ClockNanosleep"},
	{6, SiteSleep, "modernc.org/libc.Xnanosleep"},
	{6, SiteSleep, "modernc.org/libc.Xclock_nanosleep"},
	{6, SiteSleep, "modernc.org/libc.Xusleep"},
	{6, SiteSleep, "modernc.org/libc.Xsleep"},
	{7, SiteWriteFD, "os.(*File).Write"},
	{7, SiteOther, "os.(*Process)."},
	{7, SiteOther, "os.StartProcess"},
	{8, SiteFile, "os."},
	{9, SiteSocket, "net.(*netFD)."},
	{9, SiteSocket, "net.(*conn)."},
})

// limiters are functions, by prefix, in which rate limiters have those wait who come too fast.
// Source: the named packages' own sources.
var limiters = []string{"golang.org/x/time/rate.(*Limiter).", "go.uber.org/ratelimit.", "github.com/juju/ratelimit."}

// multiplexed reports whether goroutines that start at a function read a connection which many share.
func multiplexed(root string) bool {
	_, shared := request.ReadsReplies(root)
	return shared
}

// siteRow is one of sites.
type siteRow struct {
	rank   int
	kind   SiteKind
	prefix string // of the full name of a function
}

func rowsOf(rank int, kind SiteKind, prefixes []string) (rows []siteRow) {
	for _, p := range prefixes {
		rows = append(rows, siteRow{rank, kind, p})
	}
	return rows
}

// pathCalls are system calls that only file systems answer, and that move little data, by
// the lower-case names of the functions of package syscall, of internal/syscall/unix and
// of golang.org/x/sys/unix that make them.
// Source: these packages, for Linux (Go 1.22 to 1.26).
var pathCalls = map[string]bool{
	"access": true, "faccessat": true, "faccessat2": true, "open": true, "openat": true, "openat2": true, "creat": true,
	"stat": true, "lstat": true, "fstat": true, "fstatat": true, "statx": true, "statfs": true, "fstatfs": true,
	"mkdir": true, "mkdirat": true, "rmdir": true, "unlink": true, "unlinkat": true,
	"rename": true, "renameat": true, "renameat2": true, "link": true, "linkat": true, "symlink": true, "symlinkat": true,
	"readlink": true, "readlinkat": true,
	"chmod": true, "fchmod": true, "fchmodat": true, "chown": true, "fchown": true, "lchown": true, "fchownat": true, "utimensat": true,
	"truncate": true, "ftruncate": true, "fallocate": true, "fadvise": true,
	"getxattr": true, "lgetxattr": true, "fgetxattr": true, "setxattr": true, "lsetxattr": true, "fsetxattr": true,
	"listxattr": true, "llistxattr": true, "flistxattr": true, "removexattr": true, "lremovexattr": true, "fremovexattr": true,
}

// PathCall reports whether a function makes a system call that only file systems answer,
// or an open, which may also wait for the other end of a named pipe.
func PathCall(function string) bool {
	for _, p := range []string{"syscall.", "internal/syscall/unix.", "golang.org/x/sys/unix."} {
		if name, ok := strings.CutPrefix(function, p); ok {
			return pathCalls[strings.ToLower(name)]
		}
	}
	return false
}

// openedBy are the functions that have a driver's Connect open a connection, whatever driver that is.
// Source: package database/sql, Go 1.22 to 1.26.
var openedBy = map[string]bool{"database/sql.(*DB).conn": true, "database/sql.(*DB).openNewConnection": true}

// answering are prefixes of functions below which a server's library writes to the
// client's socket, and does other things too: a file that it sends is read there.
// Source: as of sites.
var answering = []string{
	"net/http.(*response).ReadFrom",
	"google.golang.org/grpc/internal/transport.NewServerTransport.func",
	"github.com/valyala/fasthttp.(*Server).serveConn",
}

// loggers are prefixes of functions that write log lines. Their middleware for
// handlers is not among them: requests are served below it.
var loggers = []string{
	"log.", "log/slog.", "log/syslog.",
	"go.uber.org/zap.", "go.uber.org/zap/zapcore.",
	"github.com/rs/zerolog.", "github.com/rs/zerolog/log.",
	"github.com/sirupsen/logrus.",
	"k8s.io/klog.", "k8s.io/klog/v2.", "github.com/golang/glog.",
	"github.com/go-kit/log.", "github.com/hashicorp/go-hclog.",
	"github.com/charmbracelet/log.", "github.com/phuslu/log.", "github.com/apex/log.",
	"gopkg.in/natefinch/lumberjack%2ev2.",
}

// pollRead begins the functions (Read, ReadFrom, ReadMsg) that wait until there is
// something to read, and then read it with a system call. Source: package
// internal/poll, Go 1.22 to 1.26.
const pollRead = "internal/poll.(*FD).Read"

// window is the function of grpc-go that waits until a stream's data may be sent, below
// windowServer in a server; the stream's connection has a writer that waits in windowIdle if
// it has nothing that it may send: then what the stream has is more than its peer has taken.
// The writer makes room as it writes.
// Source: google.golang.org/grpc/internal/transport, flowcontrol.go and controlbuf.go (1.11 to 1.85).
const (
	window       = "google.golang.org/grpc/internal/transport.(*writeQuota).get"
	windowServer = "google.golang.org/grpc/internal/transport.(*http2Server)."
	windowIdle   = "google.golang.org/grpc/internal/transport.(*controlBuffer).get"
)

// Asks begins the names of the functions in which a broker's client waits for the answer to a request.
// Source: github.com/nats-io/nats.go, nats.go and context.go (1.37 and 1.51); the linker escapes the dot of its name.
const Asks = "github.com/nats-io/nats%2ego.(*Conn).request"

// retriers are prefixes of functions that call what they are given until it succeeds, and sleep before they call it again.
// Source: the named packages' own sources.
var retriers = []string{
	"github.com/hashicorp/go-retryablehttp.(*Client).Do",
	"github.com/cenkalti/backoff/",
	"github.com/cenkalti/backoff.Retry",
	"github.com/avast/retry-go",
	"github.com/sethvargo/go-retry.Do",
	"github.com/go-resty/resty/v2.Backoff",
	"github.com/eapache/go-resiliency/retrier.(*Retrier).",
	"github.com/failsafe-go/failsafe-go/retrypolicy.",
	"github.com/googleapis/gax-go/v2.",
	"github.com/aws/aws-sdk-go-v2/aws/retry.",
	"k8s.io/client-go/util/retry.",
}

// releasesToAll are prefixes of functions that wake everybody who waits for one
// thing, where others wake one of them.
// Source: as of sites.
var releasesToAll = []string{
	"sync.(*WaitGroup).",
	"golang.org/x/sync/singleflight.(*Group).doCall",
}

// toAll reports whether a wait was ended for everybody who waited for the same: also by
// closing a channel, of which the runtime's part is not on the stack in a trace, unlike
// that of a send.
func (a *Attribution) toAll(s timeline.Segment) bool {
	for i, f := range a.t.Stacks.Frames(s.WakerStack) {
		switch {
		case strings.HasPrefix(f.Func, "runtime."):
			continue
		case s.Reason == timeline.ReasonChanReceive || s.Reason == timeline.ReasonSelect:
			if i == 0 && !strings.HasPrefix(f.Func, "reflect.") {
				return true
			}
		}
		return hasAny(f.Func, releasesToAll)
	}
	return false
}

// sleeps reports whether a system call at a site only lets time pass.
func (k SiteKind) sleeps() bool { return k == SiteSleep || k == SiteBusy }

// Site is a place at which goroutines stand, told apart by functions, not lines, but for those
// at which one passes something to another or waits for that.
type Site struct {
	Kind SiteKind
	// Func, File and Line are the innermost frame outside the standard library
	// and known wrappers; else the innermost frame outside the runtime.
	Func, File string
	Line       int
	// Call is the innermost frame outside the runtime: what it called.
	Call string
	// C is the C function of a cgo call, "" if it is none.
	C string
	// Cancel is set on stacks of a cancellation or an expired deadline.
	Cancel bool
	// Dial is set on stacks that connect or resolve a name, also inside of a pool.
	Dial bool
	// Connect is set on stacks that wait for the kernel to open a connection.
	Connect bool
	// Log is set on stacks of a logging package that writes a line, also through
	// an io.Writer of the program's own.
	Log bool
	// Once is set on stacks of a one-time initialisation: it runs there, or is
	// waited for.
	Once bool
	// Limit is set on stacks of a rate limiter: who comes slowly does not wait there.
	Limit bool
	// Path is set on stacks of system calls that only file systems answer, unlike a read
	// or a write, which may be of a pipe, and that hardly compute.
	Path bool
	// Write is set on stacks of socket writes.
	Write bool
	// Window is set on stacks that wait until more may be sent on a stream, as the other
	// end takes what was sent.
	Window bool
	// Asks is set on stacks of a broker's client that wait for the answer to a request. The broker, and who answers, may be in the
	// same process: such waits are followed to whoever ended them.
	Asks bool
	// Retries is set on stacks of libraries that call again what failed, and sleep before.
	Retries bool
	// Client is set on stacks of libraries that call others.
	Client bool
	// Stack is one of the stacks of this site.
	Stack gotrace.StackID
	// reads is the function on the stack that begins with pollRead, "" if there is none.
	reads string
	// App reports whether Func lies outside the standard library.
	App bool
}

// siteOf interns the site of a stack.
func (a *Attribution) siteOf(s gotrace.StackID) SiteID {
	if s == 0 {
		return 0
	}
	if int(s) >= len(a.siteByStack) {
		a.siteByStack = append(a.siteByStack, make([]SiteID, int(s)+1-len(a.siteByStack))...)
	}
	if id := a.siteByStack[s]; id != 0 {
		return id
	}
	frames := a.t.Stacks.Frames(s)
	var key strings.Builder
	key.WriteString(waiting(frames))
	for _, f := range frames {
		if !runtimeFrame(f.Func) {
			key.WriteString(f.Func)
			key.WriteByte('\n')
		}
	}
	id, ok := a.siteByKey[key.String()]
	if !ok {
		id = SiteID(len(a.Sites))
		a.siteByKey[key.String()] = id
		a.Sites = append(a.Sites, newSite(s, frames))
	}
	a.siteByStack[s] = id
	return id
}

// waiting tells apart where a function waits for another goroutine or sleeps, by what it does there, with a
// channel, a lock or a timer, and the line of the program's own code: who sends to one and then receives from
// another waits at two places. It is "" for other stacks.
// Source: packages runtime (chan.go, select.go), sync and time, Go 1.22 to 1.26.
func waiting(frames []gotrace.Frame) string {
	does := ""
	for _, f := range frames {
		switch {
		case strings.HasPrefix(f.Func, "sync.(*") && (strings.HasSuffix(f.Func, "Lock") || strings.HasSuffix(f.Func, ").Wait")),
			f.Func == "time.Sleep", does == "" && (strings.HasPrefix(f.Func, "runtime.chan") || f.Func == "runtime.selectgo"):
			does = strings.TrimRight(f.Func, "0123456789") // of chanrecv1 and chanrecv2
		case runtimeFrame(f.Func), strings.HasPrefix(f.Func, "internal/sync."), f.Func == "sync.(*Mutex).lockSlow":
		case does == "":
			return ""
		default:
			place, app := request.AppFrame(frames)
			if !app {
				return does + "\n"
			}
			return does + ":" + strconv.Itoa(place.Line) + "\n"
		}
	}
	return ""
}

func newSite(s gotrace.StackID, frames []gotrace.Frame) Site {
	site := Site{Stack: s, C: CalledC(frames)}
	place, app := request.AppFrame(frames)
	site.App = app
	rank, inside, writes, answers := len(sites), true, true, false
	for i, f := range frames {
		if app && f == place {
			inside = false // what called the program's own code says nothing about what that does
		}
		writes = writes && (inside || strings.HasSuffix(f.Func, ").Write") || hasAny(f.Func, loggers))
		site.Log = site.Log || writes && hasAny(f.Func, loggers)
		site.Connect = site.Connect || f.Func == "net.(*netFD).connect"
		site.Client = site.Client || inside && request.CallsOut(f.Func)
		answers = answers || inside && hasAny(f.Func, answering)
		if site.reads == "" && strings.HasPrefix(f.Func, pollRead) {
			site.reads = f.Func
		}
		site.Window = site.Window || inside && f.Func == window
		site.Asks = site.Asks || inside && strings.HasPrefix(f.Func, Asks)
		site.Retries = site.Retries || inside && hasAny(f.Func, retriers)
		site.Once = site.Once || f.Func == "sync.(*Once).doSlow"
		site.Limit = site.Limit || hasAny(f.Func, limiters)
		for _, row := range sites {
			if !inside || !strings.HasPrefix(f.Func, row.prefix) {
				continue
			}
			if row.rank < rank {
				rank, site.Kind = row.rank, row.kind
			}
			site.Dial = site.Dial || row.kind == SiteDial || row.kind == SiteDNS
		}
		if i > 0 && openedBy[f.Func] && strings.HasSuffix(frames[i-1].Func, ".Connect") {
			if site.Dial = true; site.Kind != SiteDNS {
				rank, site.Kind = 0, SiteDial
			}
		}
		if site.Call == "" && !runtimeFrame(f.Func) {
			site.Call = f.Func
		}
		if strings.HasPrefix(f.Func, "context.(*cancelCtx).cancel") || strings.HasPrefix(f.Func, "context.(*timerCtx).cancel") {
			site.Cancel = true
		}
	}
	if site.Write = socketWrite(frames); site.Write && answers && !site.Client {
		site.Kind = SiteInbound
	}
	if site.Window {
		site.Kind = SiteCall
		if slices.ContainsFunc(frames, func(f gotrace.Frame) bool { return strings.HasPrefix(f.Func, windowServer) }) {
			site.Kind = SiteInbound
		}
	}
	if site.Kind == SiteWriteFD && len(frames) > 0 && frames[0].Func == "internal/poll.(*fdMutex).rwlock" {
		site.Kind = SiteMutex // who writes to the file waits for who writes to it
	}
	site.Dial = site.Dial && site.Kind != SiteInbound
	if site.Path = PathCall(site.Call); site.Path && site.Kind == SiteOther {
		site.Kind = SiteFile
	}
	if !app {
		for _, f := range frames {
			if !runtimeFrame(f.Func) {
				place = f
				break
			}
		}
	}
	site.Func, site.File, site.Line = place.Func, place.File, place.Line
	if site.Func == "" && len(frames) > 0 {
		site.Func, site.File, site.Line = frames[0].Func, frames[0].File, frames[0].Line
	}
	return site
}

// socketWrite reports whether a stack writes to a socket, or sends a file there: a
// write of package internal/poll called by package net, which files do not go through.
func socketWrite(frames []gotrace.Frame) bool {
	return socketCall(frames, "internal/poll.(*FD).Write") || socketCall(frames, "internal/poll.SendFile")
}

// socketCall reports whether a stack stands in a function of package internal/poll
// with a prefix that package net called.
func socketCall(frames []gotrace.Frame, prefix string) bool {
	called := false
	for _, f := range frames {
		switch {
		case strings.HasPrefix(f.Func, prefix):
			called = true
		case called:
			return strings.HasPrefix(f.Func, "net.")
		}
	}
	return false
}

// OnSocket reports whether a system call at a stack is one on a socket, its client's
// or a peer's. Package net makes its sockets non-blocking: such a call does not wait.
func OnSocket(frames []gotrace.Frame) bool {
	return socketCall(frames, "internal/poll.") || slices.ContainsFunc(frames, func(f gotrace.Frame) bool {
		return strings.HasPrefix(f.Func, "net.(*netFD).") || strings.HasPrefix(f.Func, "net.(*conn).")
	})
}

// CallsOut reports whether anybody in the recording connects, or stands in a client's library. It goes through all stacks.
func (a *Attribution) CallsOut() bool {
	for id := range a.t.Stacks.Len() {
		if s := newSite(gotrace.StackID(id), a.t.Stacks.Frames(gotrace.StackID(id))); s.Dial || s.Connect || s.Client {
			return true
		}
	}
	return false
}

// Known reports whether the tables of this package name a function.
func Known(function string) bool {
	for _, row := range sites {
		if strings.HasPrefix(function, row.prefix) {
			return true
		}
	}
	for _, row := range discarding {
		if hasAny(function, row.closes) {
			return true
		}
	}
	return hasAny(function, answering) || hasAny(function, limiters) || hasAny(function, loggers) || hasAny(function, releasesToAll) || PathCall(function)
}

// CalledC returns the C function that a system call's stack stands in, "" if it is in none.
func CalledC(frames []gotrace.Frame) (c string) {
	for i, f := range frames {
		switch name, stub := cName(f.Func); {
		case f.Func == "runtime.cgocall" && i+1 < len(frames):
			c, _ = cName(frames[i+1].Func)
		case stub && c == "":
			c = name
		}
	}
	return c
}

// cName is the C function behind a function that cgo made for it
// (main._Cfunc_deflate is deflate; _C2func_ ones return errno too), and whether
// it is such a function. The runtime's own frames below it are not in traces.
func cName(f string) (name string, stub bool) {
	for _, mark := range []string{"._Cfunc_", "._C2func_"} {
		if i := strings.Index(f, mark); i >= 0 {
			return f[i+len(mark):], true
		}
	}
	return f, false
}

func hasAny(f string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(f, p) {
			return true
		}
	}
	return false
}

// runtimeFrame reports whether a function belongs to the runtime's machinery
// below a blocking call rather than to the call.
func runtimeFrame(f string) bool {
	return strings.HasPrefix(f, "runtime.") || strings.HasPrefix(f, "internal/runtime/") || strings.HasPrefix(f, "sync.runtime_") || strings.HasPrefix(f, "internal/sync.runtime_") || strings.HasPrefix(f, "internal/poll.runtime_")
}

// on reports whether function stands on stack s.
func (a *Attribution) on(s gotrace.StackID, function string) bool {
	for _, f := range a.t.Stacks.Frames(s) {
		if f.Func == function {
			return true
		}
	}
	return false
}

// blocking is what goroutines do on whose stacks a function stands.
type blocking struct {
	blocks bool // they block, call the system, or are preempted
	locks  bool // they wait for a lock
}

// findBlocking collects the functions on whose stacks goroutines block, call the
// system, or are preempted.
func (a *Attribution) findBlocking(stacks []did) {
	for i, did := range stacks {
		stack := gotrace.StackID(i)
		if did == 0 || stack == 0 {
			continue
		}
		lock := did&waitedSync != 0 && a.lockLike(Hop{Site: a.siteOf(stack), Reason: timeline.ReasonSync})
		for _, f := range a.t.Stacks.Frames(stack) {
			x := a.blocking[f.Func]
			a.blocking[f.Func] = blocking{true, x.locks || lock}
		}
	}
}
