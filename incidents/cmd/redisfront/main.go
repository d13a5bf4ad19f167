// Command redisfront is a service that keeps its state in a Redis server: every
// GET /COMMAND/ARGUMENT/... is that one command.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/whylate/whylate/incidents/front"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to serve")
	store := flag.String("redis", "", "`address` of the Redis server")
	flag.Parse()
	conns := &front.Conns[*conn]{Dial: func() (*conn, error) { return dial(*store) }}
	fmt.Fprintln(os.Stderr, front.Serve(*listen, func(path string) error {
		return conns.Do(func(c *conn) error { return c.command(strings.Split(path, "/")) })
	}))
	os.Exit(1)
}

type conn struct {
	net.Conn
	replies *bufio.Reader
}

func dial(address string) (*conn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReader(c)}, nil
}

// command sends one command and reads its reply to the end.
func (c *conn) command(args []string) error {
	m := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		m = fmt.Appendf(m, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write(m); err != nil {
		return err
	}
	return skip(c.replies, maxDepth)
}

// maxDepth bounds how deep a reply may be nested; that of a transaction has two levels.
const maxDepth = 8

// skip reads a reply of RESP 2, and returns it if it is an error.
func skip(r *bufio.Reader, depth int) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" || depth == 0 {
		return errors.New("that is no reply of RESP")
	}
	switch line[0] {
	case '+', ':':
		return nil
	case '-':
		return errors.New(line[1:])
	case '$', '*':
	default:
		return fmt.Errorf("a reply of RESP does not begin with %q", line[0])
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < -1 {
		return fmt.Errorf("a reply has the length %q", line[1:])
	}
	if line[0] == '$' {
		if n >= 0 { // -1 stands for nothing
			_, err = io.CopyN(io.Discard, r, int64(n)+2)
		}
		return err
	}
	for ; n > 0 && err == nil; n-- {
		err = skip(r, depth-1)
	}
	return err
}
