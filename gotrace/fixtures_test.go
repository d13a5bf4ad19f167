package gotrace

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"strings"
	"sync"
	"testing"

	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/internal/unpack"
)

// fixture is a trace to read: recorded by an old release, or just now.
type fixture struct {
	name string
	data []byte
}

// fixtures returns the recorded traces of every release (see testdata/gen),
// which have several generations, and one of this release. Under the race detector that and the
// newest have to do (see [need.Raced]).
func fixtures(tb testing.TB) []fixture {
	tb.Helper()
	files, err := filepath.Glob("testdata/go1.*.trace.gz")
	if err != nil || len(files) < 5 {
		tb.Fatalf("%d fixtures, %v", len(files), err)
	}
	if need.Raced {
		files = files[len(files)-1:]
	}
	var out []fixture
	for _, f := range files {
		out = append(out, fixture{strings.TrimSuffix(filepath.Base(f), ".trace.gz"), unzip(tb, f)})
	}
	return append(out, fixture{"live", record(tb, activity)})
}

func unzip(tb testing.TB, file string) []byte {
	tb.Helper()
	data, err := unpack.Gzip(file)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// record returns the trace of what do does.
func record(tb testing.TB, do func()) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		tb.Fatal(err)
	}
	do()
	trace.Stop()
	return b.Bytes()
}

// activity blocks, wakes, calls, collects and annotates.
func activity() {
	ctx, task := trace.NewTask(context.Background(), "a task")
	defer task.End()
	defer trace.StartRegion(ctx, "a region").End()
	var mu sync.Mutex
	var wg sync.WaitGroup
	mu.Lock()
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			runtime.Gosched()
		}()
	}
	runtime.Gosched()
	mu.Unlock()
	wg.Wait()
	c, s := net.Pipe()
	go func() { _, _ = io.Copy(s, s) }()
	_, _ = c.Write([]byte("x"))
	_, _ = c.Read(make([]byte, 1))
	c.Close()
	s.Close()
	runtime.GC()
	_, _ = os.ReadFile("testdata/gen/main.go")
}
