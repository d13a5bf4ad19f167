package diagnose

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/request"
)

// healthCheck matches names of functions that answer an orchestrator or a load balancer.
var healthCheck = regexp.MustCompile(`(?i)^(\w*(health|liveness|readiness|heartbeat)\w*|(handle|serve|get)?_?(livez|readyz|alive|ready|ping))$`)

// isHealthCheck tells it by the name of a function, or by the last word of a route where tasks or
// regions are called so. The route of a literal that main hands to a mux is in no trace.
func isHealthCheck(endpoint string) bool {
	route := endpoint[strings.LastIndexByte(endpoint, ' ')+1:] // GET /healthz
	if strings.HasPrefix(route, "/") {
		return healthCheck.MatchString(path.Base(route))
	}
	return healthCheck.MatchString(function(endpoint))
}

// onlyHealthChecks says it if every request whose function is known is a health check by that
// function's name, as are most requests: what is said of them says nothing of others. The name
// adds a note, it decides nothing.
func onlyHealthChecks(d *report.Diagnosis, f *request.Found) {
	counts := make([]int, len(f.Endpoints))
	known, largest := 0, 0
	for i := range f.Requests {
		e := f.Requests[i].Endpoint
		if e < 0 || e >= len(counts) || f.Endpoints[e] == "" {
			continue
		}
		if !isHealthCheck(f.Endpoints[e]) {
			return
		}
		known++
		if counts[e]++; counts[e] > counts[largest] {
			largest = e
		}
	}
	if 2*known <= len(f.Requests) {
		return
	}
	d.Requests.HealthChecks = true
	d.Notes = append([]string{fmt.Sprintf("The requests are health checks, by the name of %s: this says nothing of others, record while they come.", f.Endpoints[largest])}, d.Notes...)
}

// function is the last part of a function's name, without what stands for literals in it.
func function(name string) string {
	parts := strings.Split(name, ".")
	for i := len(parts) - 1; i > 0; i-- {
		if p := parts[i]; !strings.HasPrefix(p, "func") && strings.Trim(p, "0123456789") != "" {
			return p
		}
	}
	return name
}
