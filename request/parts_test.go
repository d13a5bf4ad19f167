package request

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/internal/unpack"
	"github.com/whylate/whylate/timeline"
)

// What is counted in the parts of a trace, which go on behind their ends, is counted once, but
// for requests that are open there for longer.
func TestPartsCountNothingTwice(t *testing.T) {
	files, err := filepath.Glob("../cause/*/testdata/*.whylate")
	if err != nil {
		t.Fatal(err)
	}
	several := map[string]int{}
	step := 4
	if need.Raced {
		step = 16
	}
	for i := 0; i < len(files); i += step {
		file := files[i]
		members, err := unpack.Zip(file)
		if err != nil {
			t.Fatal(err)
		}
		data := members["trace"]
		count := func(most, cut int64) (n, requests, open, calls int) {
			split, err := gotrace.Split(bytes.NewReader(data), most)
			if err != nil {
				t.Fatal(err)
			}
			for {
				section, err := split.Next()
				if err == io.EOF {
					return n, requests, open, calls
				}
				if err != nil {
					t.Fatal(err)
				}
				parts := timeline.PartsOf(section, timeline.Options{}, true, cut)
				for {
					tl, err := parts.Next()
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					n++
					f := Find(tl, Options{})
					for _, r := range f.Roles {
						requests += r.Count
					}
					for i := range f.Requests {
						if r := &f.Requests[i]; r.InFlight && !r.Beyond {
							open++
						}
					}
					for _, c := range f.Outgoing {
						calls += c.Count
					}
				}
			}
		}
		size := int64(len(data))
		_, requests, _, calls := count(2*size, 0)
		for what, by := range map[string][2]int64{"sections": {size / 3, 0}, "cuts": {2 * size, size / 3}} {
			n, inParts, open, callsInParts := count(by[0], by[1])
			if n == 1 {
				continue
			}
			several[what]++
			if d := inParts - requests; d < -2-requests/50-open || d > 2+requests/50 {
				t.Errorf("%s: %d requests in %d %s, %d in the whole", file, inParts, n, what, requests)
			}
			if d := callsInParts - calls; d < -1-calls/100 || d > 1+calls/100 {
				t.Errorf("%s: %d calls in %d %s, %d in the whole", file, callsInParts, n, what, calls)
			}
		}
	}
	if least := 40 / step; several["sections"] < least || several["cuts"] < least {
		t.Errorf("of the incidents have several parts only %v", several)
	}
}

// Tasks within one that began before a cut are no requests behind it.
func TestPartsHaveNoInnerTasksAsRequests(t *testing.T) {
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	ctx, outer := trace.NewTask(context.Background(), "outer")
	for range 5000 {
		_, task := trace.NewTask(ctx, "inner")
		runtime.Gosched()
		task.End()
	}
	outer.End()
	trace.Stop()
	size := int64(b.Len())
	split, err := gotrace.Split(&b, 2*size)
	if err != nil {
		t.Fatal(err)
	}
	section, err := split.Next()
	if err != nil {
		t.Fatal(err)
	}
	parts := timeline.PartsOf(section, timeline.Options{}, true, size/4)
	for n := 0; ; n++ {
		tl, err := parts.Next()
		if err == io.EOF && n >= 3 {
			break
		}
		if err != nil {
			t.Fatal(n, err)
		}
		for _, r := range Find(tl, Options{}).Requests {
			t.Fatalf("part %d has the request %+v", n, r)
		}
	}
}
