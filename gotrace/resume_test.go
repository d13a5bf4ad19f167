package gotrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/whylate/whylate/internal/need"
)

// begins returns where the generations of a trace begin, and where the last one ends.
func begins(t *testing.T, data []byte) (out []int) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var ev Event
	for err = r.Next(&ev); err == nil; err = r.Next(&ev) {
		if ev.Kind == KindSync {
			out = append(out, int(ev.Value))
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	if out[0] != headerLen || out[len(out)-1] != len(data) {
		t.Fatalf("generations at %d of %d bytes", out, len(data))
	}
	return out
}

// parts reads a trace and goes on behind damage. It returns what was read of each part.
func parts(t *testing.T, data []byte) (out [][]told, lost []*CorruptError) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for {
		events, err := tell(r)
		out = append(out, events)
		if err == io.EOF {
			return out, lost
		}
		var c *CorruptError
		if !errors.As(err, &c) {
			t.Fatal(err)
		}
		lost = append(lost, c)
		if !r.Resume() {
			return out, lost
		}
	}
}

// Whatever a generation has in the place of some of its bytes, those before and behind are read
// as if it were the end, and the beginning, of a trace.
func TestOneDamagedGenerationIsAllThatIsLost(t *testing.T) {
	noticed := map[string]int{}
	for _, f := range fixtures(t) {
		at := begins(t, f.data)
		if len(at) < 4 || f.name == "go1.24" || f.name == "go1.23" { // nothing is behind the one in the middle; formats that 1.22 and 1.25 stand for
			continue
		}
		for name, damage := range map[string]func(b []byte, i int){
			"nothing":           func(b []byte, i int) { clear(b[i:min(i+4096, len(b))]) },
			"events of no kind": func(b []byte, i int) { copy(b[i:], "\xff\xff\xff\xff") },
			"heads of batches":  func(b []byte, i int) { copy(b[i:], bytes.Repeat([]byte{evEventBatch}, 64)) },
			"the first size":    func(b []byte, i int) { b[firstSize(b)] ^= byte(1 + i%63) },
		} {
			for i := 3; i < 10; i += 4 {
				data := bytes.Clone(f.data)
				b := data[at[1]:at[2]]
				damage(b, len(b)*i/10)
				got, lost := parts(t, data)
				if len(lost) == 0 {
					continue // it hit what nobody looks at
				}
				noticed[name]++
				if len(lost) != 1 || len(got) != 2 || lost[0].Good != int64(at[1]) {
					t.Fatalf("%s, %s at %d of 10: %d parts, lost: %v", f.name, name, i, len(got), lost)
				}
				if lost[0].Offset < int64(at[1]) || lost[0].Offset > int64(at[2])+maxBatch {
					t.Errorf("%s, %s: damage of %d to %d is noticed at %d", f.name, name, at[1], at[2], lost[0].Offset)
				}
				want, err := fromOracle(append(bytes.Clone(data[:headerLen]), data[at[2]:]...))
				if err != io.EOF {
					t.Fatal(err)
				}
				agree(t, withoutTimes(got[1]), withoutTimes(want))
			}
		}
	}
	for _, name := range []string{"nothing", "events of no kind", "heads of batches", "the first size"} {
		if noticed[name] < 3 && !need.Raced {
			t.Errorf("%s: noticed %d times", name, noticed[name])
		}
	}
}

// firstSize returns where the size of the first batch stands.
func firstSize(data []byte) int {
	at := 1
	for range 3 {
		_, n := binary.Uvarint(data[at:])
		at += n
	}
	return at
}

// withoutTimes leaves out the times, which go on from those before the damage, and what has
// nothing else.
func withoutTimes(all []told) (out []told) {
	for _, e := range all {
		if e.kind != "sync" && e.kind != "task" { // the end of a task knows its name
			_, e.text, _ = strings.Cut(e.text, " ")
			out = append(out, e)
		}
	}
	return out
}
