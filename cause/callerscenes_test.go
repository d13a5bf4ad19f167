package cause_test

import (
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
)

// TestASlowCallIsWhereTheProgramMakesIt plays calls of a peer through functions of the program
// that pass on what others call.
func TestASlowCallIsWhereTheProgramMakesIt(t *testing.T) {
	wait := []string{"runtime.selectgo", "net/http.(*persistConn).roundTrip", "net/http.(*Transport).roundTrip"}
	through := func(functions ...string) []string { return append(wait[:len(wait):len(wait)], functions...) }
	const send, serve = "net/http.send", "main.serve"
	for _, c := range []struct {
		name  string
		usual []string // what all requests call, nil: nothing
		slow  []string
		place string
	}{
		{"one that calls itself", nil, through(send, "main.price", serve), "main.price"},
		{"a transport of its own passes it on", nil, through("main.(*counting).RoundTrip", send, "main.price", serve), "main.price"},
		{"a transport of a proxy, which nothing of its own calls", nil, through("main.(*counting).RoundTrip", "net/http/httputil.(*ReverseProxy).ServeHTTP"), "main.(*counting).RoundTrip"},
		{"all call by a package of its own", through(send, "client.get", "main.stock", serve), through(send, "client.get", "main.price", serve), "main.price"},
		{"all call by it from the same function", through(send, "client.get", "main.price", serve), through(send, "client.get", "main.price", serve), "client.get"},
		{"all call by a function of the same package", through(send, "main.get", "main.stock", serve), through(send, "main.get", "main.price", serve), "main.get"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: 2, in: func(p *play, i int) {
				if c.usual != nil {
					netwaits(ms, c.usual...)(p)
				}
				if i%10 == 9 {
					netwaits(15*ms, c.slow...)(p)
				}
			}})
			v := cause.Judge(a, cause.Settings{})
			check(t, v, "slow-dependency", nil)
			if len(v.Findings) == 0 {
				return
			}
			if f := v.Findings[0]; f.Where == nil || f.Where.Function != c.place || !strings.Contains(f.Summary, c.place) {
				t.Errorf("it is in %+v: %s", f.Where, f.Summary)
			}
		})
	}
}
