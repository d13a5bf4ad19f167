package load

import (
	"context"
	"time"
)

// fine is the part of a sleep that is left to the kernel: an idle Go process
// waits for its next timer in epoll_wait, whose milliseconds are too coarse for
// an intended send time.
const fine = 2 * time.Millisecond

// sleeper waits for one time after the other, in one goroutine.
type sleeper struct{ timer *time.Timer }

// until sleeps until t and reports whether ctx was still alive then.
func (s *sleeper) until(ctx context.Context, t time.Time) bool {
	if coarse := time.Until(t) - fine; coarse > 0 {
		if s.timer == nil {
			s.timer = time.NewTimer(coarse)
		} else {
			s.timer.Reset(coarse)
		}
		select {
		case <-s.timer.C:
		case <-ctx.Done():
			return false
		}
	}
	for d := time.Until(t); d > 0; d = time.Until(t) {
		nanosleep(d)
	}
	return ctx.Err() == nil
}

func (s *sleeper) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
