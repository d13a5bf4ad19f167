// Command peer is a server for another program to call: it answers every
// request with a few bytes, after a time that is longer for a share of the requests.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to serve")
	reply := flag.Duration("reply", time.Millisecond, "time to answer")
	slow := flag.Duration("slow", 0, "time to answer for a share of the requests")
	share := flag.Float64("share", 0, "that share, 0 to 1, chosen at random")
	body := flag.String("body", "in stock: 12\n", "`text` to answer with")
	contentType := flag.String("type", "text/plain; charset=utf-8", "its content `type`")
	flag.Parse()
	srv := &http.Server{
		Addr:              *listen,
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d := *reply
			if rand.Float64() < *share {
				d = *slow
			}
			time.Sleep(d)
			w.Header().Set("Content-Type", *contentType)
			io.WriteString(w, *body)
		}),
	}
	fmt.Fprintln(os.Stderr, srv.ListenAndServe())
	os.Exit(1)
}
