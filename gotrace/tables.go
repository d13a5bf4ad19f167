package gotrace

import (
	"encoding/binary"
	"fmt"
	"math"
)

// index maps the ids of a table, which are dense unless a trace is damaged, to places in a
// slice. Its memory is bounded by the number of ids.
type index struct {
	n      int
	dense  []int32 // place + 1
	sparse map[uint64]int32
}

func (x *index) reset() {
	x.n = 0
	clear(x.dense) // behind it are zeros already
	x.dense = x.dense[:0]
	x.sparse = nil
}

// put gives id the next place, and reports whether it had none.
func (x *index) put(id uint64) bool {
	if x.get(id) >= 0 {
		return false
	}
	x.n++
	switch {
	case id < uint64(len(x.dense)):
		x.dense[id] = int32(x.n)
	case id < uint64(4*x.n+1024):
		if n := int(id) + 1; n <= cap(x.dense) {
			x.dense = x.dense[:n]
		} else {
			x.dense = append(x.dense, make([]int32, n-len(x.dense))...)
		}
		x.dense[id] = int32(x.n)
	default:
		if x.sparse == nil {
			x.sparse = map[uint64]int32{}
		}
		x.sparse[id] = int32(x.n)
	}
	return true
}

// get returns the place of id, or a negative number.
func (x *index) get(id uint64) int {
	if id < uint64(len(x.dense)) {
		if at := x.dense[id]; at != 0 {
			return int(at) - 1
		}
	}
	if x.sparse != nil {
		return int(x.sparse[id]) - 1
	}
	return -1
}

// texts are the strings of a generation. The empty string has number 0.
type texts struct {
	index
	list  []text
	names *names
}

type text struct {
	raw   []byte // of the generation
	s     string
	known bool
}

func (t *texts) reset() {
	t.index.reset()
	clear(t.list)
	t.list = t.list[:0]
}

// add reads a batch of strings.
func (t *texts) add(data []byte) error {
	return eachString(data[1:], func(id uint64, s []byte) error {
		if id == 0 || !t.put(id) {
			return fmt.Errorf("two strings of number %d", id)
		}
		t.list = append(t.list, text{raw: s})
		return nil
	})
}

func (t *texts) has(id uint64) bool { return id == 0 || t.get(id) >= 0 }

// text returns a string; all ids of a generation have been checked by has.
func (t *texts) text(id uint64) string {
	i := t.get(id)
	if i < 0 {
		return ""
	}
	x := &t.list[i]
	if !x.known {
		x.s, x.known = t.names.of(x.raw), true
	}
	return x.s
}

// names are strings that generations share. Those of annotations may be many and are
// forgotten when they are.
type names struct {
	known map[string]string
	stops map[string]string
}

const maxNames = 1 << 14

func (n *names) of(raw []byte) string {
	if s, ok := n.known[string(raw)]; ok {
		return s
	}
	if len(n.known) >= maxNames {
		clear(n.known)
	}
	if n.known == nil {
		n.known = map[string]string{}
	}
	s := string(raw)
	n.known[s] = s
	return s
}

// stop returns the name of the range in which the world stands still for a reason.
func (n *names) stop(why string) string {
	if s, ok := n.stops[why]; ok {
		return s
	}
	if len(n.stops) >= maxNames {
		clear(n.stops)
	}
	if n.stops == nil {
		n.stops = map[string]string{}
	}
	s := "stop-the-world (" + why + ")"
	n.stops[why] = s
	return s
}

// stackTable has the stacks of a generation. That of number 0 is empty.
type stackTable struct {
	index
	list []stackEntry
	all  *Stacks // those of all generations
}

type stackEntry struct {
	frames []byte // of the generation: four numbers each, which are there
	n      int32
	known  bool
	id     StackID
}

func (t *stackTable) reset() {
	t.index.reset()
	clear(t.list)
	t.list = t.list[:0]
}

// add reads a batch of stacks.
func (t *stackTable) add(data []byte) error {
	data = data[1:]
	var err error
	number := func() (v uint64) {
		if err == nil {
			v, data, err = uvarint(data)
		}
		return v
	}
	for len(data) > 0 {
		if data[0] != evStack {
			return fmt.Errorf("an event of kind %d among stacks", data[0])
		}
		data = data[1:]
		id, n := number(), number()
		if err == nil && n > maxInARow {
			return fmt.Errorf("a stack of %d frames, at most %d", n, maxInARow)
		}
		begin := data
		for i := 0; i < 4*int(n) && err == nil; i++ {
			number()
		}
		if err != nil {
			return err
		}
		if id == 0 || !t.put(id) {
			return fmt.Errorf("two stacks of number %d", id)
		}
		t.list = append(t.list, stackEntry{frames: begin[:len(begin)-len(data)], n: int32(n)})
	}
	return nil
}

// check reports a stack whose names are not in the table of strings.
func (t *stackTable) check(names *texts) error {
	for i := range t.list {
		data := t.list[i].frames
		for len(data) > 0 {
			var v [4]uint64
			data = quad(data, &v)
			if !names.has(v[1]) || !names.has(v[2]) {
				return fmt.Errorf("a stack has the strings %d and %d: one is missing", v[1], v[2])
			}
		}
	}
	return nil
}

// quad reads the numbers of a frame.
func quad(data []byte, v *[4]uint64) []byte {
	for i := range v {
		x, n := binary.Uvarint(data)
		v[i], data = x, data[n:]
	}
	return data
}

func (t *stackTable) has(id uint64) bool { return id == 0 || t.get(id) >= 0 }

// stack returns the number that all generations have for a stack, 0 for one that is missing.
func (t *stackTable) stack(id uint64, names *texts) StackID {
	if id == 0 {
		return 0
	}
	i := t.get(id)
	if i < 0 {
		return 0
	}
	x := &t.list[i]
	if !x.known {
		x.known, x.id = true, t.all.Intern(func(yield func(Frame) bool) {
			for data := x.frames; len(data) > 0; {
				var v [4]uint64
				data = quad(data, &v)
				f := Frame{PC: v[0], Func: names.text(v[1]), File: names.text(v[2]), Line: int(min(v[3], math.MaxInt32))}
				if !yield(f) {
					return
				}
			}
		})
	}
	return x.id
}
