package request

import (
	"strings"

	"github.com/whylate/whylate/gotrace"
)

// AppFrame returns the innermost frame that is the application's own: outside
// the standard library, the table of known wrappers and client libraries, and the
// modules that the program was built with. ok is false when the stack has none.
//
// Where only such modules are on the stack the innermost frame of theirs is taken: the
// program itself may have been installed as one. So it is beyond a handler that is theirs:
// what stands there wraps the handler, and does not call for what the handler does.
func AppFrame(frames []gotrace.Frame) (frame gotrace.Frame, ok bool) {
	for _, f := range frames {
		switch {
		case f.Func == "":
		case handles(f):
			if frame.Func == "" && !standard(f.Func) && !library(f.Func) {
				frame = f
			}
			if frame.Func != "" {
				return frame, true
			}
		case own(f):
			return f, true
		case frame.Func == "" && !standard(f.Func) && !library(f.Func) && !generated(f.Func) && !lent(f.File):
			frame = f
		}
	}
	return frame, frame.Func != ""
}

// Observes reports whether a frame is of the handlers that serve profiles and traces.
func Observes(f gotrace.Frame) bool { return strings.HasPrefix(f.Func, "net/http/pprof.") }

// own reports whether a frame is of the module that the program was built of, as far as its name and
// file tell.
func own(f gotrace.Frame) bool {
	return f.Func != "" && !standard(f.Func) && !library(f.Func) && !generated(f.Func) && !dependency(f.File) && !lent(f.File)
}

// lent reports whether a file is one of the standard library whose functions return others that, where
// they are inlined, get the names of who calls them: "main.load.OnceValue[...].func1".
// Source: the standard library, Go 1.22 to 1.26.
func lent(file string) bool {
	for _, f := range []string{"sync/oncefunc.go", "iter/iter.go", "slices/iter.go", "maps/iter.go"} {
		if before, ok := strings.CutSuffix(file, f); ok && (before == "" || strings.HasSuffix(before, "/src/")) {
			return true
		}
	}
	return false
}

// handles reports whether a frame calls the handler of one kind of request: what is around it is
// there for all of them.
func handles(f gotrace.Frame) bool {
	return dispatches(f.Func) || strings.HasSuffix(f.Func, ".ServeHTTP") && dependency(f.File)
}

// dependency reports whether a source file belongs to a module that a program was built
// with, rather than to the one that it was built of: it was read from the module cache,
// where directories bear the version, or was vendored.
func dependency(file string) bool {
	_, version, _ := strings.Cut(file, "@v")
	return version != "" && version[0] >= '0' && version[0] <= '9' || strings.Contains(file, "/vendor/")
}

// Callers returns the application's own frames, the innermost first, that are outside of the
// client library by which a stack calls a peer: what that calls back, as a transport that wraps
// another one or a driver, only passes calls on. Without such a library, or where all that is the
// application's own is inside of it, it returns all of them. It goes out to the handler.
func Callers(frames []gotrace.Frame) (mine []gotrace.Frame) {
	outside := 0
	for _, f := range frames {
		if own(f) {
			mine = append(mine, f)
		} else if len(mine) > 0 && handles(f) {
			break
		} else if clientOf(f.Func) != 0 || f.Func == "net/http.send" {
			outside = len(mine)
		}
	}
	if outside == len(mine) {
		return mine
	}
	return mine[outside:]
}

// Chain returns the frames from among which AppFrame chooses, the innermost first: the application's own as far as the
// handler, or those of the modules that it was built with, where there are no others.
func Chain(frames []gotrace.Frame) []gotrace.Frame {
	var mine, theirs []gotrace.Frame
	for _, f := range frames {
		switch {
		case handles(f):
			if len(mine) > 0 {
				return mine
			}
			if len(theirs) > 0 {
				return theirs
			}
		case own(f):
			mine = append(mine, f)
		case f.Func != "" && !standard(f.Func) && !library(f.Func) && !generated(f.Func) && !lent(f.File):
			theirs = append(theirs, f)
		}
	}
	if len(mine) > 0 {
		return mine
	}
	return theirs
}

// PackageOf returns the import path of a function by its full name:
// "net/http.(*conn).serve" is of "net/http". Dots in the path's last element
// are escaped by the linker ("gopkg.in/yaml%2ev3.Unmarshal").
func PackageOf(fn string) string {
	slash := strings.LastIndexByte(beforeTypes(fn), '/') + 1
	if dot := strings.IndexByte(fn[slash:], '.'); dot >= 0 {
		return fn[:slash+dot]
	}
	return fn
}

