package demo

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"strings"
)

var controlSyscalls = Scenario{
	Name:     "syscalls-ok",
	Title:    "control: 100 short system calls in each request, none of which blocks",
	Verdicts: []string{"healthy"}, Contrast: "tail",
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/files"}},
	Env:       []string{twoPs},
	New:       newFiles,
}

var controlLog = Scenario{
	Name:     "log-ok",
	Title:    "control: a noisy log, written to a file that takes it at once",
	Verdicts: []string{"healthy"}, Contrast: "tail",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/access"}},
	Env:       []string{twoPs},
	New:       newAccess,
}

var controlUploads = Scenario{
	Name:     "fsync-ok",
	Title:    "control: every request makes its upload durable, and the disk is quick",
	Verdicts: []string{"healthy", "cause"}, Contrast: "tail",
	// A disk that others use at the same time is not quick.
	Accept:    []string{"slow-disk"},
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/upload"}},
	Env:       []string{twoPs},
	New:       newUploads,
}

// files looks at many files for one answer.
type files struct{}

func newFiles(context.Context, map[string]string) (http.Handler, error) {
	return route("/files", (&files{}).handle), nil
}

// count looks at the executable, which is there on every system.
func (f *files) count() (n int) {
	name, err := os.Executable()
	if err != nil {
		return 0
	}
	for range 100 {
		if _, err := os.Stat(name); err == nil {
			n++
		}
	}
	return n
}

func (f *files) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	ls[0].Stock = f.count()
	reply(w, ls)
}

// access writes some lines of log for each request.
type access struct{ log *log.Logger }

func newAccess(ctx context.Context, _ map[string]string) (http.Handler, error) {
	f, err := scratchFile()
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { f.Close() })
	a := &access{log: log.New(f, "", log.LstdFlags)}
	return route("/access", a.handle), nil
}

func (a *access) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	for _, l := range ls {
		a.log.Printf("read %s by %s %s", l.SKU, r.RemoteAddr, strings.Repeat("-", 100))
	}
	reply(w, ls)
}

// uploads keeps a file to which every upload is appended.
type uploads struct{ file *os.File }

func newUploads(ctx context.Context, _ map[string]string) (http.Handler, error) {
	f, err := scratchFile()
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { f.Close() })
	u := &uploads{file: f}
	return route("/upload", u.handle), nil
}

func (u *uploads) keep(body []byte) error {
	_, err := u.file.Write(body)
	return errors.Join(err, u.file.Sync())
}

func (u *uploads) handle(w http.ResponseWriter, r *http.Request) {
	if err := u.keep(make([]byte, 4096)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	reply(w, lines(20))
}
