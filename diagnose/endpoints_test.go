package diagnose

import (
	"path/filepath"
	"testing"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
)

// Two endpoints, one of which takes longer: what is said of each adds up to what is said of all.
func TestEndpointsAddUp(t *testing.T) {
	in, err := evidence.Open(filepath.Join("testdata", "mixture.whylate"), evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	d, err := Analyse(in, AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := d.Requests
	var all report.Endpoint
	for _, e := range r.Endpoints {
		all.Count, all.Slow, all.MaxNS = all.Count+e.Count, all.Slow+e.Slow, max(all.MaxNS, e.MaxNS)
		if e.Endpoint == "" || e.P50NS > e.P99NS || e.P99NS > e.MaxNS || e.Presumed > e.Count {
			t.Errorf("%+v", e)
		}
	}
	if len(r.Endpoints) != 2 || all.Count != r.Count+r.InFlight || all.Slow != r.Tail.Count || all.MaxNS != r.MaxNS {
		t.Fatalf("%+v of %+v", r.Endpoints, r)
	}
	slow, other := r.Endpoints[0], r.Endpoints[1]
	if slow.Endpoint != d.Mix.Endpoint || slow.Slow != r.Tail.Count || slow.P50NS < 100*other.P50NS || slow.P99NS != r.MaxNS {
		t.Errorf("%+v, %+v, of which the tail is %s", slow, other, d.Mix.Endpoint)
	}
	if p50 := r.P50NS; other.P50NS > p50 || slow.P50NS < p50 {
		t.Errorf("a median of %d ns, of endpoints with %d and %d", p50, other.P50NS, slow.P50NS)
	}
}
