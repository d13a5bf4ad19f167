package demo

import (
	"context"
	"net"
	"net/http"
	"time"
)

var slowDNS = Scenario{
	Name:  "slow-dns",
	Title: "the name server takes 60 ms for 4 % of the questions",
	Cause: "slow-dns", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*delivery).locate",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/deliver"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "names", DNS: true, Slow: 60 * time.Millisecond, SlowShare: 0.04}},
	New:       newDelivery,
}

// delivery asks for the address of a depot, by name, for each parcel.
type delivery struct{ resolver net.Resolver }

func newDelivery(_ context.Context, peers map[string]string) (http.Handler, error) {
	d := &delivery{resolverAt(peers["names"])}
	return route("/deliver", d.handle), nil
}

// resolverAt asks one name server, whatever the system is set to.
func resolverAt(address string) net.Resolver {
	return net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", address)
	}}
}

// locate is where it waits. The dot at the end keeps search domains away.
func (d *delivery) locate(ctx context.Context) ([]string, error) {
	return d.resolver.LookupHost(ctx, "depot.example.")
}

func (d *delivery) handle(w http.ResponseWriter, r *http.Request) {
	hosts, err := d.locate(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	ls := lines(20)
	ls[0].Name = hosts[0]
	reply(w, ls)
}
