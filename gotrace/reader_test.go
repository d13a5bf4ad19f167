package gotrace

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestWhatIsNoTraceIsSaidSo(t *testing.T) {
	header := func(v string) string { return "go 1." + v + " trace\x00\x00\x00" }
	for _, c := range []struct{ name, input, want string }{
		{"nothing", "", "shorter than its header"},
		{"a few bytes", "go 1.26", "shorter than its header"},
		{"a page of HTML", "<!DOCTYPE html><html><body>404", "it begins with"},
		{"a profile", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff\x00\x00\x00\x00\x00\x00", "it begins with"},
		{"go1.21", header("21"), "go1.22 or newer is needed"},
		{"go1.11", header("11"), "go1.22 or newer is needed"},
		{"a release of the far future", header("99"), ""},
		{"a negative release", header("-3"), ""},
		{"a release with rubbish behind it", "go 1.22 trick\x00\x00\x00", "it begins with"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewReader(strings.NewReader(c.input))
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	t.Run("a header alone is an empty trace", func(t *testing.T) {
		if n, err := drain([]byte(header("26"))); n > 1 || err != io.EOF {
			t.Errorf("%d events, %v", n, err)
		}
	})
}

func TestVersionIsThatOfTheFormat(t *testing.T) {
	// go1.24 did not change the format of go1.23.
	want := map[string]string{"go1.22": "go1.22", "go1.23": "go1.23", "go1.24": "go1.23", "go1.25": "go1.25", "go1.26": "go1.26"}
	for _, f := range fixtures(t) {
		if f.name == "live" {
			continue
		}
		r, err := NewReader(bytes.NewReader(f.data))
		if err != nil {
			t.Fatal(err)
		}
		if r.Version() != want[f.name] {
			t.Errorf("%s: %s", f.name, r.Version())
		}
	}
}

func TestTheEndIsFinal(t *testing.T) {
	data := record(t, activity)
	for name, data := range map[string][]byte{"whole": data, "cut": data[:len(data)/2]} {
		r, err := NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		var ev Event
		for err = r.Next(&ev); err == nil; err = r.Next(&ev) {
		}
		if again := r.Next(&ev); again != err {
			t.Errorf("%s: %v, then %v", name, err, again)
		}
		if r.Offset() != int64(len(data)) && err == io.EOF {
			t.Errorf("%s: %d of %d bytes read", name, r.Offset(), len(data))
		}
	}
}

// Where the input breaks off, what came before is kept, as for a damaged trace.
func TestAFailingInputIsDamage(t *testing.T) {
	data := record(t, activity)
	r, err := NewReader(io.MultiReader(bytes.NewReader(data[:len(data)/2]), failing{errors.New("the cable broke")}))
	if err != nil {
		t.Fatal(err)
	}
	var ev Event
	for err = r.Next(&ev); err == nil; err = r.Next(&ev) {
	}
	var lost *CorruptError
	if !errors.As(err, &lost) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// states follows every goroutine and P: a change must begin in the state that
// the one before led to. It is what everything above relies on.
func TestChangesBeginWhereTheLastOneEnded(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			r, err := NewReader(bytes.NewReader(f.data))
			if err != nil {
				t.Fatal(err)
			}
			gs, ps := map[GoID]State{}, map[ProcID]State{}
			on, where := map[ProcID]GoID{}, map[GoID]ProcID{}
			slots, owners := map[GoID]int32{}, map[int32]GoID{}
			var last Time
			var ev Event
			for err = r.Next(&ev); err == nil; err = r.Next(&ev) {
				if ev.Kind == KindSync {
					continue
				}
				if ev.Time < last {
					t.Fatalf("time goes back from %d: %+v", last, ev)
				}
				last = ev.Time
				if slot := slots[ev.G]; ev.G != NoGoroutine && slot != 0 && slot != ev.GSlot || ev.G == NoGoroutine && ev.GSlot != 0 {
					t.Fatalf("g%d has slot %d: %+v", ev.G, slot, ev)
				}
				switch ev.Kind {
				case KindGo:
					if g, taken := owners[ev.Slot]; ev.Slot <= 0 || taken && g != ev.Go {
						t.Fatalf("the slot is that of g%d: %+v", g, ev)
					}
					slots[ev.Go], owners[ev.Slot] = ev.Slot, ev.Go
					if ev.To == NotExist {
						delete(slots, ev.Go)
						delete(owners, ev.Slot)
					}
					was, known := gs[ev.Go]
					switch {
					case known && was != ev.From, !known && ev.From != Undetermined && ev.From != NotExist:
						t.Fatalf("g%d was %v (known %t): %+v", ev.Go, was, known, ev)
					case ev.To == Undetermined || ev.To == Idle:
						t.Fatalf("g%d becomes %v", ev.Go, ev.To)
					}
					gs[ev.Go] = ev.To
					if ev.To == Running && ev.From != Undetermined && ev.From != Running && ev.P == NoProc {
						t.Fatalf("g%d runs on no P", ev.Go)
					}
					if ev.To == Running {
						if g, busy := on[ev.P]; busy && g != ev.Go && gs[g] == Running && where[g] == ev.P {
							t.Fatalf("g%d and g%d run on p%d", g, ev.Go, ev.P)
						}
						on[ev.P], where[ev.Go] = ev.Go, ev.P
					}
				case KindProc:
					was, known := ps[ev.Proc]
					if known && was != ev.From || !known && ev.From != Undetermined {
						t.Fatalf("p%d was %v: %+v", ev.Proc, was, ev)
					}
					ps[ev.Proc] = ev.To
				}
				if int(ev.Stack) >= r.Stacks().Len() || int(ev.GoStack) >= r.Stacks().Len() {
					t.Fatalf("unknown stack: %+v", ev)
				}
			}
			if err != io.EOF {
				t.Fatal(err)
			}
			if len(gs) < 5 || len(ps) < 1 {
				t.Errorf("only %d goroutines and %d Ps", len(gs), len(ps))
			}
		})
	}
}

func TestEqualStacksOfDifferentGenerationsAreOne(t *testing.T) {
	for _, f := range fixtures(t) {
		r, err := NewReader(bytes.NewReader(f.data))
		if err != nil {
			t.Fatal(err)
		}
		perGeneration := map[StackID]int{}
		seen := map[StackID]bool{}
		var ev Event
		for r.Next(&ev) == nil {
			if ev.Kind == KindSync {
				clear(seen)
			} else if ev.Kind == KindGo && ev.GoStack != 0 && !seen[ev.GoStack] {
				seen[ev.GoStack] = true
				perGeneration[ev.GoStack]++
			}
		}
		again := 0
		for _, n := range perGeneration {
			if n > 1 {
				again++
			}
		}
		if f.name != "live" && again == 0 {
			t.Errorf("%s: no stack occurs in two generations", f.name)
		}
		ids := map[string]StackID{}
		for id := range StackID(r.Stacks().Len()) {
			var b strings.Builder
			for _, fr := range r.Stacks().Frames(id) {
				b.WriteString(fr.Func + "\x00" + fr.File + "\x00")
				b.Write([]byte{byte(fr.PC), byte(fr.PC >> 8), byte(fr.PC >> 16), byte(fr.PC >> 24), byte(fr.Line), byte(fr.Line >> 8)})
			}
			if other, ok := ids[b.String()]; ok {
				t.Errorf("%s: stacks %d and %d are equal", f.name, other, id)
			}
			ids[b.String()] = id
		}
	}
}

func TestDamageNeverPanicsAndNeverInventsStates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, f := range fixtures(t) {
		damaged := 0
		for range 15 {
			data := bytes.Clone(f.data)
			for range 1 + rng.IntN(3) {
				data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
			}
			if _, err := drain(data); err != io.EOF {
				damaged++
				var lost *CorruptError
				if !errors.As(err, &lost) && !errors.Is(err, ErrFormat) {
					t.Fatalf("%s: %v", f.name, err)
				}
			}
		}
		if damaged == 0 {
			t.Errorf("%s: no flipped bit was noticed", f.name)
		}
	}
}

