package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"
)

var slowToStopCopy = Scenario{
	Name:  "slow-to-stop-copy",
	Title: "a copy of 128 MB in one piece keeps the memory statistics waiting, and with them all",
	Cause: "slow-to-stop", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*library).bind",
	Rate:      300,
	Endpoints: []Endpoint{{Path: "/book"}},
	Env:       []string{twoPs},
	New:       newLibrary,
}

// library has all pages in one piece of memory, and a copy of them to lend.
type library struct{ pages, bound []byte }

func newLibrary(ctx context.Context, _ map[string]string) (http.Handler, error) {
	l := &library{pages: make([]byte, 128<<20), bound: make([]byte, 128<<20)}
	rand.NewChaCha8([32]byte{}).Read(l.pages)
	l.bind()
	go l.bindAll(ctx)
	return route("/book", l.handle), nil
}

func (l *library) bindAll(ctx context.Context) {
	for interval(ctx, 250*time.Millisecond) {
		l.bind()
	}
}

// bind is the fault: the runtime cannot interrupt a copy.
func (l *library) bind() { copy(l.bound, l.pages) }

// room asks how much memory is left, which stops the world, if only shortly.
func (l *library) room() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapInuse
}

func (l *library) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	if l.room() > 0 {
		ls = append(ls, lines(20)...)
	}
	reply(w, ls)
}
