package demo

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

var cacheStampede = Scenario{
	Name:  "cache-stampede",
	Title: "a timetable that everybody asks for is fetched anew every 400 ms, and all wait for the one who does",
	Cause: "cache-stampede", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*timetables).fetch",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/departures"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "operator", Reply: 40 * time.Millisecond}},
	New: func(_ context.Context, peers map[string]string) (http.Handler, error) {
		t := &timetables{client: newClient(), operator: peers["operator"], life: 400 * time.Millisecond}
		return route("/departures", t.handle), nil
	},
}

// The same program with a timetable that nobody keeps: requests share an answer only
// with those who happen to ask at the same time, and the operator sometimes is slow.
var timetablesOperator = Scenario{
	Name:  "timetables-operator",
	Title: "the program of cache-stampede asks each time, and the operator takes 60 ms for 4 % of the questions",
	Cause: "slow-dependency", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*timetables).fetch",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/departures"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "operator", Reply: 2 * time.Millisecond, Slow: 60 * time.Millisecond, SlowShare: 0.04}},
	New: func(_ context.Context, peers map[string]string) (http.Handler, error) {
		t := &timetables{client: newClient(), operator: peers["operator"]}
		return route("/departures", t.handle), nil
	},
}

// timetables keeps the departures of the next hours for some time.
type timetables struct {
	client   *http.Client
	operator string
	life     time.Duration

	mu  sync.Mutex
	now *departures
}

// departures are complete when ready is closed.
type departures struct {
	ready chan struct{}
	until time.Time // zero before they are complete
	lines []line
}

// get is those that are kept, or that somebody fetches already.
func (t *timetables) get() []line {
	t.mu.Lock()
	d := t.now
	if d != nil && (d.until.IsZero() || time.Now().Before(d.until)) {
		t.mu.Unlock()
		<-d.ready
		return d.lines
	}
	d = &departures{ready: make(chan struct{})}
	t.now = d
	t.mu.Unlock()
	d.lines = t.fetch()
	t.mu.Lock()
	d.until = time.Now().Add(t.life)
	t.mu.Unlock()
	close(d.ready)
	return d.lines
}

// fetch is the fault of cache-stampede: the departures of before would do meanwhile.
func (t *timetables) fetch() []line {
	resp, err := t.client.Get(t.operator + "/departures")
	if err != nil {
		return nil // there are no departures without an answer
	}
	defer resp.Body.Close()
	var ls []line
	if json.NewDecoder(resp.Body).Decode(&ls) != nil {
		return nil
	}
	return ls
}

func (t *timetables) handle(w http.ResponseWriter, r *http.Request) {
	reply(w, append(lines(40), t.get()...))
}

var tripsReview = Scenario{
	Name:  "trips-review",
	Title: "a summary is computed anew for 30 ms every 350 ms, in the first request that needs it",
	Cause: "cache-stampede", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*review).make",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/review"}},
	Env:       []string{twoPs},
	New: func(context.Context, map[string]string) (http.Handler, error) {
		return route("/review", new(trips).handle), nil
	},
}

// trips answers with a review of all trips.
type trips struct {
	mu   sync.Mutex
	last *review
}

// review is made by who finds none, once for all.
type review struct {
	made  sync.WaitGroup
	until time.Time // zero before it is made
	sum   [sha256.Size]byte
}

// make is the fault: nobody needs a review that is not a moment old.
func (v *review) make() {
	for range rounds(30 * time.Millisecond) {
		v.sum = sha256.Sum256(v.sum[:])
	}
}

func (t *trips) review() *review {
	t.mu.Lock()
	v := t.last
	if v != nil && (v.until.IsZero() || time.Now().Before(v.until)) {
		t.mu.Unlock()
		v.made.Wait()
		return v
	}
	v = &review{}
	v.made.Add(1)
	t.last = v
	t.mu.Unlock()
	v.make()
	t.mu.Lock()
	v.until = time.Now().Add(350 * time.Millisecond)
	t.mu.Unlock()
	v.made.Done()
	return v
}

func (t *trips) handle(w http.ResponseWriter, r *http.Request) {
	v := t.review()
	ls := lines(40)
	ls[0].Stock = int(v.sum[0])
	reply(w, ls)
}