// Sizes and counts in a trace are claims: a batch that says it is huge must not
// make us allocate for it.
func TestClaimedSizesAreNotBelieved(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	for _, version := range []string{"22", "23", "25", "26"} {
		// A batch: its kind, generation, thread, time, size.
		data := append([]byte("go 1."+version+" trace\x00\x00\x00\x01\x01\x00\x05"), huge...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := drain(append(data, 1, 2, 3))
		runtime.ReadMemStats(&after)
		var lost *CorruptError
		if !errors.As(err, &lost) {
			t.Errorf("go1.%s: %v", version, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
			t.Errorf("go1.%s: %d bytes allocated for %d", version, n, len(data))
		}
	}
}

// drain reads everything and checks what a caller relies on even in damaged traces.
func drain(data []byte) (events int, err error) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	var ev Event
	for {
		if err := r.Next(&ev); err != nil {
			return events, err
		}
		events++
		switch {
		case ev.Kind == KindNone || ev.Kind > KindMetric:
			return events, errors.New("event of no kind")
		case ev.From > Idle || ev.To > Idle:
			return events, errors.New("no such state")
		case int(ev.Stack) >= r.Stacks().Len() || int(ev.GoStack) >= r.Stacks().Len():
			return events, errors.New("no such stack")
		}
	}
}

// FuzzReader feeds anything to the reader: it must neither panic nor return what
// is out of range, nor more events than the input has bytes for, nor need much more memory
// than the input. It always comes to an end, and so does going on behind damage.
func FuzzReader(f *testing.F) {
	seed, err := os.ReadFile("testdata/tiny.trace")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:len(seed)/2])
	f.Add(seed[:headerLen])
	f.Add([]byte("go 1.22 trace\x00\x00\x00\x01\x01\x00\x00\x05\x08\x80\xa8\xd6\xb9\x07"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewReader(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var ev Event
		events, damages := 0, 0
		for {
			if err = r.Next(&ev); err == nil {
				events++
				continue
			}
			var lost *CorruptError
			if err == io.EOF || !errors.As(err, &lost) {
				break
			}
			if lost.Good < headerLen || lost.Good > int64(len(data)) || lost.Offset < 0 || lost.Offset > int64(len(data)) {
				t.Fatalf("%d bytes, damage at %d, %d good", len(data), lost.Offset, lost.Good)
			}
			if damages++; damages > len(data) {
				t.Fatalf("%d damages in %d bytes", damages, len(data))
			}
			if !r.Resume() {
				break
			}
		}
		if err == nil || r.Resume() && err == io.EOF {
			t.Fatalf("the end is %v", err)
		}
		if events > 16*len(data) {
			t.Fatalf("%d events from %d bytes", events, len(data))
		}
		// A frame of a stack has four bytes, and becomes sixty.
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > uint64(64*len(data)+4<<20) {
			t.Fatalf("%d bytes allocated for %d", after.TotalAlloc-before.TotalAlloc, len(data))
		}
	})
}

func TestClearLeavesNothing(t *testing.T) {
	var ev Event
	for f := range reflect.ValueOf(&ev).Elem().NumField() {
		switch f := reflect.ValueOf(&ev).Elem().Field(f); f.Kind() {
		case reflect.String:
			f.SetString("of the event before")
		case reflect.Int64, reflect.Int32:
			f.SetInt(7)
		default:
			f.SetUint(7)
		}
	}
	ev.clear(place{1, 2, 3, 4})
	if want := (Event{G: 1, P: 2, M: 3, GSlot: 4, Go: NoGoroutine, Proc: NoProc, Time: 7}); ev != want { // the time is set for each
		t.Errorf("left: %+v, want %+v", ev, want)
	}
}
