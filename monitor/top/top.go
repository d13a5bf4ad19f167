// Package top shows what the kernel tells about a process while it runs: a first look,
// without a trace and without a file.
package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/whylate/whylate/capture/kernel"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/report"
)

// Options say what to show. The zero value shows a page each second until the context ends.
type Options struct {
	// Every is how long a moment is; 0 means a second.
	Every time.Duration
	// Moments is after how many it ends; 0 means none.
	Moments int
	// Clear is written before each page.
	Clear string
	// Terminal says what there is to show it on.
	Terminal report.TerminalOptions
}

// sets are those that are shown, as far as the process and the machine have them.
var sets = []string{events.Clock, events.Cgo, events.GC, events.Gosched}

// mapColumns is how many moments the map of waits for a CPU shows.
const mapColumns = 60

// Run shows what the kernel tells about a process, with its number in the initial pid
// namespace, until the process or the context ends or there were enough moments. Errors
// are those of [kernel.Start], and w's.
func Run(ctx context.Context, w io.Writer, pid int, o Options) error {
	if o.Every <= 0 {
		o.Every = time.Second
	}
	v := &view{live: report.Live{PID: pid, Name: name(pid)}}
	r, err := kernel.Start(pid, kernel.Options{W: io.Discard, MaxBytes: 1 << 62, Sets: sets, Stay: true, Each: v.add, Interim: v.counted, Every: o.Every / 4})
	if err != nil {
		return err
	}
	v.begin()
	err = v.show(ctx, w, r, o)
	_, stopped := r.Stop()
	if err == nil {
		err = stopped
	}
	return err
}

// name is that of a process; it may be gone.
func name(pid int) string {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "?"
	}
	return strings.TrimSuffix(filepath.Base(exe), " (deleted)")
}

// view is what the recorder tells, until it is shown.
type view struct {
	mu      sync.Mutex
	live    report.Live
	begun   time.Time // counting
	began   time.Time // the moment
	threads map[int]bool
	cpu     int64 // of the process, in ns, when the moment began
}

// begin is called when the probes are there: to set them takes a part of a second.
func (v *view) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.begun = time.Now()
	v.began = v.begun
	v.cpu, _ = kernel.CPUTime(v.live.PID) // if it has ended, so does top
}

// add counts what a thread did.
func (v *view) add(s *events.Stretch) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := &v.live
	if v.threads == nil {
		v.threads = map[int]bool{}
	}
	v.threads[s.TID] = true
	if s.QueueNS > 0 {
		if s.Flags&events.Throttled != 0 {
			l.Throttled.Add(s.QueueNS)
		} else {
			l.Queue.Add(s.QueueNS)
		}
	}
	if slept := s.OffNS - s.QueueNS; slept > 0 && s.Flags&(events.BlockIO|events.Uninterruptible) != 0 {
		if s.NR < 0 {
			l.Faults.Add(slept)
		} else {
			l.Disk.Add(slept)
		}
	}
}

// counted takes what the other sets have counted.
func (v *view) counted(a *events.After) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.live.Counts = a
	v.live.Missing = a.Missing
	v.live.Lost = a.Lost
}

// show writes a page for each moment.
func (v *view) show(ctx context.Context, w io.Writer, r *kernel.Recorder, o Options) error {
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for shown := 0; o.Moments == 0 || shown < o.Moments; shown++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		l := v.take(r.Header().CPUs)
		if _, err := io.WriteString(w, o.Clear); err != nil {
			return err
		}
		if err := report.WriteLive(w, &l, o.Terminal); err != nil {
			return err
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", l.PID)); err != nil {
			return fmt.Errorf("process %d has ended", l.PID)
		}
	}
	return nil
}

// take ends a moment.
func (v *view) take(cpus int) report.Live {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	l := &v.live
	if cpu, err := kernel.CPUTime(l.PID); err == nil { // stretches are told when they end, some of them late
		l.OnNS, v.cpu = cpu-v.cpu, cpu
	}
	l.NS, l.At, l.Threads, l.CPUs = int64(now.Sub(v.began)), int64(now.Sub(v.begun)), len(v.threads), cpus
	l.Map = append(l.Map, l.Queue.Histogram)
	l.Map = l.Map[max(0, len(l.Map)-mapColumns):]
	shown := *l
	*l = report.Live{PID: l.PID, Name: l.Name, Lost: l.Lost, Counts: l.Counts, Before: l.Counts, Map: l.Map, Missing: l.Missing}
	v.began, v.threads = now, nil
	return shown
}
