package events

import (
	"reflect"
	"testing"
)

func TestAProcessWasMadeToStopIfAllItsThreadsAreWokenAtOnce(t *testing.T) {
	const ms = int64(1e6)
	// woken is when each of the threads, which left the CPU at 10 ms, are woken, in ns after 50 ms.
	type thread struct{ left, woken, queued int64 }
	together := []thread{{10 * ms, 0, 0}, {10*ms - 4e3, 5e3, 0}, {9 * ms, 20e3, 700e3}, {8 * ms, -10e3, 30e3}, {10*ms - 2e3, 0, 30e3}}
	with := func(i int, x thread) []thread {
		out := append([]thread(nil), together...)
		out[i] = x
		return out
	}
	for _, c := range []struct {
		name    string
		threads []thread
		more    []Stretch
		want    []Suspension
	}{
		{"all at once, some of which wait for a CPU then", together, nil, []Suspension{{10 * ms, 50 * ms}}},
		{"one sleeps on", with(3, thread{8 * ms, 20 * ms, 0}), nil, nil},
		{"one is woken by another", with(3, thread{8 * ms, 250e3, 0}), nil, nil},
		{"no more than a process wakes by itself", together[:3], nil, nil},
		{"for a moment", with(0, thread{50*ms - 300e3, 0, 0}), nil, nil},
		{"one is not seen again", together, []Stretch{{TID: 99, Out: 5 * ms, OnNS: 1}}, nil},
		{"one is new", together, []Stretch{{TID: 99, Out: 70 * ms, OnNS: 1}}, []Suspension{{10 * ms, 50 * ms}}},
		{"since the last one left the CPU", together, []Stretch{{TID: 100, Out: 30 * ms, OnNS: 5, OffNS: 21 * ms}}, []Suspension{{30 * ms, 50 * ms}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ss := append([]Stretch(nil), c.more...)
			for i, x := range c.threads {
				in := 50*ms + x.woken + x.queued
				ss = append(ss, Stretch{TID: 100 + i, Out: x.left, OnNS: 5e3, NR: 202},
					Stretch{TID: 100 + i, Out: in + 3e3, OnNS: 3e3, OffNS: in - x.left, QueueNS: x.queued, NR: 202})
			}
			if got := New(Header{CPUs: 2}, nil, ss).Suspensions(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
