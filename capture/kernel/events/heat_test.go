package events

import (
	"slices"
	"testing"
)

func TestTheRunQueueOverTime(t *testing.T) {
	rec := New(Header{CPUs: 1}, nil, []Stretch{
		{TID: 1, Out: 1_010, OnNS: 10, OffNS: 100, QueueNS: 1},                    // from 999 to 1000
		{TID: 1, Out: 1_500, OnNS: 1, OffNS: 400, QueueNS: 3},                     // in the first column, slot 1
		{TID: 2, Out: 1_501, OnNS: 2, OffNS: 400, QueueNS: 0},                     // did not wait
		{TID: 2, Out: 1_900, OnNS: 1, OffNS: 300, QueueNS: 300, Flags: Throttled}, // a quota
		{TID: 1, Out: 2_990, OnNS: 1, OffNS: 1_030, QueueNS: 1_024},               // in the second one
		{TID: 1, Out: 3_100, OnNS: 1, OffNS: 50, QueueNS: 50},                     // after it
		{TID: 3, Out: 900, OnNS: 1, OffNS: 50, QueueNS: 50, Flags: Preempted},     // before it
	})
	m := rec.RunQueue(1_000, 3_000, 2)
	if m == nil || m.FromNS != 1_000 || m.StepNS != 1_000 || len(m.Columns) != 2 {
		t.Fatalf("%+v", m)
	}
	if want := (Histogram{1, 1}); !slices.Equal(m.Columns[0], want) {
		t.Errorf("first column %v, want %v", m.Columns[0], want)
	}
	if want := (Histogram{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}); !slices.Equal(m.Columns[1], want) {
		t.Errorf("second column %v, want %v", m.Columns[1], want)
	}
	for _, span := range [][2]int64{{1_000, 1_000}, {5_000, 6_000}} {
		if m := rec.RunQueue(span[0], span[1], 10); m != nil {
			t.Errorf("from %d to %d nobody waits: %+v", span[0], span[1], m)
		}
	}
	// The last instant lies in the last column, however they divide.
	for columns := range 50 {
		if m := rec.RunQueue(1_000, 2_990, columns+1); m == nil || m.FromNS+m.StepNS*int64(len(m.Columns)) < 2_990 {
			t.Errorf("%d columns: %+v", columns+1, m)
		}
	}
}
