package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"
)

var syscallHandoff = Scenario{
	Name:  "syscall-handoff",
	Title: "three short blocking calls to a signing device, each of which costs the request its P",
	Cause: "syscall-handoff", Contrast: "tail", Verdicts: []string{"cause"},
	// What it waits for after each call are the jobs that took the P meanwhile.
	Accept:    []string{"cpu-hog", "goroutine-flood"},
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/sign"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "device", Reply: time.Millisecond}},
	New:       newVault,
}

// vault signs with a device behind file descriptors that block, as a driver's do.
type vault struct{ ports chan *os.File }

func newVault(ctx context.Context, peers map[string]string) (http.Handler, error) {
	v := &vault{ports: make(chan *os.File, 64)}
	for range cap(v.ports) {
		port, err := openPort(strings.TrimPrefix(peers["device"], "http://"))
		if err != nil {
			return nil, err
		}
		v.ports <- port
	}
	go v.rotateAll(ctx)
	return route("/sign", v.handle), nil
}

func openPort(address string) (*os.File, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPossible, err)
	}
	f.Fd() // from now on it blocks
	return f, nil
}

// sign asks the device once; the answer is one packet.
func (v *vault) sign(port *os.File) error {
	if _, err := port.WriteString("GET /sign HTTP/1.1\r\nHost: device\r\n\r\n"); err != nil {
		return err
	}
	var answer [4096]byte
	n, err := port.Read(answer[:])
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200")) {
		return errors.New("the device refuses")
	}
	return nil
}

// rotateAll renews keys in the background, politely: in pieces of 2 ms.
func (v *vault) rotateAll(ctx context.Context) {
	for interval(ctx, 700*time.Millisecond) {
		for range 8 {
			go v.rotate()
		}
	}
}

func (v *vault) rotate() (sum [sha256.Size]byte) {
	for range 5 {
		for range rounds(2 * time.Millisecond) {
			sum = sha256.Sum256(sum[:])
		}
		runtime.Gosched()
	}
	return sum
}

func (v *vault) handle(w http.ResponseWriter, r *http.Request) {
	port := <-v.ports
	defer func() { v.ports <- port }()
	for range 3 {
		if err := v.sign(port); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
	reply(w, lines(20))
}
