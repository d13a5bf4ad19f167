package demo

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"time"
)

// scheme begins the peer's URL; those that do not speak HTTP have an address only.
func (p Peer) scheme() string {
	switch {
	case p.DNS, p.Frames:
		return ""
	case p.Handshake > 0:
		return "https://"
	}
	return "http://"
}

// settings reads the one argument of a process beside a service.
func settings(args []string, v any) error {
	if len(args) != 1 {
		return fmt.Errorf("%d arguments, want the settings", len(args))
	}
	return json.Unmarshal([]byte(args[0]), v)
}

func newPeer(args []string) (role, error) {
	var p Peer
	if err := settings(args, &p); err != nil {
		return role{}, err
	}
	if p.Remote {
		if err := goFirst(); err != nil {
			return role{}, fmt.Errorf("%w: %w", ErrNotPossible, err)
		}
	}
	if p.DNS {
		return newNameServer(p)
	}
	if p.Frames {
		return newFrames(p)
	}
	if p.Handshake > 0 {
		return newTLS(p)
	}
	if p.Lost+p.LostFirst > 0 {
		return newFar(p)
	}
	return web(p)
}

// latency is how long the peer takes for the next answer.
func (p Peer) latency() time.Duration {
	if rand.Float64() < p.SlowShare {
		return p.Slow
	}
	return p.Reply
}

func (p Peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(p.latency())
	reply(w, lines(5))
}

// newFar is a peer to which segments are lost.
func newFar(p Peer) (role, error) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // which takes no filter
	l, err := plain.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return role{}, err
	}
	w := wire{l.(*net.TCPListener), p.Lost}
	if err := w.lose(w.TCPListener, p.LostFirst); err != nil {
		return role{}, fmt.Errorf("%w: %w", ErrNotPossible, err)
	}
	srv := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	return role{l.Addr(), func() error { return srv.Serve(w) }}, nil
}

// newTLS is a peer that greets each connection after p.Handshake.
func newTLS(p Peer) (role, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		return role{}, err
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(crand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		return role{}, err
	}
	conf := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			time.Sleep(p.Handshake)
			return nil, nil
		},
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		return role{}, err
	}
	srv := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	return role{l.Addr(), func() error { return srv.Serve(l) }}, nil
}

// newNameServer is a peer that answers each question for an IPv4 address with
// its own, and each other question with nothing.
func newNameServer(p Peer) (role, error) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return role{}, err
	}
	return role{c.LocalAddr(), func() error {
		buf := make([]byte, 512) // the longest message over UDP, RFC 1035
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return err
			}
			if msg := nameAnswer(buf[:n]); msg != nil {
				time.AfterFunc(p.latency(), func() { c.WriteTo(msg, from) })
			}
		}
	}}, nil
}

// Fields of DNS messages, RFC 1035.
const (
	dnsHeader   = 12     // bytes
	dnsResponse = 0x8580 // an authoritative answer, recursion available
	dnsTypeA    = 1
	dnsClassIN  = 1
	dnsPointer  = 0xc000 | dnsHeader // to the name in the question
)

// nameAnswer is the message that answers a query, nil if it is not one with one
// question.
func nameAnswer(query []byte) []byte {
	if len(query) < dnsHeader || query[2]&0x80 != 0 || binary.BigEndian.Uint16(query[4:]) != 1 {
		return nil
	}
	end := dnsHeader
	for end < len(query) && query[end] != 0 {
		end += 1 + int(query[end])
	}
	end += 1 + 4 // the empty label, type and class
	if end > len(query) {
		return nil
	}
	question := query[dnsHeader:end]
	answers := uint16(0)
	if binary.BigEndian.Uint16(question[len(question)-4:]) == dnsTypeA {
		answers = 1
	}
	var msg []byte
	be := binary.BigEndian
	for _, v := range []uint16{be.Uint16(query), dnsResponse, 1, answers, 0, 0} {
		msg = be.AppendUint16(msg, v)
	}
	msg = append(msg, question...)
	if answers > 0 {
		for _, v := range []uint16{dnsPointer, dnsTypeA, dnsClassIN, 0, 60 /* seconds to live */, net.IPv4len} {
			msg = be.AppendUint16(msg, v)
		}
		msg = append(msg, 127, 0, 0, 1)
	}
	return msg
}

// newNeighbour computes together with the other neighbours on this machine: the
// same interval of the wall clock gives each of them the same beginning.
func newNeighbour(ctx context.Context, args []string) (role, error) {
	var n Neighbours
	if err := settings(args, &n); err != nil {
		return role{}, err
	}
	if n.Busy <= 0 || n.Every <= n.Busy {
		return role{}, fmt.Errorf("busy for %v every %v", n.Busy, n.Every)
	}
	raised := make(chan error)
	go func() {
		runtime.LockOSThread() // a priority belongs to a thread
		raised <- raisePriority()
		n.compute(ctx)
	}()
	if err := <-raised; err != nil {
		return role{}, fmt.Errorf("%w: raise the priority: %w", ErrNotPossible, err)
	}
	return web(http.NotFoundHandler())
}

func (n Neighbours) compute(ctx context.Context) {
	for ctx.Err() == nil {
		begin := n.begin(time.Now())
		time.Sleep(time.Until(begin))
		for time.Since(begin) < n.Busy {
		}
	}
}

// begin is the next instant after now to compute from.
func (n Neighbours) begin(now time.Time) time.Time {
	for slot := now.Truncate(n.Every); ; slot = slot.Add(n.Every) {
		random := rand.New(rand.NewPCG(uint64(slot.UnixNano()), 0))
		begin := slot.Add(time.Duration(random.Int64N(int64(n.Every - n.Busy))))
		if begin.After(now) {
			return begin
		}
	}
}
