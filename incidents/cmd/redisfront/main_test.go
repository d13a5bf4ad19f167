package main

import (
	"bufio"
	"net"
	"strings"
	"testing"
)

func TestACommandIsAnArrayOfStrings(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	got := make(chan string, 1)
	go func() {
		b := make([]byte, 100)
		n, _ := there.Read(b)
		got <- string(b[:n])
		there.Write([]byte("+OK\r\n"))
	}()
	c := &conn{here, bufio.NewReader(here)}
	if err := c.command([]string{"SET", "cart:7", "two books"}); err != nil {
		t.Fatal(err)
	}
	sent := <-got
	if want := "*3\r\n$3\r\nSET\r\n$6\r\ncart:7\r\n$9\r\ntwo books\r\n"; sent != want {
		t.Errorf("sent %q, want %q", sent, want)
	}
}

func TestRepliesAreReadToTheirEnd(t *testing.T) {
	for _, c := range []struct{ name, reply, err string }{
		{"a status", "+OK\r\n", ""},
		{"a number", ":-3\r\n", ""},
		{"an error", "-ERR no such key\r\n", "no such key"},
		{"a string with a line break", "$4\r\na\r\nb\r\n", ""},
		{"no string", "$-1\r\n", ""},
		{"an empty array", "*0\r\n", ""},
		{"no array", "*-1\r\n", ""},
		{"an array of arrays", "*2\r\n*2\r\n$1\r\na\r\n:1\r\n$0\r\n\r\n", ""},
		{"an error in an array", "*1\r\n-WRONGTYPE\r\n", "WRONGTYPE"},
		{"another protocol", "HTTP/1.1 400 Bad Request\r\n", "begin with 'H'"},
		{"no length", "$x\r\n", "length"},
		{"too deep", strings.Repeat("*1\r\n", 20) + ":1\r\n", "no reply"},
		{"the end", "", "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const next = "+next\r\n"
			r := bufio.NewReader(strings.NewReader(c.reply + next))
			if c.reply == "" {
				r = bufio.NewReader(strings.NewReader(""))
			}
			err := skip(r, maxDepth)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if rest, _ := r.ReadString(0); err != nil || rest != next {
				t.Errorf("error %v, left %q", err, rest)
			}
		})
	}
}
