package clock

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// enough is the CPU time of which a profile says what part something takes: of 100 samples the standard deviation is 5 % at
// most.
const enough = 100 * 10 * time.Millisecond

// record returns a CPU profile of work, which is repeated until enough samples have come: on a machine that is busy
// that takes longer.
func record(t testing.TB, work func()) []byte {
	t.Helper()
	for d := 500 * time.Millisecond; ; d *= 2 {
		var b bytes.Buffer
		if err := pprof.StartCPUProfile(&b); err != nil {
			t.Skip(err) // the tests themselves are being profiled
		}
		for start := time.Now(); time.Since(start) < d; {
			work()
		}
		pprof.StopCPUProfile()
		if sampled(t, b.Bytes()) >= enough || d > 10*time.Second {
			return b.Bytes()
		}
	}
}

// sampled is the CPU time of all samples of a profile.
func sampled(t testing.TB, cpu []byte) (sum time.Duration) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(cpu))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.samples {
		sum += time.Duration(s.value)
	}
	return sum
}

//go:noinline
func stamps() {
	for i := 0; i < 1_000_000; i++ {
		sink = time.Now()
	}
}

var total int

//go:noinline
func sums() {
	for i := 0; i < 10_000_000; i++ {
		total += i * i
	}
}

func TestAProfileTellsWhetherACheaperClockPays(t *testing.T) {
	w, err := Pays(bytes.NewReader(record(t, stamps)))
	if err != nil {
		t.Fatal(err)
	}
	if !w.Pays || w.Clock < 0.5 || len(w.Callers) == 0 || !strings.HasSuffix(w.Callers[0].Function, "clock.stamps") {
		t.Errorf("of a program that does nothing else: %+v", w)
	}
	if !strings.Contains(w.String(), "may pay") || !strings.Contains(w.String(), "stamps") {
		t.Error(w)
	}
	w, err = Pays(bytes.NewReader(record(t, sums)))
	if err != nil {
		t.Fatal(err)
	}
	if w.Pays || !strings.Contains(w.String(), "does not pay") {
		t.Errorf("of a program that reads no clock: %+v", w)
	}
}

func TestWhoAskedForTheTimeIsTold(t *testing.T) {
	p := &profile{
		functions: map[uint64]string{1: "time.Now", 2: "runtime.nanotime1", 3: "main.handle", 4: "runtime.findRunnable", 5: "time.Since", 6: "main.log", 7: "time.now", 8: "time.NewTimer"},
		locations: map[uint64][]uint64{10: nil, 11: {1}, 12: {2}, 13: {3}, 14: {4}, 15: {5, 6}, 17: {7}, 18: {8}},
	}
	for _, c := range []struct {
		name      string
		locations []uint64
		read      bool
		caller    string
	}{
		{"time.Now", []uint64{11, 13}, true, "main.handle"},
		{"in the vDSO, which has no names", []uint64{10, 12, 17, 11, 13}, true, "main.handle"},
		{"inlined into its caller", []uint64{12, 15, 13}, true, "main.log"},
		{"the scheduler", []uint64{12, 14}, true, ""},
		{"a timer, which has no other clock", []uint64{12, 18, 13}, true, ""},
		{"code that was called with a time", []uint64{13, 11, 13}, false, ""},
		{"a stack that is cut above it", []uint64{11}, true, "unknown"},
	} {
		if read, caller := p.reading(sample{locations: c.locations}); read != c.read || caller != c.caller {
			t.Errorf("%s: %v %q, want %v %q", c.name, read, caller, c.read, c.caller)
		}
	}
}

func TestSomethingElseIsNoProfile(t *testing.T) {
	var heap bytes.Buffer
	if err := pprof.WriteHeapProfile(&heap); err != nil {
		t.Fatal(err)
	}
	good := record(t, sums)
	for name, data := range map[string][]byte{
		"nothing":         nil,
		"text":            []byte("goroutine 1 [running]:\n"),
		"a heap profile":  heap.Bytes(),
		"half a profile":  good[:len(good)/2],
		"a gzip of zeros": {0x1f, 0x8b, 0, 0},
	} {
		if w, err := Pays(bytes.NewReader(data)); !errors.Is(err, ErrProfile) {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
	if _, err := Pays(io.MultiReader(bytes.NewReader(good[:10]), broken{})); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the reader's error is lost: %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func FuzzPays(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x0a\x04\x08\x01\x10\x02\x12\x04\x0a\x00\x10\x01\x32\x00\x32\x03cpu"))
	f.Add(record(f, stamps))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := Pays(bytes.NewReader(b))
		if err == nil && (w.Clock < 0 || w.Clock > 1 || w.Runtime < 0 || w.Clock+w.Runtime > 1.0001) {
			t.Errorf("%+v", w)
		}
	})
}
