//go:build unix

package pace

import (
	"sync"
	"testing"
)

func TestATripEnds(t *testing.T) {
	tr, err := newTrip()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 1000; i++ {
		if err := tr.wait(); err != nil {
			t.Fatal(err)
		}
	}
	tr.close()
	if tr.wait() == nil {
		t.Error("a closed one can be made")
	}
}

func TestTripsAreForManyAtOnceAndEndWithTheirOwner(t *testing.T) {
	var s trips
	var all sync.WaitGroup
	for i := 0; i < 20; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for j := 0; j < 100; j++ {
				s.wait()
			}
		}()
	}
	all.Wait()
	if n := len(s.free); n == 0 || n > 20 {
		t.Errorf("%d were kept", n)
	}
	out := s.get()
	s.close()
	s.put(out)
	s.wait() // what goes on after Stop still parks
	if s.free != nil || out.wait() == nil {
		t.Error("something is left open")
	}
}
