// Command dnspeer is a name server for another program to ask: it knows one address
// for every name, and answers after a time that is longer for a share of the queries.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "UDP `address` to serve")
	reply := flag.Duration("reply", time.Millisecond, "time to answer")
	slow := flag.Duration("slow", 0, "time to answer for a share of the queries")
	share := flag.Float64("share", 0, "that share, 0 to 1, chosen at random")
	flag.Parse()
	c, err := net.ListenPacket("udp", *listen)
	if err == nil {
		err = serve(c, func() time.Duration {
			if rand.Float64() < *share {
				return *slow
			}
			return *reply
		})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// serve answers each query after the time that wait returns.
func serve(c net.PacketConn, wait func() time.Duration) error {
	b := make([]byte, 512)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return err
		}
		if m := answer(b[:n]); m != nil {
			// An error is the asker's: it does not get its answer.
			time.AfterFunc(wait(), func() { c.WriteTo(m, from) })
		}
	}
}

// headerSize is the length of a DNS message's header (RFC 1035, 4.1.1).
const headerSize = 12

// ttl is how long an answer is valid, in seconds: no cache may keep it.
const ttl = 0

// answer is the message that answers a query for one name, or nil if q is none.
func answer(q []byte) []byte {
	end := headerSize
	for end < len(q) && q[end] != 0 {
		end += 1 + int(q[end])
	}
	end += 5 // the root's label, type and class
	if end > len(q) || q[2]&0x80 != 0 || q[4] != 0 || q[5] != 1 {
		return nil
	}
	m := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, q[headerSize:end]...)
	// The name of the question, type A, class IN, and an address for documentation.
	return append(m, 0xc0, headerSize, 0, 1, 0, 1, 0, 0, 0, ttl, 0, 4, 192, 0, 2, 1)
}
