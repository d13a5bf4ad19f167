package request

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/whylate/whylate/gotrace"
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
	several := 0
	for i := 0; i < len(files); i += 4 { // all of them would take a minute under the race detector
		file := files[i]
		members, err := unpack.Zip(file)
		if err != nil {
			t.Fatal(err)
		}
		data := members["trace"]
		count := func(most int64) (n, requests, open, calls int) {
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
				tl, err := timeline.PartsOf(section, timeline.Options{}, true).Next()
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
		_, requests, _, calls := count(int64(2 * len(data)))
		n, inParts, open, callsInParts := count(int64(len(data) / 3))
		if n == 1 {
			continue
		}
		several++
		if d := inParts - requests; d < -2-requests/50-open || d > 2+requests/50 {
			t.Errorf("%s: %d requests in %d parts, %d in the whole", file, inParts, n, requests)
		}
		if d := callsInParts - calls; d < -1-calls/100 || d > 1+calls/100 {
			t.Errorf("%s: %d calls in %d parts, %d in the whole", file, callsInParts, n, calls)
		}
	}
	if several < 10 {
		t.Errorf("only %d of the incidents have several parts", several)
	}
}
