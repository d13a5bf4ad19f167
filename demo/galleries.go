package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

var slowClient = Scenario{
	Name:  "slow-client",
	Title: "3 % of the clients pause for 60 ms in the middle of what they upload",
	Cause: "slow-client", Contrast: "tail", Verdicts: []string{"cause"},
	Place: symbol + "(*galleries).receive",
	Rate:  150,
	Endpoints: []Endpoint{
		{Path: "/photos", Body: photoSize, Weight: 97},
		{Path: "/photos", Body: photoSize, Weight: 3, Pause: 60 * time.Millisecond},
	},
	Env:   []string{twoPs},
	Peers: []Peer{{Name: "appraiser", Reply: time.Millisecond}},
	New:   newGalleries,
}

// galleriesVisit is the same service, of which clients take a large answer.
var galleriesVisit = Scenario{
	Name:  "galleries-visit",
	Title: "the program of slow-client, of whose answers 4 % are taken 80 ms late",
	Cause: "slow-client", Contrast: "tail", Verdicts: []string{"cause"},
	Place: symbol + "(*galleries).show",
	Rate:  50,
	Endpoints: []Endpoint{
		{Path: "/poster", Weight: 96},
		{Path: "/poster", Weight: 4, Pause: 80 * time.Millisecond},
	},
	Env:   slowClient.Env,
	Peers: slowClient.Peers,
	New:   newGalleries,
}

// The look-alike: clients send at once, and a peer takes its time.
var galleriesAppraiser = Scenario{
	Name:  "galleries-appraiser",
	Title: "the program of slow-client with quick clients, and a peer that takes 60 ms for 3 % of the photos",
	Cause: "slow-dependency", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*galleries).appraise",
	Rate:      slowClient.Rate,
	Endpoints: slowClient.Endpoints[:1],
	Env:       slowClient.Env,
	Peers:     []Peer{{Name: "appraiser", Reply: time.Millisecond, Slow: 60 * time.Millisecond, SlowShare: 0.03}},
	New:       newGalleries,
}

var controlGalleries = Scenario{
	Name:     "uploads-ok",
	Title:    "control: the program of slow-client with quick clients",
	Verdicts: []string{"healthy"}, Contrast: "tail",
	Rate:      slowClient.Rate,
	Endpoints: slowClient.Endpoints[:1],
	Env:       slowClient.Env,
	Peers:     slowClient.Peers,
	New:       newGalleries,
}

// Sizes of a photo and of a poster, in bytes. A socket takes some 2.5 MB at once on
// the loopback.
const photoSize, posterSize = 64 << 10, 6 << 20

// galleries take photos, have each appraised, and show a poster.
type galleries struct {
	client    *http.Client
	appraiser string
	poster    []byte
}

func newGalleries(_ context.Context, peers map[string]string) (http.Handler, error) {
	g := &galleries{newClient(), peers["appraiser"], bytes.Repeat([]byte{'p'}, posterSize)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /photos", g.add)
	mux.HandleFunc("GET /poster", g.show)
	return mux, nil
}

// receive reads the photo, as it comes.
func (g *galleries) receive(r *http.Request) (sum [sha256.Size]byte, err error) {
	photo, err := io.ReadAll(r.Body)
	return sha256.Sum256(photo), err
}

// appraise asks a peer.
func (g *galleries) appraise() (answer []line, err error) {
	resp, err := g.client.Get(g.appraiser + "/photo")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

func (g *galleries) add(w http.ResponseWriter, r *http.Request) {
	sum, err := g.receive(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ls, err := g.appraise()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(ls, newLine(int(sum[0]))))
}

func (g *galleries) show(w http.ResponseWriter, r *http.Request) { w.Write(g.poster) }
