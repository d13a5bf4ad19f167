package gotrace

import (
	"bytes"
	"errors"
	"io"
	"testing"
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
	for _, f := range fixtures(t) {
		at := begins(t, f.data)
		if len(at) < 4 {
			continue // nothing is behind the one in the middle
		}
		for name, damage := range map[string]func([]byte){
			"bytes of nothing":  func(b []byte) { clear(b[len(b)/2 : len(b)/2+min(len(b)/4, 4096)]) },
			"a flipped size":    func(b []byte) { b[6] ^= 0x40 },
			"events of no kind": func(b []byte) { b[len(b)/3] = 0xff; b[len(b)/3+1] = 0xff; b[len(b)/3+2] = 0xff },
			"a head in the way": func(b []byte) { copy(b[len(b)/2:], []byte{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}) },
		} {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				data := bytes.Clone(f.data)
				damage(data[at[1]:at[2]])
				got, lost := parts(t, data)
				if len(lost) == 0 {
					t.Skip("the damage is none: it hit nothing that is looked at")
				}
				if len(lost) != 1 || len(got) != 2 || lost[0].Good != int64(at[1]) {
					t.Fatalf("%d parts, lost: %v", len(got), lost)
				}
				if lost[0].Offset < int64(at[1]) || lost[0].Offset > int64(at[2]) {
					t.Errorf("damage of %d to %d is noticed at %d", at[1], at[2], lost[0].Offset)
				}
				want, err := fromOracle(append(bytes.Clone(data[:headerLen]), data[at[2]:]...))
				if err != io.EOF {
					t.Fatal(err)
				}
				agree(t, withoutSync(got[1]), withoutSync(want))
			})
		}
	}
}

// withoutSync leaves out what has the time of the reading before.
func withoutSync(all []told) (out []told) {
	for _, e := range all {
		if e.kind != "sync" {
			out = append(out, e)
		}
	}
	return out
}
