package diagnose

import (
	"strings"
	"testing"

	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/request"
)

func TestOnlyHealthChecksAreSaid(t *testing.T) {
	for name, c := range map[string]struct {
		endpoints []string
		requests  []int // endpoint of each
		want      string
	}{
		"one":                         {[]string{"main.health"}, []int{0, 0, 0}, "main.health"},
		"a literal in a method":       {[]string{"api.(*Server).HandleHealthz.func1"}, []int{0}, "HandleHealthz"},
		"a route":                     {[]string{"GET /healthz"}, []int{0}, "GET /healthz"},
		"a route below another one":   {[]string{"/api/v1/ping/"}, []int{0}, "/api/v1/ping/"},
		"another route":               {[]string{"GET /health/patients"}, []int{0}, ""},
		"a literal without a name":    {[]string{"main.main.func1"}, []int{0}, ""},
		"two kinds":                   {[]string{"main.readyz", "main.livez"}, []int{0, 1, 1}, "main.livez"},
		"another one among many":      {[]string{"main.health", "main.buy"}, []int{0, 0, 0, 0, 1}, ""},
		"some whose name is unknown":  {[]string{"", "main.ping"}, []int{0, 1, 1}, "main.ping"},
		"most are of unknown names":   {[]string{"", "main.ping"}, []int{0, 0, 1}, ""},
		"none":                        {nil, nil, ""},
		"a name that only holds one":  {[]string{"main.shopping", "main.already"}, []int{0, 1}, ""},
		"one out of range is unknown": {[]string{"main.health"}, []int{-1, 7}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &request.Found{Endpoints: c.endpoints}
			for _, e := range c.requests {
				f.Requests = append(f.Requests, request.Request{Endpoint: e})
			}
			d := &report.Diagnosis{}
			onlyHealthChecks(d, f)
			if d.Requests.HealthChecks != (c.want != "") || (len(d.Notes) == 1) != (c.want != "") || !strings.Contains(strings.Join(d.Notes, ""), c.want) {
				t.Errorf("%v, %q", d.Requests.HealthChecks, d.Notes)
			}
		})
	}
}
