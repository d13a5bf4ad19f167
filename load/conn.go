package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// encode renders a request once; the same bytes are written for every request.
func encode(method string, u *url.URL, header http.Header, body []byte) ([]byte, error) {
	h := http.Header{}
	maps.Copy(h, header.Clone())
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "whylate-load")
	}
	h.Del("Host")
	if len(body) > 0 || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	host := u.Host
	if v := header.Get("Host"); v != "" {
		host = v
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, u.RequestURI(), host)
	if err := h.Write(&b); err != nil {
		return nil, err
	}
	b.WriteString("\r\n")
	b.Write(body)
	// Parsing it back rejects methods and headers that are not HTTP.
	if _, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b.Bytes()))); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// conn is one keep-alive connection, used by one goroutine at a time.
type conn struct {
	net.Conn
	br   *bufio.Reader
	used bool // has carried a request before
}

// peer is whom a connection is for, by clients that take their time or others.
type peer struct {
	address string
	pauses  bool
}

func (ep *endpoint) peer() peer { return peer{ep.address, ep.pause > 0} }

// pool keeps the idle connections of every address, most recently used first,
// and knows every open connection so that close leaves none behind.
type pool struct {
	mu     sync.Mutex
	idle   map[peer][]*conn
	open   map[*conn]struct{}
	closed bool
}

func newPool() *pool {
	return &pool{idle: map[peer][]*conn{}, open: map[*conn]struct{}{}}
}

func (p *pool) get(ctx context.Context, ep *endpoint, fresh bool) (*conn, error) {
	p.mu.Lock()
	if idle := p.idle[ep.peer()]; len(idle) > 0 && !fresh {
		c := idle[len(idle)-1]
		p.idle[ep.peer()] = idle[:len(idle)-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := dial(ctx, ep)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return nil, net.ErrClosed
	}
	p.open[c] = struct{}{}
	return c, nil
}

func (p *pool) put(ep *endpoint, c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.used = true
	p.idle[ep.peer()] = append(p.idle[ep.peer()], c)
}

func (p *pool) drop(c *conn) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	c.Close()
}

// close closes every connection, also those in use: whoever reads from one
// gets an error.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.open {
		c.Close()
	}
}

// tlsConn tells a TLS connection that close need not wait for the peer.
type tlsConn struct {
	*tls.Conn
	raw net.Conn
}

func (c tlsConn) Close() error { return c.raw.Close() }

// pausingBuffer is what the kernel holds of an answer that is not read yet, in bytes.
const pausingBuffer = 64 << 10

func dial(ctx context.Context, ep *endpoint) (*conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", ep.address)
	if err != nil {
		return nil, err
	}
	if t, ok := raw.(*net.TCPConn); ok && ep.pause > 0 {
		if err := t.SetReadBuffer(pausingBuffer); err != nil {
			raw.Close()
			return nil, err
		}
	}
	c := raw
	if ep.tls != nil {
		t := tls.Client(raw, ep.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		c = tlsConn{Conn: t, raw: raw}
	}
	return &conn{Conn: c, br: bufio.NewReaderSize(c, 4<<10)}, nil
}

// send writes the request, and pauses in the middle of its body or behind it.
func (c *conn) send(ep *endpoint) error {
	rest := ep.request[len(ep.request)-ep.body/2:]
	if ep.pause == 0 || ep.body == 0 {
		rest = nil
	}
	if _, err := c.Write(ep.request[:len(ep.request)-len(rest)]); err != nil || ep.pause == 0 {
		return err
	}
	time.Sleep(ep.pause)
	if len(rest) == 0 {
		return nil
	}
	_, err := c.Write(rest)
	return err
}

// exchange writes the request and reads the whole response. keep says whether
// the connection can carry another request; started whether any byte of the
// response arrived.
func (c *conn) exchange(ep *endpoint, deadline time.Time) (status int, keep, started bool, err error) {
	if err := c.SetDeadline(deadline); err != nil {
		return 0, false, false, err
	}
	if err := c.send(ep); err != nil {
		return 0, false, false, err
	}
	if _, err := c.br.Peek(1); err != nil {
		return 0, false, false, err
	}
	for {
		resp, err := http.ReadResponse(c.br, &http.Request{Method: ep.method})
		if err != nil {
			return 0, false, true, err
		}
		if resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue // an interim response; the final one follows
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp.StatusCode, err == nil && !resp.Close && c.br.Buffered() == 0, true, err
	}
}
