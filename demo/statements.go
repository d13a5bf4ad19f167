package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"time"
)

var slowDisk = Scenario{
	Name:  "slow-disk",
	Title: "a statement is written entry by entry, with an fsync for each",
	Cause: "slow-disk", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*statements).write",
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/post"}},
	Env:       []string{twoPs},
	New:       newStatements,
}

// statements keeps a journal; each request adds an entry, and one in 25 closes a
// statement.
type statements struct{ entries int }

func newStatements(context.Context, map[string]string) (http.Handler, error) {
	f, err := scratchFile()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var trials []time.Duration
	for range 20 {
		begin := time.Now()
		if err := enter(f); err != nil {
			return nil, err
		}
		trials = append(trials, time.Since(begin))
	}
	slices.Sort(trials)
	each := trials[len(trials)/2]
	if each < 50*time.Microsecond {
		return nil, fmt.Errorf("%w: an fsync in %s takes %v only: no disk", ErrNotPossible, os.TempDir(), each)
	}
	return route("/post", (&statements{entries: min(max(2, int(20*time.Millisecond/each)), 1000)}).handle), nil
}

// enter appends one entry and waits until it is on the disk.
func enter(f *os.File) error {
	if _, err := f.Write(make([]byte, 512)); err != nil {
		return err
	}
	return f.Sync()
}

// write is the fault: one fsync would do for all entries.
func (s *statements) write() error {
	f, err := scratchFile()
	if err != nil {
		return err
	}
	defer f.Close()
	for range s.entries {
		if err := enter(f); err != nil {
			return err
		}
	}
	return nil
}

func (s *statements) handle(w http.ResponseWriter, r *http.Request) {
	if rand.IntN(25) == 0 {
		if err := s.write(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	reply(w, lines(20))
}
