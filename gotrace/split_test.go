package gotrace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/whylate/whylate/internal/need"
)

// split returns the sections of a trace.
func split(t *testing.T, r io.Reader, most int64) (out []*Section, s *Splitter) {
	t.Helper()
	s, err := Split(r, most)
	if err != nil {
		t.Fatal(err)
	}
	for {
		x, err := s.Next()
		if err == io.EOF {
			return out, s
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
}

// Each section, read at the same time as the others, is what its generations are as a trace of
// their own.
func TestSectionsAreTracesOfTheirOwn(t *testing.T) {
	several := 0
	for _, f := range fixtures(t) {
		at := begins(t, f.data)
		for _, most := range []int64{1, int64(len(f.data) / 3), int64(len(f.data)) * 2} {
			sections, s := split(t, bytes.NewReader(f.data), most)
			if s.Offset() != int64(len(f.data)) {
				t.Fatalf("%s: %d of %d bytes were read", f.name, s.Offset(), len(f.data))
			}
			if most == 1 && len(sections) != len(at)-1 || most > int64(len(f.data)) && len(sections) != 1 {
				t.Fatalf("%s: %d sections of %d generations", f.name, len(sections), len(at)-1)
			}
			var wg sync.WaitGroup
			next := int64(0)
			for i, x := range sections {
				if x.Begin() != next || i > 0 && !isOne(at, x.Begin()) {
					t.Fatalf("%s: a section from %d, the one before to %d, generations at %d", f.name, x.Begin(), next, at)
				}
				to := len(f.data)
				if next = x.End(); i < len(sections)-1 {
					for k, begin := range at {
						if int64(begin) == next {
							to = at[k+1]
						}
					}
				} else if next != math.MaxInt64 {
					t.Fatalf("%s: the last section ends at %d", f.name, next)
				}
				alone := append(bytes.Clone(f.data[:headerLen]), f.data[max(x.Begin(), headerLen):to]...)
				wg.Go(func() {
					want, _ := parts(t, alone)
					got, err := tell(x.Reader())
					if err != io.EOF {
						t.Errorf("%s from %d: %v", f.name, x.Begin(), err)
						return
					}
					agree(t, got, want[0])
				})
			}
			wg.Wait()
			if len(sections) > 1 {
				several++
			}
		}
	}
	if several < 10 && !need.Raced {
		t.Errorf("only %d traces have several sections", several)
	}
}

func isOne(all []int, x int64) bool {
	for _, a := range all {
		if int64(a) == x {
			return true
		}
	}
	return false
}

// Sections lose no more to damage than who reads the trace as one, and say where it is.
func TestDamageEndsASection(t *testing.T) {
	damaged := 0
	for _, f := range fixtures(t) {
		at := begins(t, f.data)
		if len(at) < 4 {
			continue
		}
		for name, damage := range map[string]func(b []byte){
			"nothing":        func(b []byte) { clear(b[len(b)/2 : min(len(b)/2+4096, len(b))]) },
			"no batch":       func(b []byte) { b[0] = 0xff },
			"the first size": func(b []byte) { b[firstSize(b)+1] ^= 0x35 },
			"an event":       func(b []byte) { clear(b[len(b)/4:][:8]) },
		} {
			data := bytes.Clone(f.data)
			damage(data[at[1]:at[2]])
			whole, lost := parts(t, data)
			if len(lost) != 1 {
				continue // nobody looks there
			}
			damaged++
			for _, most := range []int64{1, int64(len(data)) * 2} {
				var got [][]told
				var first *CorruptError
				sections, s := split(t, bytes.NewReader(data), most)
				for _, x := range sections {
					for r := x.Reader(); ; {
						events, err := tell(r)
						var c *CorruptError
						if errors.As(err, &c) {
							if c.Good < x.End() && first == nil {
								first = c
							}
						} else if err != io.EOF {
							t.Fatal(err)
						}
						if x.End() != int64(at[1]) && x.Begin() != int64(at[1]) && len(events) > 1 && most > 1 {
							got = append(got, events)
						}
						if c == nil || !r.Resume() {
							break
						}
					}
				}
				if s.Offset() != int64(len(data)) {
					t.Errorf("%s, %s: %d of %d bytes were read", f.name, name, s.Offset(), len(data))
				}
				if first == nil || first.Good != lost[0].Good || first.Offset != lost[0].Offset || first.Error() != lost[0].Error() {
					t.Fatalf("%s, %s, sections of %d: lost %v, as one %v", f.name, name, most, first, lost[0])
				}
				if most == 1 {
					last := sections[len(sections)-1]
					if !isOne(at[2:], last.Begin()) {
						t.Errorf("%s, %s: the last section begins at %d, generations at %d", f.name, name, last.Begin(), at)
					}
					continue
				}
				if len(got) != len(whole) {
					t.Fatalf("%s, %s: %d parts, as one %d", f.name, name, len(got), len(whole))
				}
				for i := range got {
					agree(t, withoutTimes(got[i]), withoutTimes(whole[i]))
				}
			}
		}
	}
	if damaged < 10 && !need.Raced {
		t.Errorf("only %d traces were damaged", damaged)
	}
}

// loaded tells which generations of a trace can be read but for their events, and what is damaged.
func loaded(r *Reader, end int64, add func(string)) {
	for damages := 0; ; damages++ {
		good, err := r.load.next(&r.gen)
		if good && r.gen.begin < end {
			add(fmt.Sprintf("generation %d of %d to %d", r.gen.number, r.gen.begin, r.gen.end))
		}
		if err == nil && !good {
			return
		}
		if err == nil {
			continue
		}
		if at := r.gen.begin; at < end {
			add(fmt.Sprintf("behind %d, good %t: %v", at, good, err))
		}
		if damages == maxDamages || !r.load.skip(&r.gen) {
			return
		}
	}
}

// However a trace is damaged, sections reach what one Reader reaches, and find the same damage.
func TestSectionsReachWhatOneReaderReaches(t *testing.T) {
	damaged := 0
	check := func(name string, data []byte) {
		t.Helper()
		whole, err := NewReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		var want []string
		loaded(whole, math.MaxInt64, func(what string) { want = append(want, what) })
		for _, most := range []int64{1, int64(len(data) / 2)} {
			var got []string
			sections, _ := split(t, bytes.NewReader(data), most)
			for _, x := range sections {
				loaded(x.Reader(), x.End(), func(what string) { got = append(got, what) })
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s, sections of %d:\n%q\nwant\n%q", name, most, got, want)
			}
		}
		if len(want) > 0 && strings.Contains(strings.Join(want, " "), "behind") {
			damaged++
		}
	}
	mutated(t, 300, check)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, f := range fixtures(t) {
		for range 60 {
			data := bytes.Clone(f.data)
			at := headerLen + rng.IntN(len(data)-headerLen) // what was recorded now may be short
			switch rng.IntN(3) {
			case 0:
				data = slices.Delete(data, at, min(at+1+rng.IntN(5000), len(data)))
			case 1:
				for i := range min(512, len(data)-at) {
					data[at+i] = byte(rng.Uint32())
				}
			default:
				clear(data[at:min(at+4096, len(data))])
			}
			check(f.name, data)
		}
	}
	if damaged < 500 && !need.Raced {
		t.Errorf("only %d traces were damaged", damaged)
	}
}

// lastly fails behind some bytes.
type lastly struct {
	r   io.Reader
	err error
}

func (f *lastly) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

// An error of the input is one of the last section.
func TestErrorsOfTheInputAreTold(t *testing.T) {
	broken, told := errors.New("the disk is gone"), 0
	for _, f := range fixtures(t) {
		sections, _ := split(t, &lastly{bytes.NewReader(f.data[:len(f.data)/2]), broken}, 1)
		whole, err := NewReader(&lastly{bytes.NewReader(f.data[:len(f.data)/2]), broken})
		if err != nil {
			t.Fatal(err)
		}
		_, want := tell(whole)
		_, err = tell(sections[len(sections)-1].Reader())
		if err.Error() != want.Error() {
			t.Errorf("%s: the last of %d sections ends with %v, want %v", f.name, len(sections), err, want)
		}
		if errors.Is(err, broken) {
			told++
		}
	}
	if told < 3 && !need.Raced {
		t.Errorf("%d of the traces ended with the error", told)
	}
}

// What is between damage and where reading goes on is not kept.
func TestGarbageTakesNoMemory(t *testing.T) {
	f := fixtures(t)[0]
	const n = 64 << 20
	in := io.MultiReader(bytes.NewReader(f.data), io.LimitReader(zeros{}, n), bytes.NewReader(f.data[headerLen:]))
	s, err := Split(in, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	most := uint64(0)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for err == nil {
		_, err = s.Next()
		runtime.GC()
		runtime.ReadMemStats(&after)
		most = max(most, after.HeapAlloc-min(after.HeapAlloc, before.HeapAlloc))
	}
	if want := int64(2*len(f.data)) + n - headerLen; s.Offset() != want {
		t.Errorf("%d of %d bytes were read: %v", s.Offset(), want, err)
	}
	if most > n/2 {
		t.Errorf("%d bytes were kept", most)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// FuzzSplit divides anything: the sections follow each other, their Readers come to an end, and
// none needs much more memory than the input.
func FuzzSplit(f *testing.F) {
	seed, err := os.ReadFile("testdata/tiny.trace")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, 1)
	f.Add(seed[:len(seed)/2], 1)
	f.Add(append(bytes.Clone(seed), seed[headerLen:]...), 1)
	f.Add(append(append(bytes.Clone(seed), 0xff), seed[headerLen:]...), len(seed))
	f.Add(seed[:headerLen], 1<<20)
	f.Fuzz(func(t *testing.T, data []byte, most int) {
		s, err := Split(bytes.NewReader(data), int64(max(1, most)))
		if _, other := NewReader(bytes.NewReader(data)); (err == nil) != (other == nil) {
			t.Fatalf("%v, but of a Reader %v", err, other)
		}
		if err != nil {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		sections, next := 0, int64(0)
		for {
			x, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if sections++; x.Begin() != next || x.End() <= x.Begin() || sections > len(data)+1 {
				t.Fatalf("section %d is from %d to %d, the one before to %d", sections, x.Begin(), x.End(), next)
			}
			next = x.End()
			r := x.Reader()
			for events, damages := 0, 0; ; {
				var ev Event
				err := r.Next(&ev)
				if err == nil {
					if events++; events > 16*len(data) {
						t.Fatalf("%d events from %d bytes", events, len(data))
					}
					continue
				}
				var lost *CorruptError
				if errors.As(err, &lost) && (lost.Good < x.Begin() || lost.Good > int64(len(data)) || lost.Offset < x.Begin() || lost.Offset > int64(len(data))) {
					t.Fatalf("%d bytes, damage at %d, %d good, in a section from %d", len(data), lost.Offset, lost.Good, x.Begin())
				}
				if damages++; !r.Resume() {
					break
				}
				if damages > len(data) {
					t.Fatalf("%d damages in %d bytes", damages, len(data))
				}
			}
		}
		if s.Offset() > int64(len(data)) {
			t.Fatalf("%d of %d bytes were read", s.Offset(), len(data))
		}
		// A Reader needs so much for itself.
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > uint64(128*len(data)+4<<20+sections<<20) {
			t.Fatalf("%d bytes allocated for %d in %d sections", after.TotalAlloc-before.TotalAlloc, len(data), sections)
		}
	})
}
