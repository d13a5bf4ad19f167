package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
)

var gcAssist = Scenario{
	Name:  "gc-assist",
	Title: "requests that allocate much pay for collecting a large heap",
	Cause: "gc-assist", Contrast: "tail", Accept: []string{"gc-workers"}, Verdicts: []string{"cause"},
	Place:     symbol + "(*feed).page",
	Rate:      80,
	Endpoints: []Endpoint{{Path: "/feed"}},
	Env:       []string{twoPs, "GOGC=20"},
	New:       newFeed,
}

// feed mixes posts of a large tree that stays in memory into a page.
type feed struct{ posts []*post }

// post is small and full of pointers, so that marking a heap of them is work.
type post struct {
	next, reply *post
	author      *string
	likes       [3]int
}

func newFeed(context.Context, map[string]string) (http.Handler, error) {
	return route("/feed", (&feed{posts: newPosts(700_000)}).handle), nil
}

func newPosts(n int) []*post {
	posts := make([]*post, n)
	for i := range posts {
		name := "author"
		posts[i] = &post{author: &name}
		if i > 0 {
			posts[i].next = posts[rand.IntN(i)]
			posts[i].reply = posts[rand.IntN(i)]
		}
	}
	return posts
}

// page is the fault: it makes room for all posts that may match to show twenty.
func (f *feed) page() []*post {
	matches := make([]*post, 250_000)
	for i := range 2_000 {
		matches[i] = f.posts[rand.IntN(len(f.posts))]
	}
	return matches
}

func (f *feed) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	matches := f.page()
	for i := range ls {
		ls[i].Stock = matches[i].likes[0]
	}
	reply(w, ls)
}
