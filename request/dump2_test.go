package request

import (
	"os"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

func TestDumpAll(t *testing.T) {
	for _, p := range []string{"unary", "bidi", "watch", "workers", "fasthttp", "redis"} {
		fl, err := os.Open("/tmp/rq/ext_" + p + ".trace")
		if err != nil {
			t.Skip()
		}
		r, err := gotrace.NewReader(fl)
		if err != nil {
			t.Fatal(err)
		}
		tl, err := timeline.Read(r, timeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := Find(tl, Options{})
		var ns int64
		for _, r := range f.Requests {
			if !r.InFlight {
				ns += int64(r.Duration())
			}
		}
		t.Logf("%s: %d, sum %.1f ms", p, len(f.Requests), float64(ns)/1e6)
		describe(t, f)
		check(t, f)
	}
}
