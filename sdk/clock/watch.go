package clock

import (
	"sync"
	"time"
)

// Watcher checks the clock again and again. Its methods may be called at any time.
type Watcher struct {
	mu   sync.Mutex
	last Cost
	stop chan struct{}
	done chan struct{}
	once sync.Once
}

// Watch checks the clock now, and each time that every has passed (less than a second is a second,
// 0 is a minute), in a goroutine of its own. It calls changed, if that is not nil, from there
// whenever the path was another one than the last time in two checks after each other: hosts
// change their clock source when it proves unstable, or after a live migration. A panic
// of changed is the program's. The caller ends it with Stop.
func Watch(every time.Duration, changed func(before, after Cost)) *Watcher {
	if every == 0 {
		every = time.Minute
	}
	return watch(max(every, time.Second), Check, changed)
}

func watch(every time.Duration, check func() Cost, changed func(before, after Cost)) *Watcher {
	w := &Watcher{last: check(), stop: make(chan struct{}), done: make(chan struct{})}
	go w.run(every, check, changed)
	return w
}

func (w *Watcher) run(every time.Duration, check func() Cost, changed func(before, after Cost)) {
	defer close(w.done)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-t.C:
		}
		before, after := w.Cost(), check()
		if after.Path != before.Path {
			// A check on a CPU that others take away may be wrong; two do not agree by accident.
			if after = check(); after.Path == before.Path {
				continue
			}
		}
		w.mu.Lock()
		w.last = after
		w.mu.Unlock()
		if after.Path != before.Path && changed != nil {
			changed(before, after)
		}
	}
}

// Cost returns what the last check found.
func (w *Watcher) Cost() Cost {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Metrics tells the last cost, as Cost.Metrics does.
func (w *Watcher) Metrics(emit func(name string, value float64)) { w.Cost().Metrics(emit) }

// Stop ends the checks and waits for the one that runs. It must not be called by changed.
func (w *Watcher) Stop() {
	w.once.Do(func() { close(w.stop) })
	<-w.done
}
