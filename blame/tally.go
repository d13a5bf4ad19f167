package blame

import (
	"cmp"
	"math/bits"
	"slices"
)

// numbers numbers the keys of all pieces there are, in the order in which they come up.
type numbers struct {
	keys []Key
	ids  []KeyID // by number; -1 for those of which no request has a piece yet
	// Most pieces have the hops of the one before: last is the number of those.
	way  map[hops]uint32
	hops hops
	last uint32
	// short are the keys with numbers of their hops. table finds them: numbers, plus 1, where
	// their hashes say or in the next free place; at least half of it is free.
	short []short
	table []int32
}

// hops are those of a key, short is a key with a number of its hops.
type hops struct{ first, queue, last Hop }

type short struct {
	way           uint32
	site          SiteID
	flags         Flags
	class         ClassID
	reason        uint16
	kind          LeafKind
	starter, more uint8 // Key.Starter, Key.Off
}

func (s *short) hash() uint64 {
	x := uint64(s.way)<<32 | uint64(s.site)
	y := uint64(s.flags)<<48 | uint64(s.class)<<32 | uint64(s.reason)<<16 | uint64(s.kind)<<8 | uint64(s.starter)<<4 ^ uint64(s.more)
	high, low := bits.Mul64(x^0x9e3779b97f4a7c15, y^0xbf58476d1ce4e5b9)
	return high ^ low
}

// of returns the number of a key that has the hops h instead of its own.
func (n *numbers) of(h *hops, k *Key) int32 {
	n.wayOf(h)
	if 2*len(n.short) >= len(n.table) {
		n.grow()
	}
	s := short{n.last, k.Site, k.Flags, k.Class, k.Reason, k.Kind, uint8(k.Starter), uint8(k.Off)}
	at := n.find(&s)
	if *at == 0 {
		key := *k
		key.First, key.Queue, key.Last = h.first, h.queue, h.last
		n.keys, n.ids, n.short = append(n.keys, key), append(n.ids, -1), append(n.short, s)
		*at = int32(len(n.keys))
	}
	return *at - 1
}

// wayOf returns the number of hops.
func (n *numbers) wayOf(h *hops) uint32 {
	if n.way == nil || *h != n.hops {
		if n.way == nil {
			n.way = map[hops]uint32{}
		}
		id, ok := n.way[*h]
		if !ok {
			id = uint32(len(n.way))
			n.way[*h] = id
		}
		n.hops, n.last = *h, id
	}
	return n.last
}

// find returns the place of a key in the table.
func (n *numbers) find(s *short) *int32 {
	mask := uint64(len(n.table) - 1)
	for i := s.hash() & mask; ; i = (i + 1) & mask {
		if at := &n.table[i]; *at == 0 || n.short[*at-1] == *s {
			return at
		}
	}
}

func (n *numbers) grow() {
	n.table = make([]int32, max(1024, 2*len(n.table)))
	for i := range n.short {
		*n.find(&n.short[i]) = int32(i + 1)
	}
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