// beforeTypes cuts a name before its type arguments and receiver, which may
// contain import paths of their own.
func beforeTypes(fn string) string {
	if i := strings.IndexAny(fn, "[("); i >= 0 {
		return fn[:i]
	}
	return fn
}

// standard reports whether a function belongs to the standard library.
func standard(fn string) bool {
	if strings.HasPrefix(fn, "type:") {
		return true // made by the compiler
	}
	if !strings.Contains(fn, ".") {
		return true // of no package: assembly's, such as memeqbody, or C's
	}
	path := PackageOf(fn)
	if i := strings.IndexByte(path, '/'); i >= 0 {
		path = path[:i]
	}
	return standardRoots[path]
}

// standardRoots are the first elements of the standard library's import paths.
// A test compares them with the installed toolchain's.
var standardRoots = set("archive", "arena", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto",
	"database", "debug", "embed", "encoding", "errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index",
	"internal", "io", "iter", "log", "maps", "math", "mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime",
	"simd", "slices", "sort", "strconv", "strings", "structs", "sync", "syscall", "testing", "text", "time", "type",
	"unicode", "unique", "unsafe", "uuid", "vendor", "weak", "cgo", "_cgo", "sigreturn")

// Standard reports whether a function belongs to the standard library, by the first element
// of its import path.
func Standard(fn string) bool { return standard(fn) }

// Published reports whether a function belongs to a published library that this package
// knows by name: to a client, a router, a server or a wrapper. The rules go by such names.
func Published(fn string) bool {
	if library(fn) || clientOf(fn) != 0 {
		return true
	}
	for _, d := range dispatchers {
		if strings.HasPrefix(fn, d) {
			return true
		}
	}
	return false
}

// library reports whether a function belongs to a published library whose
// frames say nothing about the application.
func library(fn string) bool {
	if !strings.Contains(fn, "/") {
		return false
	}
	for _, p := range libraries {
		if strings.HasPrefix(fn, p) {
			return true
		}
	}
	return false
}

// generated reports whether cgo made a function, to call C: its file is no source.
func generated(fn string) bool {
	return strings.Contains(fn, "._Cfunc_") || strings.Contains(fn, "._C2func_")
}

// libraries are import path prefixes of wrappers, routers and clients.
var libraries = []string{
	"golang.org/x/",
	"google.golang.org/",
	"github.com/valyala/fasthttp",
	"github.com/redis/go-redis/",
	"github.com/go-redis/redis",
	"github.com/gomodule/redigo/",
	"github.com/jackc/pgx/",
	"github.com/jackc/pgconn",
	"github.com/jackc/puddle",
	"github.com/lib/pq.",
	"github.com/go-sql-driver/mysql.",
	"github.com/mattn/go-sqlite3.",
	"github.com/jmoiron/sqlx.",
	"gorm.io/",
	"modernc.org/",
	"zombiezen.com/go/sqlite",
	"github.com/ncruces/go-sqlite3",
	"go.mongodb.org/mongo-driver",
	"github.com/bradfitz/gomemcache/",
	"github.com/segmentio/kafka-go",
	"github.com/IBM/sarama",
	"github.com/nats-io/nats.go",
	"github.com/nats-io/nats%2ego.",
	"github.com/aws/aws-sdk-go",
	"github.com/gin-gonic/gin.",
	"github.com/labstack/echo",
	"github.com/go-chi/chi",
	"github.com/gorilla/",
	"github.com/julienschmidt/httprouter.",
	"github.com/gofiber/fiber",
	"github.com/fasthttp/router.",
	"github.com/coder/websocket",
	"github.com/rs/zerolog",
	"github.com/sirupsen/logrus",
	"go.uber.org/zap",
	"k8s.io/klog",
	"github.com/golang/glog",
	"github.com/go-kit/log.",
	"github.com/hashicorp/go-hclog",
	"github.com/charmbracelet/log",
	"github.com/phuslu/log",
	"github.com/apex/log",
	"gopkg.in/natefinch/lumberjack",
	"go.opentelemetry.io/",
	"github.com/prometheus/client_golang/",
	"github.com/sony/gobreaker",
	"github.com/cenkalti/backoff",
	"github.com/hashicorp/go-retryablehttp",
	"github.com/grpc-ecosystem/",
	"connectrpc.com/connect",
	"github.com/cloudwego/hertz",
	"github.com/panjf2000/ants",
}

// libraryHandlers are beginnings of the names of handlers that libraries have ready, and that are endpoints of their own.
var libraryHandlers = []string{
	"github.com/prometheus/client_golang/prometheus/promhttp.HandlerFor", // and HandlerForTransactional
	"expvar.expvarHandler",
	"net/http.(*fileHandler).ServeHTTP",
}

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}
