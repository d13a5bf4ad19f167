package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"time"
)

var finalizerBacklog = Scenario{
	Name:  "finalizer-backlog",
	Title: "a fifth of the requests borrow one of 8 dictionaries, and nobody brings one back: the garbage collector does",
	Cause: "finalizer-backlog", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*translations).borrow",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/translation"}},
	Env:       []string{twoPs, "GOGC=10"},
	New: func(ctx context.Context, _ map[string]string) (http.Handler, error) {
		t := newTranslations(8)
		go preview(ctx)
		t.lend = func(l *loan) func() {
			runtime.AddCleanup(l, t.shelve, l.of)
			return func() {}
		}
		return route("/translation", t.handle), nil
	},
}

// The same program, in which each dictionary that comes back is entered in a register.
var translationsRegistrar = Scenario{
	Name:  "translations-registrar",
	Title: "the program of finalizer-backlog, with more dictionaries; a finalizer asks a registrar for 18 ms about each",
	Cause: "finalizer-backlog", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*translations).enter",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/translation"}},
	Env:       []string{twoPs, "GOGC=10"},
	Peers:     []Peer{{Name: "registrar", Reply: 18 * time.Millisecond}},
	New: func(ctx context.Context, peers map[string]string) (http.Handler, error) {
		t := newTranslations(15)
		go preview(ctx)
		t.client, t.registrar = newClient(), peers["registrar"]
		t.lend = func(l *loan) func() {
			runtime.SetFinalizer(l, t.enter)
			return func() {}
		}
		return route("/translation", t.handle), nil
	},
}

// The same program without the fault: a dictionary is brought back at once.
var translationsReturned = Scenario{
	Name:     "translations-returned",
	Title:    "the program of finalizer-backlog brings each dictionary back when it has used it",
	Contrast: "tail", Verdicts: []string{"healthy"},
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/translation"}},
	Env:       []string{twoPs, "GOGC=10"},
	New: func(context.Context, map[string]string) (http.Handler, error) {
		t := newTranslations(8)
		t.lend = func(l *loan) func() { return func() { t.shelve(l.of) } }
		return route("/translation", t.handle), nil
	},
}

// The same program, with few dictionaries and readers who take their time.
var translationsThesis = Scenario{
	Name:  "translations-thesis",
	Title: "the program of finalizer-backlog brings each dictionary back, but there are 2 and each is used for 34 ms",
	Cause: "pool-exhausted", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*translations).borrow",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/translation"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "author", Reply: 34 * time.Millisecond}},
	New: func(_ context.Context, peers map[string]string) (http.Handler, error) {
		t := newTranslations(2)
		t.client, t.author = newClient(), peers["author"]
		t.lend = func(l *loan) func() { return func() { t.shelve(l.of) } }
		return route("/translation", t.handle), nil
	},
}

// The same program, with somebody who brings back what was laid aside.
var translationsLibrarian = Scenario{
	Name:  "translations-librarian",
	Title: "the program of finalizer-backlog lays each dictionary aside, and somebody shelves them every 400 ms",
	Cause: "single-worker", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "interval",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/translation"}},
	Env:       []string{twoPs},
	New: func(ctx context.Context, _ map[string]string) (http.Handler, error) {
		t := newTranslations(20)
		aside := make(chan *dictionary, cap(t.shelf))
		t.lend = func(l *loan) func() { return func() { aside <- l.of } }
		go t.round(ctx, aside)
		return route("/translation", t.handle), nil
	},
}

// translations are made with dictionaries, of which there are only some.
type translations struct {
	shelf     chan *dictionary
	lend      func(*loan) (bringBack func())
	client    *http.Client
	registrar string
	author    string // who reads along, if anybody
}

type dictionary struct{ words map[string]string }

// loan is a dictionary that somebody uses.
type loan struct{ of *dictionary }

func newTranslations(dictionaries int) *translations {
	words := map[string]string{}
	for _, l := range lines(100) {
		words[l.Name] = strings.ToUpper(l.Name)
	}
	t := &translations{shelf: make(chan *dictionary, dictionaries)}
	for range dictionaries {
		t.shelf <- &dictionary{words}
	}
	return t
}

// borrow takes a dictionary from the shelf as soon as there is one.
func (t *translations) borrow() (l *loan, bringBack func()) {
	l = &loan{<-t.shelf}
	return l, t.lend(l)
}

func (t *translations) shelve(d *dictionary) { t.shelf <- d }

// enter tells the registrar before the dictionary is on the shelf again.
func (t *translations) enter(l *loan) {
	fetch(t.client, t.registrar+"/entry") // a lost entry is found at the next stock-taking
	t.shelve(l.of)
}

// preview prepares a page now and then, a small part of what requests allocate. So the
// garbage collector comes even when there are none, and the last borrower gets a
// dictionary too.
func preview(ctx context.Context) {
	for interval(ctx, 20*time.Millisecond) {
		runtime.KeepAlive(lines(100))
	}
}

// round shelves now and then what was laid aside.
func (t *translations) round(ctx context.Context, aside chan *dictionary) {
	for interval(ctx, 400*time.Millisecond) {
		for range len(aside) {
			t.shelve(<-aside)
		}
	}
}

// handle translates one of five texts; the others are translated already.
func (t *translations) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(50)
	if rand.Float64() < 0.2 {
		l, bringBack := t.borrow()
		if t.author != "" {
			if _, err := fetch(t.client, t.author+"/text"); err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
		}
		for i := range ls {
			ls[i].Name = l.of.words[ls[i].Name]
		}
		bringBack()
	}
	reply(w, ls)
}
