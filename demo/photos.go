package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
)

var memoryLimitThrash = Scenario{
	Name:  "memory-limit-thrash",
	Title: "a memory limit just above what stays in use: the collector never rests",
	Cause: "memory-limit-thrash", Contrast: "tail", Verdicts: []string{"cause"},
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/photo"}},
	Env:       []string{twoPs, "GOGC=off", "GOMEMLIMIT=120MiB"},
	New:       newPhotos,
}

// photos keeps an index of photos and scales one for each request.
type photos struct{ index []*post }

func newPhotos(context.Context, map[string]string) (http.Handler, error) {
	p := &photos{index: newPosts(1_000_000)}
	return route("/photo", p.handle), nil
}

// scale makes a thumbnail of 64 KB.
func (p *photos) scale() []byte {
	thumb := make([]byte, 64<<10)
	for i := range 64 {
		thumb[i] = byte(p.index[rand.IntN(len(p.index))].likes[0])
	}
	return thumb
}

func (p *photos) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	for i := range ls {
		ls[i].Stock = int(p.scale()[i])
	}
	reply(w, ls)
}
