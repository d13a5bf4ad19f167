//go:build unix

package pace

import (
	"os"
	"syscall"
)

// trip is a way through the network poller: a pipe that its owner writes to itself. Who waits for its end runs
// again when somebody has looked at the network, and whoever's data had come until then can run, too. It takes some
// microseconds where a P looks at the network at once, so how long it takes tells how late network wake-ups are; a
// short sleep, which has the same effect, takes a millisecond in a process that is idle otherwise.
type trip struct {
	r, w *os.File
	conn syscall.RawConn
	read func(fd uintptr) bool
	sent bool
	buf  [16]byte
}

func newTrip() (*trip, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	t := &trip{r: r, w: w}
	if t.conn, err = r.SyscallConn(); err != nil {
		t.close()
		return nil, err
	}
	t.read = t.step
	return t, nil
}

// step is called when the read side can be tried: first it is made ready, but only after the poller was told to
// watch for that, and so what follows waits for the poller.
func (t *trip) step(fd uintptr) bool {
	if !t.sent {
		t.sent = true
		_, err := t.w.Write(t.buf[:1])
		return err != nil
	}
	for {
		_, err := syscall.Read(int(fd), t.buf[:])
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		}
		return true
	}
}

// wait makes the trip. It is for one goroutine at a time.
func (t *trip) wait() error {
	t.sent = false
	return t.conn.Read(t.read)
}

func (t *trip) close() {
	t.r.Close()
	t.w.Close()
}
