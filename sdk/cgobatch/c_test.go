//go:build cgo

package cgobatch_test

import (
	"bytes"
	"context"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/whylate/whylate/sdk/cgobatch"
	"github.com/whylate/whylate/sdk/cgobatch/internal/ctest"
)

// docs returns buffers of all kinds of sizes, and their sums.
func docs(r *rand.Rand, n int) (docs [][]byte, sums []uint32) {
	for i := 0; i < n; i++ {
		b := make([]byte, r.IntN(1<<r.IntN(15)))
		for k := range b {
			b[k] = byte(r.Uint32())
		}
		h := fnv.New32a()
		h.Write(b)
		docs, sums = append(docs, b), append(sums, h.Sum32())
	}
	return docs, sums
}

// Goroutines share fewer arenas than they are, while the collector runs: C sees what each of them put in,
// copied or pinned.
func TestCSeesWhatWasPutIn(t *testing.T) {
	pool, err := cgobatch.NewPool[ctest.Item](cgobatch.Options{Items: 8, Bytes: 8 << 10, MaxArenas: 3, PinFrom: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < 20; i++ {
			runtime.GC()
		}
	}()
	var wg sync.WaitGroup
	for g := uint64(0); g < 8; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(1, g))
			for i := 0; i < 30; i++ {
				docs, want := docs(r, r.IntN(40))
				got, err := ctest.Sums(context.Background(), pool, docs)
				if err != nil {
					t.Error(err)
					return
				}
				for k := range want {
					if got[k] != want[k] {
						t.Errorf("the sum of %d bytes is %08x in C, %08x in Go", len(docs[k]), got[k], want[k])
						return
					}
				}
			}
		}()
	}
	wg.Wait()
	<-done
	pool.Metrics(func(name string, v float64) {
		switch name {
		case "cgobatch_arenas_in_use", "cgobatch_waiting", "cgobatch_stale_total":
			if v != 0 {
				t.Errorf("%s is %v in the end", name, v)
			}
		case "cgobatch_pins_total":
			if v == 0 {
				t.Error("nothing was pinned")
			}
		}
	})
}

func TestGoSeesWhatCWrote(t *testing.T) {
	pool, err := cgobatch.NewPool[ctest.Item](cgobatch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := pool.Get(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	room, at, err := a.Room(100)
	if err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte{1}, 1<<16)
	pinned, err := a.Pin(large)
	if err != nil {
		t.Fatal(err)
	}
	copy(room, bytes.Repeat([]byte{2}, 100))
	a.Append(ctest.NewItem(at, len(room)))
	a.Append(ctest.NewItem(pinned, len(large)))
	ctest.Invert(a)
	if !bytes.Equal(room, bytes.Repeat([]byte{^byte(2)}, 100)) || !bytes.Equal(large, bytes.Repeat([]byte{^byte(1)}, 1<<16)) {
		t.Error("Go does not see what C wrote")
	}
}

// BenchmarkCall is what a call costs with this version of Go; see sdk/bench/cgobatch for the rest.
func BenchmarkCall(b *testing.B) {
	for i := 0; i < b.N; i++ {
		ctest.Nop()
	}
}
