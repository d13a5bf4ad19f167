package host

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A main thread that is bound to a CPU, as by runtime.LockOSThread in main, does not bind the process.
func TestTheCPUsOfAProcessAreThoseOfAllItsThreads(t *testing.T) {
	needs(t, "two CPUs", runtime.NumCPU() > 1, "this process may use only one")
	for _, c := range []struct {
		what string
		want func(all int) int
	}{
		{"main", func(all int) int { return all }},
		{"all", func(int) int { return 1 }},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := start(t, "bind "+c.what, nil)
			want := c.want(p.ints()[0])
			got := record(t, p.pid).stop()
			if got.Allowed() != want {
				t.Errorf("%d CPUs, want %d: %+v", got.Allowed(), want, got.After)
			}
			confined := want < got.Static.CPUs
			for _, s := range got.Samples {
				if (s.Confined != nil) != confined {
					t.Fatalf("confined: %v, its CPUs: %+v", confined, s.Confined)
				}
				if c := s.Confined; c != nil && (c.IdleNS <= 0 || c.IdleNS+c.BusyNS >= s.Machine.IdleNS+s.Machine.BusyNS) {
					t.Errorf("its CPUs %+v, all %+v", *c, s.Machine)
				}
			}
			u := got.Over([]Span{got.Span()})
			if u.Confined != confined {
				t.Errorf("usage %+v", u)
			}
		})
	}
}

func TestTheTimesOfSomeCPUsAreSummed(t *testing.T) {
	const text = "cpu  111 0 0 1110 0 0 0 0 0 0\ncpu0 1 0 0 10 0 0 0 0 0 0\ncpu2 10 0 0 100 3 0 0 4 0 0\ncpu10 100 0 0 1000 0 0 0 0 0 0\nintr 5 cpu2 9\n"
	for _, c := range []struct {
		name string
		cpus []int
		want CPUTimes
	}{
		{"one", []int{2}, CPUTimes{10 * tickNS, 100 * tickNS, 3 * tickNS, 4 * tickNS}},
		{"two", []int{0, 10}, CPUTimes{BusyNS: 101 * tickNS, IdleNS: 1010 * tickNS}},
		{"one that is offline", []int{1}, CPUTimes{BusyNS: 7}}, // what was read before
	} {
		t.Run(c.name, func(t *testing.T) {
			var set unix.CPUSet
			for _, cpu := range c.cpus {
				set.Set(cpu)
			}
			got := CPUTimes{BusyNS: 7}
			if got.on(&set, []byte(text)); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
