package main

import (
	"maps"
	"slices"
	"testing"
	"time"
)

func TestTasksAreReadWhateverTheirName(t *testing.T) {
	const rest = " S 7 1 1 0 -1 4194560 1 2 3 4 10 20 300 400 20 0 1 0 5 6"
	for _, name := range []string{"cat", "a b", "1 (2) 3", "x) R 9 9 ("} {
		pid, p, ok := parseTask("42 (" + name + ")" + rest)
		if !ok || pid != 42 || p != (task{name, 7, 30, 700}) {
			t.Errorf("%s: %d, %+v, %v", name, pid, p, ok)
		}
	}
	for _, bad := range []string{"", "42", "42 (cat", "x (cat)" + rest, "42 (cat) S 7", "42 (cat) S x 1 1 0 -1 0 1 2 3 4 1 2 3 4", "42 (cat) S 7 1 1 0 -1 0 1 2 3 4 1 x 3 4"} {
		if _, _, ok := parseTask(bad); ok {
			t.Errorf("%q is a task", bad)
		}
	}
}

func TestOthersAreWhomWeDidNotStart(t *testing.T) {
	all := map[int]task{
		1: {"init", 0, 1, 0}, 2: {kthreadd, 0, 1, 0}, 3: {"ksoftirqd/0", 2, 1, 0},
		10: {"sh", 1, 1, 0}, 11: {"e2e", 10, 1, 0},
		12: {"caddy", 11, 1, 0}, 13: {"its child", 12, 1, 0},
		20: {"cc", 10, 1, 0}, 21: {"of a parent that is not seen", 99, 1, 0},
		30: {"no", 31, 1, 0}, 31: {"such thing", 30, 1, 0}, // but it must end
	}
	if got, want := slices.Sorted(maps.Keys(others(all, 11))), []int{1, 10, 20, 21, 30, 31}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestWhatTasksHaveUsedBetween(t *testing.T) {
	before := map[int]task{1: {own: 10, children: 100}, 2: {parent: 1, own: 50}}
	for _, c := range []struct {
		name string
		now  map[int]task
		want time.Duration
	}{
		{"nothing", before, 0},
		{"both", map[int]task{1: {own: 11, children: 100}, 2: {parent: 1, own: 52}}, 3},
		{"one has come", map[int]task{1: {own: 10, children: 100}, 2: {parent: 1, own: 50}, 3: {parent: 1, own: 4}}, 4},
		{"one has gone after 5 ticks", map[int]task{1: {own: 10, children: 155}}, 5},
		{"one has gone for whom nobody waits", map[int]task{1: {own: 16, children: 100}}, 6},
	} {
		if got := since(c.now, before); got != c.want*tick {
			t.Errorf("%s: %v, want %v", c.name, got, c.want*tick)
		}
	}
}
