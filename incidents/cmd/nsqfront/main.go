// Command nsqfront is a service that tells a message broker what happens: every GET
// /TOPIC publishes one message to an nsqd, through its TCP protocol
// (https://nsq.io/clients/tcp_protocol_spec.html). A TOPIC that ends with - gets a
// number: a new topic each time.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/whylate/whylate/incidents/front"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to serve")
	broker := flag.String("nsqd", "", "TCP `address` of the nsqd")
	size := flag.Int("size", 256, "bytes in a message")
	consume := flag.String("consume", "", "also take and finish all messages of this `topic`, on another connection")
	post := flag.String("post", "", "also POST nothing to this `URL` over and over")
	every := flag.Duration("every", time.Second, "mean time between two such POSTs")
	flag.Parse()
	message := make([]byte, *size)
	conns := &front.Conns[*conn]{Dial: func() (*conn, error) { return dial(*broker, noHeartbeats) }}
	if *consume != "" {
		go func() {
			fmt.Fprintln(os.Stderr, finish(*broker, *consume))
			os.Exit(1)
		}()
	}
	if *post != "" {
		go postTo(*post, *every)
	}
	var last atomic.Int64
	fmt.Fprintln(os.Stderr, front.Serve(*listen, func(topic string) error {
		if strings.HasSuffix(topic, "-") {
			topic = fmt.Sprint(topic, last.Add(1))
		}
		return conns.Do(func(c *conn) error { return c.publish(topic, message) })
	}))
	os.Exit(1)
}

// postTo is what an operator has cron do.
func postTo(url string, every time.Duration) {
	for {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(every)))
		resp, err := http.Post(url, "", nil)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		resp.Body.Close()
	}
}

// The types of a frame.
const (
	response = iota
	failure
	message
)

type conn struct {
	net.Conn
	frames *bufio.Reader
}

// Heartbeats have to be answered: idle connections ask for none, consumers must not.
const (
	noHeartbeats = `{"heartbeat_interval":-1}`
	heartbeats   = `{}`
	heartbeat    = "_heartbeat_"
)

func dial(address, identify string) (*conn, error) {
	n, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &conn{n, bufio.NewReader(n)}
	if err := c.ask("  V2IDENTIFY\n", []byte(identify)); err != nil {
		n.Close()
		return nil, err
	}
	return c, nil
}

func (c *conn) publish(topic string, message []byte) error {
	return c.ask("PUB "+topic+"\n", message)
}

// ask sends a command, if it has a body with its length, and reads the response.
func (c *conn) ask(command string, body []byte) error {
	m := []byte(command)
	if body != nil {
		m = append(binary.BigEndian.AppendUint32(m, uint32(len(body))), body...)
	}
	if _, err := c.Write(m); err != nil {
		return err
	}
	kind, b, err := c.read()
	switch {
	case err != nil:
		return err
	case kind == failure:
		return errors.New(string(b))
	case kind != response || string(b) != "OK":
		return fmt.Errorf("the broker answers %q", b)
	}
	return nil
}

// maxFrame bounds the data of a frame in bytes; nsqd's own bound of a message is
// 1 MiB.
const maxFrame = 2 << 20

func (c *conn) read() (kind uint32, data []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(c.frames, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size-4 > maxFrame {
		return 0, nil, fmt.Errorf("a frame has %d bytes", size)
	}
	data = make([]byte, size-4)
	_, err = io.ReadFull(c.frames, data)
	return binary.BigEndian.Uint32(head[4:]), data, err
}

const (
	channel = "archive"
	// ready is how many messages may be under way to a consumer.
	ready = 100
	// A message is its time, 8 bytes, how often it was sent, 2, its id, 16, and its body.
	idAt, idEnd = 10, 26
)

// finish takes the messages of a topic as they come; it returns when it cannot.
func finish(address, topic string) error {
	c, err := dial(address, heartbeats)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.ask("SUB "+topic+" "+channel+"\n", nil); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "RDY %d\n", ready); err != nil {
		return err
	}
	for {
		kind, m, err := c.read()
		switch {
		case err != nil:
		case kind == failure:
			err = errors.New(string(m))
		case kind == message && len(m) >= idEnd:
			_, err = fmt.Fprintf(c, "FIN %s\n", m[idAt:idEnd])
		case string(m) == heartbeat:
			_, err = io.WriteString(c, "NOP\n")
		default:
			err = fmt.Errorf("the broker says %q", m)
		}
		if err != nil {
			return err
		}
	}
}
