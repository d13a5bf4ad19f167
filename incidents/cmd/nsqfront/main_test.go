package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
)

func frame(kind uint32, data string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(data)))
	return append(binary.BigEndian.AppendUint32(b, kind), data...)
}

func TestAMessageIsPublishedWithItsLength(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer []byte
		err    string
	}{
		{"taken", frame(response, "OK"), ""},
		{"refused", frame(failure, "E_BAD_TOPIC PUB topic name \"a b\" is not valid"), "E_BAD_TOPIC"},
		{"another answer", frame(response, heartbeat), heartbeat},
		{"too long", []byte{0x7f, 0, 0, 0, 0, 0, 0, 0}, "bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			here, there := net.Pipe()
			defer here.Close()
			go func() {
				b := make([]byte, 100)
				n, _ := there.Read(b)
				if got := string(b[:n]); got != "PUB orders\n\x00\x00\x00\x05a sale"[:n] || n != 20 {
					t.Errorf("sent %q", got)
				}
				there.Write(c.answer)
			}()
			err := (&conn{here, bufio.NewReader(here)}).publish("orders", []byte("a sale")[:5])
			switch {
			case c.err == "" && err != nil:
				t.Error(err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

func TestEveryMessageOfATopicIsFinished(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const id = "0123456789abcdef"
	got := make(chan string, 10)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		r := bufio.NewReader(c)
		line := func() string { s, _ := r.ReadString('\n'); return s }
		got <- line()
		io.CopyN(io.Discard, r, int64(4+len(heartbeats)))
		c.Write(frame(response, "OK"))
		got <- line()
		c.Write(frame(response, "OK"))
		got <- line()
		c.Write(frame(response, heartbeat))
		got <- line()
		c.Write(frame(message, strings.Repeat("\x00", 10)+id+"a sale"))
		got <- line()
	}()
	if err := finish(l.Addr().String(), "orders"); err == nil {
		t.Error("no error when the broker has left")
	}
	for _, want := range []string{"  V2IDENTIFY\n", "SUB orders archive\n", "RDY 100\n", "NOP\n", "FIN " + id + "\n"} {
		if s := <-got; s != want {
			t.Errorf("sent %q, want %q", s, want)
		}
	}
}
