package main

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"
)

const (
	// With two CPUs, four shards that are each at work for a sixth of the time
	// leave no CPU free for about 13 % of it: well above the 1.5 % of a tail,
	// and with two thirds of the machine's time still idle.
	shards   = 4
	work     = 20 * time.Millisecond // of CPU, per round
	pause    = 100 * time.Millisecond
	pageSize = 1 << 10
)

// mirror is one shard of a copy whose pages are verified over and over.
type mirror struct {
	page  [pageSize]byte
	want  [sha256.Size]byte
	wrong int
}

func newMirror(shard int) *mirror {
	m := &mirror{}
	binary.LittleEndian.PutUint64(m.page[:], uint64(shard))
	m.want = sha256.Sum256(m.page[:])
	return m
}

// verify goes through the shard in rounds that take an equal amount of CPU time,
// however often they are interrupted.
func (m *mirror) verify() {
	pages := m.pagesIn(work)
	for {
		time.Sleep(pause/2 + rand.N(pause))
		m.round(pages)
	}
}

// round compares the digests of that many pages.
func (m *mirror) round(pages int) {
	for range pages {
		if sha256.Sum256(m.page[:]) != m.want {
			m.wrong++
		}
	}
}

// pagesIn measures how many pages take d. The best of several trials is the one
// that was disturbed least.
func (m *mirror) pagesIn(d time.Duration) int {
	const trials, pages = 12, 500
	best := time.Duration(1 << 62)
	for range trials {
		start := time.Now()
		m.round(pages)
		best = min(best, time.Since(start))
	}
	return max(1, int(d*pages/best))
}
