//go:build cgobatchdebug

package cgobatch

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"sync"
)

// debugging is whether misuse panics.
const debugging = true

// poison fills released arenas: as an address it is none, as a length it is too large.
const poison = 0xdb

// ledger knows who released an arena.
type ledger struct {
	mu       sync.Mutex
	releases [16]struct { // the last ones; those of generation g are at g % 16
		generation uint64
		stack      []byte
	}
	last     uint64 // generation of the last release
	poisoned bool
}

// lend finds what was written after the last release.
func (l *ledger) lend(m *memory) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.poisoned {
		return
	}
	l.poisoned = false
	for i, b := range m.all {
		if b != poison {
			misuse(fmt.Sprintf("byte %d of an arena was written after its release, by Go or C\n\nreleased by:\n%s", i, l.releases[l.last%16].stack))
		}
	}
}

// release notes who released a generation, and poisons the memory.
func (l *ledger) release(m *memory, generation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.releases[generation%16]
	r.generation, r.stack = generation, bytes.Clone(debug.Stack())
	l.last, l.poisoned = generation, true
	for i := range m.all {
		m.all[i] = poison
	}
}

// accuse panics with the stacks of a use and of the release before it.
func (l *ledger) accuse(use string, generation uint64) {
	l.mu.Lock()
	stack := []byte("(16 releases ago or more, or being released now)")
	if r := l.releases[generation%16]; r.generation == generation && r.stack != nil {
		stack = r.stack
	}
	l.mu.Unlock()
	misuse(fmt.Sprintf("%s of an arena after its release\n\nreleased by:\n%s", use, stack))
}

func misuse(what string) {
	panic(fmt.Sprintf("cgobatch: %s\n\nused by:\n%s", what, debug.Stack()))
}
