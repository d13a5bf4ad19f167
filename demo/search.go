package demo

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

var lockHeldAcrossWork = Scenario{
	Name:  "lock-held-across-work",
	Title: "a search index is rebuilt under the mutex that every search needs",
	Cause: "lock-held-across-work", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*search).reindex",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/search"}},
	Env:       []string{twoPs},
	New:       newSearch,
}

// search answers from an index that a goroutine rebuilds now and then.
type search struct {
	mu    sync.Mutex
	index map[[4]byte]int
}

func newSearch(ctx context.Context, _ map[string]string) (http.Handler, error) {
	s := &search{index: map[[4]byte]int{}}
	go s.keepFresh(ctx)
	return route("/search", s.find), nil
}

func (s *search) keepFresh(ctx context.Context) {
	for interval(ctx, 300*time.Millisecond) {
		s.reindex()
	}
}

// reindex is the fault: it could build a new index and lock only to swap it in.
func (s *search) reindex() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.index)
	var sum [sha256.Size]byte
	for i := range rounds(25 * time.Millisecond) {
		sum = sha256.Sum256(sum[:])
		if i%64 == 0 {
			s.index[[4]byte(sum[:4])] = i
		}
	}
}

func (s *search) find(w http.ResponseWriter, r *http.Request) {
	ls := lines(60)
	s.mu.Lock()
	for i := range ls {
		sum := sha256.Sum256([]byte(ls[i].Name))
		ls[i].Stock += s.index[[4]byte(sum[:4])]
	}
	s.mu.Unlock()
	reply(w, ls)
}
