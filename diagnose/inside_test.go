package diagnose

import (
	"testing"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// A gateway calls a gRPC server through the loopback, in its own process or (the
// slow-dependency) in another one as well. What it waits for is told only if the
// connections within the process are known.
func TestAServerInTheSameProcessIsNoDependency(t *testing.T) {
	for _, c := range []struct{ cause, foundBy, without, withoutBy string }{
		{"slow-disk", "net/http", "slow-dependency", "net/http"},
		{"rwmutex-writer", "net/http", "slow-dependency", "net/http"},
		{"timer-wait", "net/http", "slow-dependency", "net/http"},
		{"slow-dependency", "net/http", "slow-dependency", "net/http"}, // with the calls that stay inside
	} {
		t.Run(c.cause, func(t *testing.T) {
			in, err := evidence.Open("../cause/"+c.cause+"/testdata/gateway.whylate", evidence.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			var shares []float64
			for _, o := range []struct {
				guards          blame.Guards
				finding, byRole string
			}{
				{blame.Guards{}, c.cause, c.foundBy},
				{blame.Guards{NoStitch: true}, c.without, c.withoutBy},
			} {
				d, err := Analyse(in, AnalyseOptions{Guards: o.guards, Check: true})
				if err != nil {
					t.Fatal(err)
				}
				if len(d.Findings) == 0 || d.Findings[0].Cause != o.finding || d.Requests.FoundBy != o.byRole || d.Check.WorstNS != 0 {
					t.Fatalf("%+v: by %s, want %s by %s, %+v: %s", o.guards, d.Requests.FoundBy, o.finding, o.byRole, d.Check, d.Sentence)
				}
				shares = append(shares, d.Findings[0].Share)
			}
			if c.without == c.cause && shares[1] < shares[0]+0.03 {
				t.Errorf("share %.3f, and %.3f with the calls that stay inside", shares[0], shares[1])
			}
		})
	}
}

// readTimeline returns the timeline of all of an incident's trace.
func readTimeline(in *evidence.Incident, o AnalyseOptions) (*timeline.Timeline, error) {
	r, err := in.Member(evidence.MemberTrace)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	tr, err := gotrace.NewReader(r)
	if err != nil {
		return nil, err
	}
	return timeline.Read(tr, o.Timeline)
}
