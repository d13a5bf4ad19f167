package dependency

import (
	"bytes"
	"errors"
	"net"
	"strconv"
)

// What a connection to something that says it is redis may give.
const (
	// maxReply holds SLOWLOG GET 256 with arguments as long as redis keeps them:
	// 32 of 128 bytes in each.
	maxReply = 4 << 20
	// maxElements holds that many entries, and LATENCY HISTOGRAM of all commands.
	maxElements = 100_000
	maxDepth    = 8
	maxRESPLine = 64 << 10
)

var (
	errNotRedis = errors.New("what answers there does not speak redis's protocol")
	errTooLong  = errors.New("the answer is longer than any that such a server gives")
)

// guard checks the replies of a server before the client library sees them: that
// believes lengths and allocates them, whatever they are, and follows any depth.
// Source: https://redis.io/docs/latest/develop/reference/protocol-spec/ (RESP2).
type guard struct {
	net.Conn
	left, elements int // bytes and elements that the reply may still have
	line           []byte
	skip           int   // bytes until the end of a bulk string
	open           []int // elements still to come, of the arrays around
}

// next begins a reply.
func (g *guard) next() { g.left, g.elements = maxReply, maxElements }

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if bad := g.scan(p[:n]); bad != nil {
		return 0, bad
	}
	return n, err
}

func (g *guard) scan(b []byte) error {
	if g.left -= len(b); g.left < 0 {
		return errTooLong
	}
	for len(b) > 0 {
		if g.skip > 0 {
			k := min(g.skip, len(b))
			b = b[k:]
			if g.skip -= k; g.skip == 0 {
				g.ended()
			}
			continue
		}
		part := b
		end := bytes.IndexByte(b, '\n')
		if end >= 0 {
			part = b[:end+1]
		}
		if g.line = append(g.line, part...); len(g.line) > maxRESPLine {
			return errTooLong
		}
		b = b[len(part):]
		if end < 0 {
			return nil
		}
		if err := g.header(bytes.TrimRight(g.line, "\r\n")); err != nil {
			return err
		}
		g.line = g.line[:0]
	}
	return nil
}

// header takes the first line of an element.
func (g *guard) header(line []byte) error {
	if len(line) == 0 {
		return errNotRedis
	}
	switch line[0] {
	case '+', '-', ':':
		g.ended()
		return nil
	case '$', '*':
	default:
		return errNotRedis
	}
	n, err := strconv.Atoi(string(line[1:]))
	switch {
	case err != nil:
		return errNotRedis
	case line[0] == '$' && n >= 0:
		if n > maxReply {
			return errTooLong
		}
		g.skip = n + 2
	case line[0] == '*' && n > 0:
		if len(g.open) == maxDepth || n > g.elements {
			return errTooLong
		}
		g.elements -= n
		g.open = append(g.open, n)
	default: // nil, or an empty array
		g.ended()
	}
	return nil
}

// ended counts an element that is complete.
func (g *guard) ended() {
	for n := len(g.open); n > 0; n-- {
		if g.open[n-1]--; g.open[n-1] > 0 {
			return
		}
		g.open = g.open[:n-1]
	}
}
