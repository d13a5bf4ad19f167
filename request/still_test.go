package request

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// A service whose requests stand still for all of a recording does nothing that a trace could hold.
func TestRequestsOfAServiceThatStandsStillHang(t *testing.T) {
	const stuck, subscribed = 3, 2
	var lock sync.Mutex
	lock.Lock()
	done := make(chan struct{})
	var inside sync.WaitGroup
	inside.Add(stuck + subscribed)
	mux := http.NewServeMux()
	mux.HandleFunc("/cart", func(http.ResponseWriter, *http.Request) {
		inside.Done()
		lock.Lock()
		defer lock.Unlock()
	})
	mux.HandleFunc("/news", func(http.ResponseWriter, *http.Request) {
		inside.Done()
		<-done
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	var clients sync.WaitGroup
	for i := range stuck + subscribed {
		clients.Go(func() {
			path := "/cart"
			if i >= stuck {
				path = "/news"
			}
			if r, err := http.Get(s.URL + path); err == nil {
				r.Body.Close()
			}
		})
	}
	inside.Wait()
	time.Sleep(20 * time.Millisecond) // they stand where they wait
	f := record(t, Options{}, func() { time.Sleep(50 * time.Millisecond) })
	lock.Unlock()
	close(done)
	clients.Wait()

	hang := 0
	for _, r := range f.Requests {
		if r.InFlight && r.Start() == f.t.Start && r.End() == f.t.End && f.Roles[r.Role].Name == "net/http" {
			hang++
		}
	}
	stand := 0
	for _, s := range f.Still {
		stand += s.N
	}
	if hang != stuck || stand != subscribed {
		t.Errorf("%d of %d hang, and %d of %d stand still: %+v, %+v", hang, stuck, stand, subscribed, f.Requests, f.Still)
	}
}
