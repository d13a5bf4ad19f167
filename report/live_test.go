package report

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/whylate/whylate/capture/kernel/events"
)

func live(t *testing.T, l *Live, opts TerminalOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteLive(&b, l, opts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAPageOfTop(t *testing.T) {
	k := probed().Kernel
	l := &Live{
		PID: 1234, Name: "service", CPUs: 4, NS: 2_000_000_000, At: 62_000_000_000, Threads: 9, OnNS: 3_000_000_000, Lost: 5,
		Counts:  &events.After{Readings: k.Clock, Cgo: k.Cgo, GC: k.GC, Waits: k.Gosched},
		Before:  &events.After{Cgo: &events.CgoCalls{Functions: []events.CFunction{{Name: "compress", Go: "main._Cfunc_compress", Calls: 95, NS: 6_000_000, Histogram: events.Histogram{15: 90, 16: 5}}}}, GC: &events.Cycles{N: 3, NS: 1_000_000}},
		Missing: []events.Missing{{Probes: "alloc", Why: "no runtime.MemProfile"}},
		Map:     k.RunQueue.Columns,
	}
	for _, ns := range []int64{3_000, 5_000, 900_000} {
		l.Queue.Add(ns)
	}
	l.Throttled.Add(40_000_000)
	golden(t, "top", live(t, l, TerminalOptions{Width: 80}))
	golden(t, "top-empty", live(t, &Live{PID: 1, Name: "x", CPUs: 1}, TerminalOptions{}))
}

// Whatever a process is called and however its numbers run, a page is safe to print.
func FuzzAPageIsSafe(f *testing.F) {
	f.Add("service", int64(3), uint8(2))
	f.Add(attack, int64(-1), uint8(1))
	f.Fuzz(func(t *testing.T, s string, n int64, m uint8) {
		l := &Live{}
		fill(reflect.ValueOf(l).Elem(), s, n, 0.5, int(m)%90)
		safe(t, live(t, l, TerminalOptions{Width: 80}), 80)
	})
}

func TestSharesOfAHistogram(t *testing.T) {
	h := events.Histogram{0: 50, 3: 49, 20: 1}
	for q, want := range map[float64]int64{0.5: 2, 0.51: 16, 0.99: 16, 1: 1 << 21} {
		if got := below(h, q); got != want {
			t.Errorf("%g of them are below %d, want %d", q, got, want)
		}
	}
	if got := below(nil, 0.99); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
	if got := strip(h); !strings.HasPrefix(got, "1 ns |") && !strings.Contains(got, "|") || strings.Count(got, "|") != 2 {
		t.Errorf("%q", got)
	}
}
