package blame

import (
	"cmp"
	"slices"
)

// numbers numbers the keys of all pieces there are, in the order in which they come up.
type numbers struct {
	keys []Key
	ids  []KeyID // by number; -1 for those of which no request has a piece yet
	// number and way are the numbers of keys and of hops. Most pieces have the hops of the
	// one before, so it takes a key without its hops to find its number.
	number map[short]int32
	way    map[hops]uint32
	last   hops
	at     uint32
}

// hops are the hops of a key, short is the rest of it, with the number of the hops. Without
// gaps it is fast to hash.
type hops struct{ first, queue, last Hop }

type short struct {
	way    uint32
	site   SiteID
	flags  Flags
	class  ClassID
	reason uint16
	kind   LeafKind
	more   [2]uint8 // Starter, Off
}

// of returns the number of a key.
func (n *numbers) of(k *Key) int32 {
	if h := (hops{k.First, k.Queue, k.Last}); n.number == nil || h != n.last {
		if n.number == nil {
			n.number, n.way = map[short]int32{}, map[hops]uint32{}
		}
		id, ok := n.way[h]
		if !ok {
			id = uint32(len(n.way))
			n.way[h] = id
		}
		n.last, n.at = h, id
	}
	l := short{n.at, k.Site, k.Flags, k.Class, k.Reason, k.Kind, [2]uint8{uint8(k.Starter), uint8(k.Off)}}
	id, ok := n.number[l]
	if !ok {
		id = int32(len(n.keys))
		n.number[l] = id
		n.keys, n.ids = append(n.keys, *k), append(n.ids, -1)
	}
	return id
}

// portion is a number of nanoseconds of the key with a number.
type portion struct {
	number int32
	ns     int64
}

// tally sums up nanoseconds by the numbers of keys.
type tally struct {
	ns   []int64 // by number
	used []int32 // the numbers of which there are any
}

func (t *tally) add(number int32, ns int64) {
	if int(number) >= len(t.ns) {
		t.ns = append(t.ns, make([]int64, int(number)+1-len(t.ns))...)
	}
	if t.ns[number] == 0 {
		t.used = append(t.used, number)
	}
	t.ns[number] += ns
}

// take appends what was summed up to out, and begins anew.
func (t *tally) take(out []portion) []portion {
	for _, n := range t.used {
		out = append(out, portion{n, t.ns[n]})
		t.ns[n] = 0
	}
	t.used = t.used[:0]
	return out
}

// pieces returns portions as pieces, in order of keys. Keys that none had before get ids.
func (w *walker) pieces(ps []portion) []Piece {
	a, n := w.a, &w.a.numbers
	w.fresh = w.fresh[:0]
	for _, p := range ps {
		if n.ids[p.number] < 0 {
			w.fresh = append(w.fresh, p.number)
		}
	}
	slices.SortFunc(w.fresh, func(x, y int32) int { return compareKeys(n.keys[x], n.keys[y]) }) // ids must not depend on the way of a walk
	for _, number := range w.fresh {
		n.ids[number] = KeyID(len(a.Keys))
		a.Keys = append(a.Keys, n.keys[number])
	}
	if cap(w.slab)-len(w.slab) < len(ps) {
		w.slab = make([]Piece, 0, max(slabPieces, len(ps)))
	}
	begin := len(w.slab)
	for _, p := range ps {
		w.slab = append(w.slab, Piece{n.ids[p.number], p.ns})
	}
	out := w.slab[begin:len(w.slab):len(w.slab)]
	slices.SortFunc(out, func(x, y Piece) int { return cmp.Compare(x.Key, y.Key) })
	return out
}

// slabPieces is for how many pieces space is made at a time.
const slabPieces = 4096
