package demo

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// ordersInParts writes what it sends in two parts, of which TCP holds the second one back
// until the first is acknowledged.
var ordersInParts = Scenario{
	Name:  "orders-in-parts",
	Title: "4 % of the orders are sent in two parts, and the second one waits for a delayed ACK",
	Cause: "tcp-loss", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*orders).send",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/order"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "warehouse", Frames: true}},
	New: func(_ context.Context, peers map[string]string) (http.Handler, error) {
		return newOrders(peers["warehouse"], false)
	},
}

// ordersAtOnce sends each part at once, and the peer takes as long as the delay.
var ordersAtOnce = Scenario{
	Name:  "orders-at-once",
	Title: "4 % of the orders are sent in two parts at once, and the service it calls takes 40 ms for them",
	Cause: "slow-dependency", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     ordersInParts.Place,
	Rate:      ordersInParts.Rate,
	Endpoints: ordersInParts.Endpoints,
	Env:       ordersInParts.Env,
	Peers:     []Peer{{Name: "warehouse", Frames: true, Slow: 40500 * time.Microsecond}},
	New: func(_ context.Context, peers map[string]string) (http.Handler, error) {
		return newOrders(peers["warehouse"], true)
	},
}

// orders sends orders to a warehouse in frames: a length, and a note of that length.
type orders struct {
	warehouse string
	prompt    bool // TCP's own default in Go
	idle      chan *net.TCPConn
}

func newOrders(warehouse string, prompt bool) (http.Handler, error) {
	o := &orders{warehouse, prompt, make(chan *net.TCPConn, 64)}
	return route("/order", o.handle), nil
}

func (o *orders) connection() (*net.TCPConn, error) {
	select {
	case c := <-o.idle:
		return c, nil
	default:
	}
	c, err := net.Dial("tcp", o.warehouse)
	if err != nil {
		return nil, err
	}
	t := c.(*net.TCPConn)
	return t, t.SetNoDelay(o.prompt)
}

// send writes the frame, in parts if they are given, and reads the answer.
func (o *orders) send(c *net.TCPConn, parts ...[]byte) (answer []line, err error) {
	for _, p := range parts {
		if _, err := c.Write(p); err != nil {
			return nil, err
		}
	}
	return answer, json.NewDecoder(c).Decode(&answer)
}

func (o *orders) handle(w http.ResponseWriter, r *http.Request) {
	n, large := smallOrder, rand.IntN(25) == 0
	if large {
		n++
	}
	note, err := json.Marshal(lines(n))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	c, err := o.connection()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(note)))
	parts := [][]byte{append(head, note...)}
	if large {
		parts = [][]byte{parts[0][:len(head)+partial], parts[0][len(head)+partial:]}
	}
	answer, err := o.send(c, parts...)
	if err != nil {
		c.Close()
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	select {
	case o.idle <- c:
	default:
		c.Close()
	}
	reply(w, answer)
}

// smallOrder is how many lines most orders have, partial how much of the others, in
// bytes, is in the first of two parts.
const smallOrder, partial = 3, 40

// frame reads a length and so many bytes.
func frame(r *bufio.Reader) ([]byte, error) {
	var n uint32
	if err := binary.Read(r, binary.BigEndian, &n); err != nil {
		return nil, err
	}
	const most = 1 << 20
	body := make([]byte, min(n, most))
	_, err := io.ReadFull(r, body)
	return body, err
}

// newFrames is a peer that answers frames with JSON; p.Slow is how long it takes for large orders.
func newFrames(p Peer) (role, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return role{}, err
	}
	return role{l.Addr(), func() error {
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); p.answerFrame(r, c) == nil; {
				}
			}()
		}
	}}, nil
}

func (p Peer) answerFrame(r *bufio.Reader, w io.Writer) error {
	note, err := frame(r)
	if err != nil {
		return err
	}
	var order []line
	if err := json.Unmarshal(note, &order); err != nil {
		return err
	}
	if len(order) > smallOrder {
		time.Sleep(p.Slow)
	}
	return json.NewEncoder(w).Encode(order)
}
