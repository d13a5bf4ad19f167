package request

import (
	"regexp"
	"slices"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// operation is what a stack's innermost frames do.
type operation uint8

const (
	opOther operation = iota
	opRead            // reads a socket
	opWrite           // writes a socket
	opAccept
	opDial
	opFile
	opReceive // receives from a channel, selects, or waits on a sync.Cond
	opSend
	opSleep
	opLock // mutex, semaphore or WaitGroup
)

// flags are facts about a stack.
type flags uint32

const (
	// serving: below the connection loop of net/http or fasthttp.
	serving flags = 1 << iota
	// nextHTTP: reads the next HTTP/1 request of a connection.
	nextHTTP
	// nextFast: the same in fasthttp.
	nextFast
	// answers: writes to the connection through net/http's server.
	answers
	// finishing: net/http's server writes the last of an answer, and goes on to the next request.
	finishing
	// atOnce: to a connection that does so with one system call, unless the socket is full.
	atOnce
	// inHandler: below a dispatch frame.
	inHandler
	// httpBody: reads through net/http's server connection.
	httpBody
	// ofRequest: reads the body of a request.
	ofRequest
	// hijacked: takes the connection away from net/http's server.
	hijacked
	// observer: below a net/http/pprof handler.
	observer
	// nextMessage: a gRPC stream handler receives a message.
	nextMessage
	unary
	streaming
	// frameWritten: an HTTP/2 handler waits until its frame is written.
	frameWritten
	// transmitting: writes the frames of a gRPC connection.
	transmitting
	// accepting: below a known server's loop that accepts connections.
	accepting
	// datagrams: reads from a socket that has no connection.
	datagrams
	// named: Options.Func matches a frame.
	named
	// pops: a client asks a queue for a message, and waits until there is one.
	pops
)

// stackInfo is what Find knows about a stack.
type stackInfo struct {
	flags  flags
	op     operation
	client uint8 // 1 + index into clients, 0: none
	key    int32 // the same for stacks that block at the same place in the same chain of functions
	node   int32 // in the dispatch tree
}

// foreign: reads a socket in an HTTP handler, but neither through net/http's
// server nor for a known client. Handlers that hijacked their connection do.
func (s *stackInfo) foreign() bool {
	return s.op == opRead && s.client == 0 && s.flags&httpBody == 0 && s.flags&inHandler != 0
}

// classifier computes the stackInfo of every stack of a trace.
type classifier struct {
	stacks *gotrace.Stacks
	re     *regexp.Regexp
	info   []stackInfo
	funcs  map[string]*function
	keys   map[string]int32
	tree   []node
	child  map[edge]int32
	buf    []byte
}

// node is a place in the tree of calls by which dispatchers reach handlers.
type node struct {
	parent, depth int32
	name          string
}

type edge struct {
	parent int32
	name   string
}

// function is what a function's name tells.
type function struct {
	name       string
	id         int32
	flags      flags
	op         operation
	client     uint8
	net, poll  bool // of package net, of internal/poll
	stripped   bool // not part of a stack's key
	dispatcher bool // calls handlers
	handler    bool // an application's own ServeHTTP
	app        bool
}

// Keys that stand for all home stacks of one library.
const (
	keyNone int32 = iota
	keyHTTP
	keyFast
	keyMessage
	keyFirst
)

func classify(t *timeline.Timeline, re *regexp.Regexp) *classifier {
	c := &classifier{
		stacks: t.Stacks, re: re, funcs: map[string]*function{}, keys: map[string]int32{},
		tree: make([]node, 1), child: map[edge]int32{},
	}
	n := t.Stacks.Len()
	c.info = make([]stackInfo, n)
	for i := 1; i < n; i++ {
		c.info[i] = c.stack(t.Stacks.Frames(gotrace.StackID(i)))
	}
	return c
}

// of returns what is known about a stack.
func (c *classifier) of(s gotrace.StackID) *stackInfo {
	if int(s) >= len(c.info) {
		return &c.info[0]
	}
	return &c.info[s]
}

func (c *classifier) stack(frames []gotrace.Frame) (s stackInfo) {
	c.buf = c.buf[:0]
	chain, transfer := false, false
	for _, fr := range frames {
		f := c.function(fr.Func)
		if transfer && !f.poll { // the caller of internal/poll tells sockets from files
			if transfer = false; !f.net {
				s.op = opFile
			}
		}
		if s.op == opOther {
			s.op = f.op
			transfer = s.op == opRead || s.op == opWrite
		}
		if f.op == opDial {
			s.op = opDial
		}
		if s.client == 0 {
			s.client = f.client
		}
		s.flags |= f.flags
		if chain = chain || !f.stripped; chain {
			c.buf = append(c.buf, byte(f.id), byte(f.id>>8), byte(f.id>>16), byte(f.id>>24))
		}
	}
	if s.op != opReceive || s.flags&unary != 0 {
		s.flags &^= nextMessage
	}
	c.server(frames, &s)
	switch {
	case s.flags&nextHTTP != 0:
		s.key = keyHTTP
	case s.flags&nextFast != 0:
		s.key = keyFast
	case s.flags&nextMessage != 0:
		s.key = keyMessage
	default:
		c.buf = append(c.buf, byte(s.op))
		k, ok := c.keys[string(c.buf)]
		if !ok {
			k = keyFirst + int32(len(c.keys))
			c.keys[string(c.buf)] = k
		}
		s.key = k
	}
	return s
}

// server walks a stack from the outside, as far as known servers and routers go.
func (c *classifier) server(frames []gotrace.Frame, s *stackInfo) {
	in := "" // the server library whose connection loop this is
	dispatched := false
	for i := len(frames) - 1; i >= 0; i-- {
		f := c.function(frames[i].Func)
		switch {
		case f.name == rootHTTP:
			in = rootHTTP
		case strings.HasPrefix(f.name, fastServe):
			in = fastServe
		case in == rootHTTP && !dispatched && s.op == opRead && (f.name == "net/http.(*conn).readRequest" || f.name == "bufio.(*Reader).Peek"):
			s.flags |= nextHTTP
		case in == fastServe && s.op == opRead && i+1 < len(frames) && strings.HasPrefix(frames[i+1].Func, fastServe) &&
			(f.name == "bufio.(*Reader).Peek" || strings.HasPrefix(f.name, "github.com/valyala/fasthttp.")) && !f.dispatcher:
			s.flags |= nextFast
		case in == rootHTTP && f.name == finishRequest && i > 2 && frames[i-1].Func == "bufio.(*Writer).Flush" && c.function(frames[i-2].Func).flags&answers != 0:
			if s.flags |= finishing; PackageOf(frames[i-3].Func) == "net" { // TLS may make several records of it
				s.flags |= atOnce
			}
		}
		if in == rootHTTP && strings.HasPrefix(f.name, "net/http.serverHandler.ServeHTTP") {
			dispatched = true
		}
		outer := i+1 < len(frames) && c.function(frames[i+1].Func).dispatcher
		if f.dispatcher || f.handler || outer {
			s.flags |= inHandler
		}
		if f.handler || outer && f.app {
			s.node = c.descend(s.node, f.name)
		}
	}
	if in != "" {
		s.flags |= serving
	}
}

// maxDispatch bounds the depth of the dispatch tree: routers nest middleware,
// they do not recurse.
const maxDispatch = 64

func (c *classifier) descend(parent int32, name string) int32 {
	if c.tree[parent].depth >= maxDispatch {
		return parent
	}
	e := edge{parent, name}
	n, ok := c.child[e]
	if !ok {
		n = int32(len(c.tree))
		c.tree = append(c.tree, node{parent, c.tree[parent].depth + 1, name})
		c.child[e] = n
	}
	return n
}

// common returns the deepest node that both are at or below.
func (c *classifier) common(a, b int32) int32 {
	for a != b {
		if c.tree[a].depth >= c.tree[b].depth {
			a = c.tree[a].parent
		} else {
			b = c.tree[b].parent
		}
	}
	return a
}

// toward returns the node directly below at on the way to n, or at if n is not below it.
func (c *classifier) toward(at, n int32) int32 {
	for c.tree[n].depth > c.tree[at].depth+1 {
		n = c.tree[n].parent
	}
	if n != at && c.tree[n].depth > c.tree[at].depth && c.tree[n].parent == at {
		return n
	}
	return at
}

func (c *classifier) function(name string) *function {
	f := c.funcs[name]
	if f == nil {
		f = c.learn(name)
		c.funcs[name] = f
	}
	return f
}

func (c *classifier) learn(name string) *function {
	pkg := PackageOf(name)
	f := &function{name: name, id: int32(len(c.funcs)), net: pkg == "net", poll: pkg == "internal/poll", app: !standard(name) && !library(name)}
	switch pkg {
	case "runtime", "syscall", "internal/poll", "net":
		f.stripped = true
	default:
		f.stripped = strings.HasPrefix(pkg, "internal/runtime") || strings.HasPrefix(pkg, "internal/syscall") || strings.HasPrefix(pkg, "runtime/internal")
	}
	f.op = operationOf(pkg, name)
	f.client = clientOf(name)
	f.flags = flagsOf(pkg, name)
	if c.re != nil && c.re.MatchString(name) {
		f.flags |= named
	}
	plain := strings.TrimSuffix(name, "-fm")
	f.handler = f.app && strings.HasSuffix(plain, ".ServeHTTP") || slices.ContainsFunc(libraryHandlers, func(h string) bool { return strings.HasPrefix(plain, h) })
	f.dispatcher = dispatches(plain)
	return f
}

// operationOf knows the functions at which goroutines block.
func operationOf(pkg, name string) operation {
	switch pkg {
	case "internal/poll":
		m, ok := strings.CutPrefix(name, "internal/poll.(*FD).")
		switch {
		case name == "internal/poll.SendFile", ok && (strings.HasPrefix(m, "Write") || m == "RawWrite"):
			return opWrite
		case ok && (m == "Read" || strings.HasPrefix(m, "ReadFrom") || strings.HasPrefix(m, "ReadMsg") || m == "RawRead"):
			return opRead
		case ok && m == "Accept":
			return opAccept
		}
	case "net":
		if name == "net.(*netFD).connect" || strings.HasPrefix(name, "net.(*sysDialer)") {
			return opDial
		}
	case "runtime":
		switch name {
		case "runtime.chanrecv1", "runtime.chanrecv2", "runtime.selectgo":
			return opReceive
		case "runtime.chansend1":
			return opSend
		}
	case "time":
		if name == "time.Sleep" {
			return opSleep
		}
	case "sync":
		switch name {
		case "sync.(*Cond).Wait":
			return opReceive
		case "sync.(*Mutex).Lock", "sync.(*RWMutex).Lock", "sync.(*RWMutex).RLock", "sync.(*WaitGroup).Wait":
			return opLock
		}
	}
	return opOther
}

// flagsOf knows functions of published servers.
func flagsOf(pkg, name string) flags {
	switch pkg {
	case "net/http/pprof":
		return observer
	case "net/http":
		switch name {
		case "net/http.(*Server).Serve":
			return accepting
		case "net/http.checkConnErrorWriter.Write", "net/http.(*response).ReadFrom":
			return answers
		case "net/http.(*body).Read":
			return httpBody | ofRequest
		case "net/http.(*connReader).Read", "net/http.(*connReader).backgroundRead":
			return httpBody
		case "net/http.(*conn).hijackLocked", "net/http.(*response).Hijack":
			return hijacked
		}
	case "github.com/valyala/fasthttp":
		if strings.HasPrefix(name, "github.com/valyala/fasthttp.(*Server).Serve") {
			return accepting
		}
	case "net":
		if strings.HasPrefix(name, "net.(*UDPConn).") || strings.HasPrefix(name, "net.(*IPConn).") {
			return datagrams
		}
	case "google.golang.org/grpc":
		switch name {
		case "google.golang.org/grpc.(*Server).Serve":
			return accepting
		case "google.golang.org/grpc.(*Server).processUnaryRPC", wrapUnary, inlinedWrapUnary: // the latter from v1.85 on
			return unary
		case "google.golang.org/grpc.(*Server).processStreamingRPC":
			return streaming
		case "google.golang.org/grpc.(*serverStream).RecvMsg":
			return nextMessage
		}
	}
	if strings.HasPrefix(name, "google.golang.org/grpc/internal/transport.(*loopyWriter).") {
		return transmitting
	}
	if asksQueue(pkg, name) {
		return pops
	}
	if http2(pkg) && (strings.HasSuffix(name, "erverConn).writeDataFromHandler") || strings.HasSuffix(name, "erverConn).writeHeaders")) {
		return frameWritten
	}
	return 0
}

// queues are the functions by which clients of queues wait for a message, by the package's prefix.
var queues = []struct {
	pkg   string
	names []string
}{
	{"github.com/redis/go-redis/", []string{".BLPop", ".BRPop", ".BRPopLPush", ".BLMove", ".BLMPop", ".BZPopMin", ".BZPopMax", ".BZMPop", ".XRead", ".XReadGroup"}},
	{"github.com/go-redis/redis/", []string{".BLPop", ".BRPop", ".BRPopLPush", ".BLMove", ".BZPopMin", ".BZPopMax", ".XRead", ".XReadGroup"}},
	{"github.com/jackc/pgx/", []string{".WaitForNotification"}},
	{"github.com/aws/aws-sdk-go-v2/service/sqs", []string{".ReceiveMessage"}},
	{"github.com/aws/aws-sdk-go/service/sqs", []string{".ReceiveMessage", ".ReceiveMessageWithContext"}},
	{"github.com/twmb/franz-go/pkg/kgo", []string{".PollFetches", ".PollRecords"}},
	{"github.com/segmentio/kafka-go", []string{".FetchMessage", ".ReadMessage"}},
}

func asksQueue(pkg, name string) bool {
	for _, q := range queues {
		if !strings.HasPrefix(pkg, strings.TrimSuffix(q.pkg, "/")) {
			continue
		}
		for _, n := range q.names {
			if strings.HasSuffix(name, n) {
				return true
			}
		}
	}
	return false
}

func http2(pkg string) bool {
	return pkg == "net/http" || pkg == "golang.org/x/net/http2" || pkg == "net/http/internal/http2"
}

// wrapUnary runs the handler of a unary call, by the names that compilers give it.
const (
	wrapUnary        = "google.golang.org/grpc.(*Server).wrapUnaryHandler.func1"
	inlinedWrapUnary = "google.golang.org/grpc.(*Server).register.(*Server).wrapUnaryHandler.func1"
)

const (
	rootHTTP = "net/http.(*conn).serve"
	// finishRequest writes what is left of an answer when its handler has returned.
	finishRequest = "net/http.(*response).finishRequest"
	fastServe     = "github.com/valyala/fasthttp.(*Server).serveConn"
)

// dispatches reports whether a library function calls handlers.
func dispatches(name string) bool {
	for _, d := range dispatchers {
		if strings.HasPrefix(name, d) {
			return true
		}
	}
	return strings.HasSuffix(name, ".ServeHTTP") && (standard(name) || library(name))
}

// dispatchers are the functions by which routers call handlers, one line per library.
var dispatchers = []string{
	"net/http.HandlerFunc.ServeHTTP",
	"google.golang.org/grpc.(*Server).processUnaryRPC",
	"google.golang.org/grpc.(*Server).processStreamingRPC",
	"google.golang.org/grpc.(*Server).processRPC",
	wrapUnary, inlinedWrapUnary,
	"github.com/gin-gonic/gin.(*Context).Next",
	"github.com/gin-gonic/gin.(*Engine).handleHTTPRequest",
	"github.com/labstack/echo/v4.(*Echo).",
	"github.com/labstack/echo.(*Echo).",
	"github.com/go-chi/chi/v5.(*Mux).",
	"github.com/gofiber/fiber/v2.(*App).",
	"github.com/gofiber/fiber/v2.(*Ctx).Next",
	"github.com/gofiber/fiber/v3.(*App).",
	"github.com/gofiber/fiber/v3.(*DefaultCtx).Next",
	"github.com/fasthttp/router.(*Router).Handler",
	"github.com/urfave/negroni.",
	"connectrpc.com/connect.(*Handler).ServeHTTP",
	fastServe,
}

// CallsOut reports whether a function belongs to a known library by which a process
// calls others.
func CallsOut(function string) bool { return clientOf(function) != 0 }

// replyReaders are the root functions of goroutines that read a connection for whoever calls on it, and hand each the reply to his call,
// or a message: they wait for the network whatever else they are seen to wait for. The value says whether many calls share the connection.
// Source: the named packages' own sources (Go 1.22 to 1.26, grpc-go 1.11 to 1.85, nats.go 1.11 to 1.48, amqp091-go 1.10).
var replyReaders = map[string]bool{
	"net/http.(*persistConn).readLoop":                                false,
	"google.golang.org/grpc/internal/transport.(*http2Client).reader": true,
	"golang.org/x/net/http2.(*ClientConn).readLoop":                   true,
	"net/http.(*http2ClientConn).readLoop":                            true,
	"net/http/internal/http2.(*ClientConn).readLoop":                  true,
	"github.com/nats-io/nats%2ego.(*Conn).readLoop":                   true,
	"github.com/rabbitmq/amqp091-go.(*Connection).reader":             true,
}

// ReadsReplies reports whether goroutines that start at a function read a connection for whoever calls on it, so that what they wait for are
// answers, and whether many calls share that.
func ReadsReplies(root string) (reads, shared bool) {
	shared, reads = replyReaders[root]
	return reads, shared
}

// clientOf returns 1 + the index in clients of the library a function belongs
// to, or 0.
func clientOf(name string) uint8 {
	for i, c := range clients {
		for _, p := range c.prefixes {
			if strings.HasPrefix(name, p) {
				return uint8(i + 1)
			}
		}
	}
	return 0
}

// client is a library by which a process calls others.
type client struct {
	name     string
	prefixes []string
}

// clients: one line per library.
var clients = []client{
	{"net/http Transport", []string{"net/http.(*persistConn)", "net/http.(*Transport)", "net/http.(*http2Transport)",
		"net/http.(*http2ClientConn)", "net/http.(*http2clientConnReadLoop)", "net/http.(*http2clientStream)",
		"net/http/internal/http2.(*Transport)", "net/http/internal/http2.(*ClientConn)", "net/http/internal/http2.(*clientStream)", "net/http/internal/http2.(*clientConnReadLoop)",
		"golang.org/x/net/http2.(*Transport)", "golang.org/x/net/http2.(*ClientConn)",
		"golang.org/x/net/http2.(*clientConnReadLoop)", "golang.org/x/net/http2.(*clientStream)"}},
	{"database/sql", []string{"database/sql."}},
	{"go-redis", []string{"github.com/redis/go-redis/", "github.com/go-redis/redis"}},
	{"redigo", []string{"github.com/gomodule/redigo/redis."}},
	{"grpc-go client", []string{"google.golang.org/grpc/internal/transport.(*http2Client)", "google.golang.org/grpc/internal/transport.NewHTTP2Client",
		"google.golang.org/grpc.(*ClientConn)", "google.golang.org/grpc.(*clientStream)", "google.golang.org/grpc.(*addrConn)"}},
	{"pgx", []string{"github.com/jackc/pgx/", "github.com/jackc/pgconn"}},
	{"lib/pq", []string{"github.com/lib/pq."}},
	{"mysql", []string{"github.com/go-sql-driver/mysql."}},
	{"mongo", []string{"go.mongodb.org/mongo-driver"}},
	{"memcache", []string{"github.com/bradfitz/gomemcache/"}},
	{"kafka-go", []string{"github.com/segmentio/kafka-go"}},
	{"sarama", []string{"github.com/IBM/sarama", "github.com/Shopify/sarama"}},
	{"nats", []string{"github.com/nats-io/nats%2ego.", "github.com/nats-io/nats.go."}}, // the linker escapes the dot
	{"rueidis", []string{"github.com/redis/rueidis"}},
	{"fasthttp client", []string{"github.com/valyala/fasthttp.(*HostClient)", "github.com/valyala/fasthttp.(*Client)", "github.com/valyala/fasthttp.(*PipelineClient)", "github.com/valyala/fasthttp.(*pipelineConnClient)"}},
	{"net/rpc client", []string{"net/rpc.(*Client)"}},
	{"net/smtp", []string{"net/smtp."}},
	{"resolver", []string{"net.(*Resolver)", "net.(*resolverConfig)"}},
}
