package front

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
)

func TestAConnectionIsUsedAgainUnlessItFailed(t *testing.T) {
	for _, c := range []struct {
		name  string
		first error // of the first call
		again error // of the second one on its first connection
		dials int   // after both
		fails bool  // the second call
	}{
		{"idle", nil, nil, 1, false},
		{"failed", errors.New("refused"), nil, 2, false},
		{"closed by the server while it was idle", nil, io.EOF, 2, false},
		{"failed again", nil, errors.New("refused"), 1, true},
		{"late", nil, os.ErrDeadlineExceeded, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dials := 0
			conns := &Conns[net.Conn]{Dial: func() (net.Conn, error) {
				dials++
				here, _ := net.Pipe()
				return here, nil
			}}
			if err := conns.Do(func(net.Conn) error { return c.first }); !errors.Is(err, c.first) {
				t.Errorf("the first call returns %v", err)
			}
			tries := 0
			err := conns.Do(func(net.Conn) error {
				if tries++; tries == 1 {
					return c.again
				}
				return nil
			})
			if (err != nil) != c.fails || dials != c.dials {
				t.Errorf("the second call returns %v after %d dials, want %d", err, dials, c.dials)
			}
		})
	}
}

func TestAnErrorOfDialIsTheCalls(t *testing.T) {
	refused := errors.New("refused")
	conns := &Conns[net.Conn]{Dial: func() (net.Conn, error) { return nil, refused }}
	err := conns.Do(func(net.Conn) error { t.Error("called without a connection"); return nil })
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
}
