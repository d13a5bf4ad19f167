package request

import (
	"os"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Servers and clients of libraries that this module does not depend on, as
// recorded by testdata/generate. Three clients sent 50 requests each: messages
// on three gRPC streams, then calls beside three streams that the server feeds.
func TestRecordedServersOfPublishedLibraries(t *testing.T) {
	type role struct {
		name, endpoint string
		count          int
		sumMS          float64 // as measured by the clients
	}
	for _, c := range []struct {
		file     string
		roles    []role
		outgoing string
		excluded []Class
	}{
		{"grpc", []role{{"grpc-go unary", "main.unaryHandler", 150, 461.6}, {"grpc-go streaming", "main.bidi", 150, 428.5}}, "", []Class{{classStream, 3}}},
		{"fasthttp", []role{{"fasthttp", "main.main.func1", 150, 360.7}}, "", nil},
		{"go-redis", []role{{"net/http", "main.main.func3", 150, 385.1}}, "go-redis", nil},
	} {
		t.Run(c.file, func(t *testing.T) {
			f := findIn(t, "testdata/"+c.file+".trace")
			describe(t, f)
			check(t, f)
			if len(f.Roles) != len(c.roles) {
				t.Fatalf("roles %+v", f.Roles)
			}
			for _, want := range c.roles {
				n, ms := 0, 0.0
				for _, r := range f.Requests {
					if f.Roles[r.Role].Name == want.name && f.Endpoints[r.Endpoint] == want.endpoint && !r.InFlight {
						n++
						ms += float64(r.Duration()) / 1e6
					}
				}
				t.Logf("%s: %d, %.1f ms of %.1f", want.name, n, ms, want.sumMS)
				if n < want.count*97/100 || n > want.count {
					t.Errorf("%d of %s, sent %d", n, want.name, want.count)
				}
				if ms < 0.8*want.sumMS || ms > want.sumMS {
					t.Errorf("%s: %.1f ms in total, the clients measured %.1f", want.name, ms, want.sumMS)
				}
			}
			if c.outgoing != "" && (len(f.Outgoing) != 1 || f.Outgoing[0].Name != c.outgoing || f.Outgoing[0].Count < 150) {
				t.Errorf("outgoing %v", f.Outgoing)
			}
			for _, x := range c.excluded {
				if n := excluded(f, x.Name); n != x.Count {
					t.Errorf("%d excluded as %s, want %d", n, x.Name, x.Count)
				}
			}
		})
	}
}

func findIn(t *testing.T, file string) *Found {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := gotrace.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := timeline.Read(r, timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return Find(tl, Options{})
}
