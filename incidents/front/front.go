// Package front is what services have in common that make one call for each HTTP
// request, so that clients that speak HTTP measure servers that do not.
package front

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Timeout bounds a call.
const Timeout = 10 * time.Second

// Serve answers every request on an address once call, which gets its path without
// the first slash, has returned: with 502 if that is an error. It returns when it
// cannot serve.
func Serve(listen string, call func(path string) error) error {
	srv := &http.Server{
		Addr:              listen,
		ReadHeaderTimeout: Timeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := call(r.URL.Path[1:]); err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
			}
		}),
	}
	return srv.ListenAndServe()
}

// Conns are the idle connections to a server. The zero value without a Dial is not
// usable; it is safe for concurrent use.
type Conns[C net.Conn] struct {
	Dial func() (C, error)

	mu   sync.Mutex
	idle []C
}

// Do makes a call on the connection that was idle last, or on a new one, and keeps it
// if there was no error. An idle connection that the server had closed is replaced,
// once.
func (p *Conns[C]) Do(call func(C) error) error {
	c, fresh, err := p.get()
	for err == nil {
		c.SetDeadline(time.Now().Add(Timeout))
		if err = call(c); err == nil {
			p.mu.Lock()
			p.idle = append(p.idle, c)
			p.mu.Unlock()
			return nil
		}
		c.Close()
		if fresh || errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, io.EOF) {
			break
		}
		c, err = p.Dial()
		fresh = true
	}
	return err
}

func (p *Conns[C]) get() (c C, fresh bool, err error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c, p.idle = p.idle[n-1], p.idle[:n-1]
		p.mu.Unlock()
		return c, false, nil
	}
	p.mu.Unlock()
	c, err = p.Dial()
	return c, true, err
}
