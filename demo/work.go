package demo

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"time"
)

// digestsPerSecond is how many 32-byte SHA-256 digests one undisturbed CPU
// computes per second. It is written once, before anything is served.
var digestsPerSecond = 5e6

// calibrate measures digestsPerSecond. The best of several short trials is the
// one that was disturbed least.
func calibrate() {
	const trials, digests = 12, 10_000
	best := time.Duration(1 << 62)
	var sum [sha256.Size]byte
	for range trials {
		start := time.Now()
		for range digests {
			sum = sha256.Sum256(sum[:])
		}
		best = min(best, time.Since(start))
	}
	digestsPerSecond = digests / best.Seconds()
}

// rounds is the number of SHA-256 digests that take d of CPU time. Work is
// given as a number of rounds and not as a time, so that a descheduled or
// preempted goroutine still has all of it to do.
func rounds(d time.Duration) int {
	return max(1, int(d.Seconds()*digestsPerSecond))
}

// interval waits for a random time of the given mean, between half of it and one
// and a half. It reports false when ctx is done.
func interval(ctx context.Context, mean time.Duration) bool {
	select {
	case <-time.After(mean/2 + rand.N(mean)):
		return true
	case <-ctx.Done():
		return false
	}
}

// line is one position of a reply; the services answer with lists of them.
type line struct {
	SKU    string `json:"sku"`
	Name   string `json:"name"`
	Cents  int    `json:"cents"`
	Stock  int    `json:"stock"`
	Digest string `json:"digest"`
}

func newLine(id int) line {
	sum := sha256.Sum256(strconv.AppendInt(nil, int64(id), 10))
	return line{
		SKU: fmt.Sprintf("SKU-%06d", id), Name: fmt.Sprintf("article %d", id),
		Cents: 100 + id%9000, Stock: id % 50, Digest: fmt.Sprintf("%x", sum[:8]),
	}
}

// lines are n positions beginning at a random one: the ordinary work of a
// handler, 1 to 2 µs for each.
func lines(n int) []line {
	from := rand.IntN(100_000)
	ls := make([]line, n)
	for i := range ls {
		ls[i] = newLine(from + i)
	}
	return ls
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Write(body)
}

// newClient is a client for a peer that reuses its connections.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 512}}
}

// route is a handler for one path.
func route(path string, h http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path, h)
	return mux
}

// fetch reads the answer of a peer.
func fetch(c *http.Client, url string) (answer []line, err error) {
	resp, err := c.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

// scratchFile is a file that nobody else sees and that ends with this process.
func scratchFile() (*os.File, error) {
	f, err := os.CreateTemp("", "whylate-demo-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // not everywhere possible while it is open
	return f, nil
}
