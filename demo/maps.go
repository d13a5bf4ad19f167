package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"
)

var pageFaults = Scenario{
	Name:  "page-faults",
	Title: "4 % of the requests read an archive that is mapped but no longer in memory",
	Cause: "page-faults", Contrast: "tail", Verdicts: []string{"cause"},
	// Without evidence of the host it is the request's own running time.
	Accept:    []string{"expensive-request"},
	Place:     symbol + "(*maps).tile",
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/tile"}},
	Env:       []string{twoPs},
	New:       newMaps,
}

// maps reads map tiles from a file in its address space.
type maps struct {
	archive mapping
	reads   int // pages of a large tile
}

func newMaps(context.Context, map[string]string) (http.Handler, error) {
	archive, err := newMapping(64 << 20)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPossible, err)
	}
	m := &maps{archive: archive, reads: 200}
	begin := time.Now()
	m.tile()
	each := time.Since(begin) / time.Duration(m.reads)
	if each < 5*time.Microsecond {
		return nil, fmt.Errorf("%w: reading a page of a file in %s takes %v only: no disk", ErrNotPossible, os.TempDir(), each)
	}
	m.reads = min(max(2, int(30*time.Millisecond/each)), 5000)
	return route("/tile", m.handle), nil
}

// tile is the fault: each page it looks at has to come from the disk first.
func (m *maps) tile() (sum int) {
	m.archive.forget()
	for range m.reads {
		sum += int(m.archive.bytes[rand.IntN(len(m.archive.bytes))])
	}
	return sum
}

func (m *maps) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	if rand.IntN(25) == 0 {
		ls[0].Stock = m.tile()
	}
	reply(w, ls)
}
