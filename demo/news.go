package demo

import (
	"context"
	"net/http"
)

var controlGC = Scenario{
	Name:     "gc-ok",
	Title:    "control: many collections of a small heap, none of which anybody feels",
	Verdicts: []string{"healthy"}, Contrast: "tail",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/news"}},
	Env:       []string{twoPs},
	New:       newNews,
}

// news builds each page from scratch.
type news struct{ posts []*post }

func newNews(context.Context, map[string]string) (http.Handler, error) {
	return route("/news", (&news{posts: newPosts(5_000)}).handle), nil
}

func (n *news) handle(w http.ResponseWriter, r *http.Request) {
	images := make([][]byte, 8)
	for i := range images {
		images[i] = make([]byte, 8<<10)
	}
	ls := lines(40)
	ls[0].Stock = len(images)
	reply(w, ls)
}
