package diagnose

import (
	"math"
	"strings"
	"testing"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/report"
)

// What the hypervisor took is said where it is enough to make a tail.
func TestStolenTimeIsNoted(t *testing.T) {
	rec := func(stolen int64) *host.Recording {
		return &host.Recording{Samples: []host.Sample{
			{MonoNS: 0},
			{MonoNS: 5e9, Machine: host.Machine{CPUTimes: host.CPUTimes{BusyNS: 2e9, IdleNS: 8e9 - stolen, StealNS: stolen}}},
		}}
	}
	for _, c := range []struct {
		rec  *host.Recording
		part float64
		want string
	}{
		{nil, 0, ""}, {&host.Recording{}, 0, ""}, {rec(0), 0, ""}, {rec(1e8), 0.01, ""},
		{rec(3e8), 0.03, "The hypervisor took 3.0 % of the machine's CPUs "},
	} {
		var d report.Diagnosis
		stolen(&d, c.rec)
		if math.Abs(d.StolenShare-c.part) > 1e-9 {
			t.Errorf("a share of %g, want %g", d.StolenShare, c.part)
		}
		switch {
		case c.want == "" && len(d.Notes) > 0:
			t.Errorf("notes %q", d.Notes)
		case c.want != "" && (len(d.Notes) != 1 || !strings.HasPrefix(d.Notes[0], c.want)):
			t.Errorf("notes %q, want %q", d.Notes, c.want)
		}
	}
}
