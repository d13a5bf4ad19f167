package main

import (
	"bytes"
	"net"
	"strings"
	"testing"
)

// asked is the query for the address of shop.example with the id 0x1234.
var asked = append([]byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0},
	"\x04shop\x07example\x00\x00\x01\x00\x01"...)

// reply answers it with that code, and with another id plus other.
func reply(code, other byte) []byte {
	m := bytes.Clone(asked)
	m[1] += other
	m[2], m[3] = 0x81, 0x80|code
	return m
}

func TestAQueryHasTheNameAsLabels(t *testing.T) {
	for _, name := range []string{"shop.example", "shop.example."} {
		if q, err := query(0x1234, name); err != nil || !bytes.Equal(q, asked) {
			t.Errorf("%s is % x, %v", name, q, err)
		}
	}
	for _, name := range []string{"", "shop..example", strings.Repeat("x", 64)} {
		if _, err := query(0, name); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

func TestAnAnswerOverUDPIsThatOfTheQuery(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, c := range []struct {
		name    string
		answers [][]byte
		err     string
	}{
		{"at once", [][]byte{reply(0, 0)}, ""},
		{"after a late one to another query", [][]byte{reply(2, 1), asked, reply(0, 0)}, ""},
		{"an error", [][]byte{reply(3, 0)}, "code 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			go func() {
				b := make([]byte, 512)
				n, from, err := server.ReadFrom(b)
				if err != nil || !bytes.Equal(b[:n], asked) {
					t.Errorf("asked % x, %v", b[:n], err)
				}
				for _, a := range c.answers {
					server.WriteTo(a, from)
				}
			}()
			conn, err := net.Dial("udp", server.LocalAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fails(t, overUDP(conn, asked), c.err)
		})
	}
}

func TestOverTCPALengthIsBeforeEachMessage(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer []byte
		err    string
	}{
		{"an answer", reply(0, 0), ""},
		{"an error", reply(2, 0), "code 2"},
		{"that of another query", reply(0, 1), "another query"},
	} {
		t.Run(c.name, func(t *testing.T) {
			here, there := net.Pipe()
			defer here.Close()
			go func() {
				b := make([]byte, 512)
				n, err := there.Read(b)
				if want := append([]byte{0, byte(len(asked))}, asked...); err != nil || !bytes.Equal(b[:n], want) {
					t.Errorf("asked % x, %v", b[:n], err)
				}
				there.Write(append([]byte{0, byte(len(c.answer))}, c.answer...))
			}()
			fails(t, overTCP(here, asked), c.err)
		})
	}
}

func fails(t *testing.T, err error, with string) {
	t.Helper()
	switch {
	case with == "" && err != nil:
		t.Error(err)
	case with != "" && (err == nil || !strings.Contains(err.Error(), with)):
		t.Errorf("error %v, want %q", err, with)
	}
}
