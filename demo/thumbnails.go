package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"time"
)

var expensiveRequest = Scenario{
	Name:  "expensive-request",
	Title: "a few pictures are large and cost 30 ms of CPU in their own request",
	Cause: "expensive-request", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*thumbnails).scale",
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/thumbnail"}},
	Env:       []string{twoPs},
	New:       newThumbnails,
}

// thumbnails scales pictures, at a cost that follows their size.
type thumbnails struct{}

func newThumbnails(context.Context, map[string]string) (http.Handler, error) {
	t := &thumbnails{}
	return route("/thumbnail", t.handle), nil
}

// scale is the fault: nothing limits the size it accepts.
func (t *thumbnails) scale(cost time.Duration) (sum [sha256.Size]byte) {
	for range rounds(cost) {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

func (t *thumbnails) handle(w http.ResponseWriter, r *http.Request) {
	cost := 200 * time.Microsecond
	if rand.Float64() < 0.03 {
		cost = 30 * time.Millisecond
	}
	sum := t.scale(cost)
	ls := lines(10)
	ls[0].Stock = int(sum[0])
	reply(w, ls)
}
