// Command dnsfront is a service that asks a name server for each request: every
// GET /NAME is one query for the IPv4 address of that name, over UDP or TCP.
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"

	"github.com/whylate/whylate/incidents/front"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to serve")
	server := flag.String("dns", "", "`address` of the name server")
	network := flag.String("network", "udp", "udp or tcp")
	flag.Parse()
	ask := overUDP
	if *network == "tcp" {
		ask = overTCP
	}
	conns := &front.Conns[net.Conn]{Dial: func() (net.Conn, error) { return net.Dial(*network, *server) }}
	fmt.Fprintln(os.Stderr, front.Serve(*listen, func(name string) error {
		q, err := query(uint16(rand.Uint32()), name)
		if err != nil {
			return err
		}
		return conns.Do(func(c net.Conn) error { return ask(c, q) })
	}))
	os.Exit(1)
}

// headerSize is the length of a DNS message's header (RFC 1035, 4.1.1).
const headerSize = 12

// query is a message that asks for the IPv4 address of a name.
func query(id uint16, name string) ([]byte, error) {
	m := binary.BigEndian.AppendUint16(nil, id)
	m = append(m, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // recursion desired, one question
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label == "" || len(label) > 63 {
			return nil, fmt.Errorf("%q is no name", name)
		}
		m = append(append(m, byte(len(label))), label...)
	}
	return append(m, 0, 0, 1, 0, 1), nil // type A, class IN
}

// answers reports whether m answers the query q. A late answer to another one is
// none.
func answers(m, q []byte) (bool, error) {
	if len(m) < headerSize || m[0] != q[0] || m[1] != q[1] || m[2]&0x80 == 0 {
		return false, nil
	}
	if code := m[3] & 0xf; code != 0 {
		return true, fmt.Errorf("the name server answers with code %d", code)
	}
	return true, nil
}

func overUDP(c net.Conn, q []byte) error {
	if _, err := c.Write(q); err != nil {
		return err
	}
	m := make([]byte, 512) // no more without EDNS
	for {
		n, err := c.Read(m)
		if err != nil {
			return err
		}
		if ok, err := answers(m[:n], q); ok {
			return err
		}
	}
}

func overTCP(c net.Conn, q []byte) error {
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil {
		return err
	}
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	m := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, m); err != nil {
		return err
	}
	ok, err := answers(m, q)
	if !ok {
		return errors.New("the name server answers another query")
	}
	return err
}
