package main

import (
	"log"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var courses = []string{"step", "varying", "over"}

// node is a part of the live heap: 256 bytes with one pointer, a linked list within each chunk of 1 MB.
type node struct {
	next *node
	_    [248]byte
}

// heap is what is live besides the requests. It is changed by one goroutine.
type heap struct{ chunks []*node }

// become makes the live heap so many MB, a MB each half millisecond or so.
func (h *heap) become(n int) {
	for len(h.chunks) > n {
		h.chunks[len(h.chunks)-1] = nil
		h.chunks = h.chunks[:len(h.chunks)-1]
	}
	for len(h.chunks) < n {
		var list *node
		for range mb / 256 {
			list = &node{next: list}
		}
		h.chunks = append(h.chunks, list)
		if len(h.chunks)%8 == 0 {
			time.Sleep(4 * time.Millisecond)
		}
	}
}

// workers make requests.
type workers struct {
	requests atomic.Int64
	light    atomic.Bool // a fifth of the load
	stop     atomic.Bool
	group    sync.WaitGroup
	sinks    [64]struct {
		b *[]byte
		_ [56]byte
	}
}

func (w *workers) start() {
	for i := range min(runtime.GOMAXPROCS(0), len(w.sinks)) {
		w.group.Go(func() {
			for n := 1; !w.stop.Load(); n++ {
				began := time.Now()
				for range 64 {
					b := make([]byte, 1024)
					b[0] = 1
					w.sinks[i].b = &b
				}
				w.requests.Add(1)
				switch {
				case w.light.Load():
					time.Sleep(max(time.Since(began)*4, 200*time.Microsecond))
				case n%64 == 0:
					time.Sleep(300 * time.Microsecond)
				}
			}
		})
	}
}

// run drives one course in this process and measures its phases.
func run(course string, phase time.Duration) (results []phaseResult) {
	var h heap
	var w workers
	o := observe(&w)
	h.become(30)
	w.start()
	step := o.mark() // when the live heap began to change
	measure := func(name string, do func()) {
		from := o.mark()
		if strings.HasPrefix(name, "to ") {
			step = from
		}
		do()
		results = append(results, o.result(name, from, step))
	}
	rest := func() { time.Sleep(phase) }
	switch course {
	case "step":
		time.Sleep(phase / 3)
		measure("30 MB", rest)
		for _, to := range []struct {
			live int
			name string
		}{{110, "110 MB"}, {30, "30 MB again"}} {
			measure("to "+to.name, func() { h.become(to.live) })
			measure(to.name, rest)
		}
	case "varying":
		time.Sleep(phase / 3)
		measure("varying", func() {
			for began, n := time.Now(), 0; time.Since(began) < 2*phase; n++ {
				w.light.Store(n%4 >= 2)
				h.become(40 + 70*(n%2))
				time.Sleep(phase / 5)
			}
		})
		w.light.Store(false)
	case "over":
		time.Sleep(phase / 3)
		measure("to over", func() { h.become(235) })
		measure("over", func() { time.Sleep(2 * phase) })
	default:
		log.Fatalf("no course %q", course)
	}
	w.stop.Store(true)
	w.group.Wait()
	o.end()
	runtime.KeepAlive(h)
	return results
}
