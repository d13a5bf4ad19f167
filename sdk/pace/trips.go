package pace

import (
	"sync"
	"time"
)

// trips are those that nobody is on. Each is two file descriptors; there are as many as workers parked at once.
type trips struct {
	mu     sync.Mutex
	free   []*trip
	closed bool
}

// wait parks the caller until the network was looked at once.
func (s *trips) wait() {
	t := s.get()
	if t == nil || t.wait() != nil {
		time.Sleep(10 * time.Microsecond)
	}
	s.put(t)
}

func (s *trips) get() *trip {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		t := s.free[n-1]
		s.free = s.free[:n-1]
		return t
	}
	if s.closed {
		return nil
	}
	t, err := newTrip()
	if err != nil { // no file descriptors, or no such system
		return nil
	}
	return t
}

func (s *trips) put(t *trip) {
	if t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		t.close()
		return
	}
	s.free = append(s.free, t)
}

func (s *trips) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range s.free {
		t.close()
	}
	s.free = nil
}
