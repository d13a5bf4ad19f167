//go:build amd64 || arm64

package kernel

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/whylate/whylate/capture/kernel/events"
)

const (
	defaultMaxBytes = 64 << 20
	defaultBuffer   = 2 << 20

	// period is how often the buffer is emptied, unless it is half full before. At
	// 10,000 switches a second that is 500 at a time.
	period = 50 * time.Millisecond
	// rest is the least time between two readings that are not due. The buffer counts
	// as worth reading as long as anything is in there once it was half full, and
	// reading each event as it comes would cost more than the programs.
	rest = 5 * time.Millisecond
)

// Recorder records one process until it is stopped or the file is full.
type Recorder struct {
	probes   *probes
	o        Options
	head     events.Header
	names    *names      // once they are needed
	all      []burst     // does not change when programs run
	bursts   []burst     // those of them that were not concluded; of the reading goroutine
	begun    atomic.Bool // Begin was called, or is not awaited; attached: what it asks for was done
	attached bool
	ring     *ringbuf.Reader
	w        *events.Writer
	done     chan struct{}
	detach   func() // runs once
	stop     func() // runs once

	// What follows belongs to detach and the reading goroutine, once done is closed to stop.
	after events.After
	err   error
	// counted is what the reading goroutine adds to it.
	counted events.After
	latest  int64 // when the last of the stretches ended that were written
	ahead   ahead
}

// Start begins to record the threads of a process, with its number in the initial pid
// namespace, and goes on in the background until Stop, which has to be called in any
// case; the end of the process does not end it. Threads that exist already are known
// from their next switch on.
//
// An error wraps ErrUnsupported, os.ErrPermission if privileges are missing, ESRCH if
// there is no such process, or that of o.W.
func Start(pid int, o Options) (*Recorder, error) {
	if err := checkNamespace("/proc/self/ns/pid"); err != nil {
		return nil, err
	}
	if err := checkProcess(pid); err != nil {
		return nil, err
	}
	p, err := load(pid, o)
	if err != nil {
		return nil, explain(err)
	}
	r := &Recorder{probes: p, o: o, done: make(chan struct{}), ahead: ahead{target: pid, of: map[int]*process{}}}
	r.detach, r.stop = sync.OnceFunc(r.end), sync.OnceFunc(r.finish)
	if err := r.begin(pid, o); err != nil {
		return nil, errors.Join(err, r.close())
	}
	go r.run()
	return r, nil
}

// begin attaches the programs and writes the first line. All are loaded before the first
// one runs: to find functions takes a while, in which nobody would look after the others.
func (r *Recorder) begin(pid int, o Options) (err error) {
	if r.ring, err = ringbuf.NewReader(r.probes.WhylateEvents); err != nil {
		return explain(err)
	}
	missing := func(name string, err error) {
		r.after.Missing = append(r.after.Missing, events.Missing{Probes: name, Why: reason(err).Error()})
	}
	var open []burst
	for _, name := range o.sets() {
		b, err := r.open(name, pid, o)
		if err != nil {
			missing(name, err)
			continue
		}
		open = append(open, b)
		r.probes.meter.watch(b.programs())
	}
	r.probes.meter.watch(r.probes.programs())
	r.probes.meter.tick()
	if err := r.probes.attach(); err != nil {
		r.bursts = open
		return explain(err)
	}
	r.bursts = open
	r.begun.Store(!o.Later)
	r.attach(missing, func(b burst) bool { return !o.Later || b.name() == events.TCP })
	r.attached = !o.Later
	sets := []string{events.Sched}
	for _, b := range r.bursts {
		sets = append(sets, b.name())
	}
	r.all = slices.Clone(r.bursts)
	r.head = header(pid, sets)
	if r.w, err = events.NewWriter(o.W, r.head, cmp.Or(max(o.MaxBytes, 0), defaultMaxBytes)); err == nil {
		var cpus int
		cpus, err = ebpf.PossibleCPU()
		r.w.Keep(2 * batch * cpus) // one that each sent late, and one that it did not send
	}
	return err
}

// attach begins some of the bursts; those that cannot be are missing.
func (r *Recorder) attach(missing func(name string, err error), which func(burst) bool) {
	left := r.bursts[:0]
	for _, b := range r.bursts {
		if !which(b) {
			left = append(left, b)
			continue
		}
		if err := b.attach(); err != nil {
			r.probes.meter.cost(b.programs()) // which forgets them
			missing(b.name(), errors.Join(err, b.close()))
			continue
		}
		left = append(left, b)
	}
	clear(r.bursts[len(left):])
	r.bursts = left
}

// Begin begins the sets that Options.Later keeps, within a twentieth of a second. It may be
// called again and from any goroutine.
func (r *Recorder) Begin() { r.begun.Store(true) }

// Missing are the sets of probes that were asked for and could not be made ready, as in
// After. The caller must not change it, nor call it after Stop.
func (r *Recorder) Missing() []events.Missing { return r.after.Missing }

// Header is that of the file. The caller must not change it.
func (r *Recorder) Header() events.Header { return r.head }

// open begins a burst.
func (r *Recorder) open(name string, pid int, o Options) (burst, error) {
	switch name {
	case events.Clock:
		return countReadings(pid, r.probes.types, cmp.Or(o.clockRuns, clockRuns))
	case events.TCP:
		return watchConnections(pid, r.probes.types, cmp.Or(o.connections, maxConnections))
	}
	if r.names == nil {
		var err error
		if r.names, err = namesOf(pid); err != nil {
			return nil, err
		}
	}
	return watch(name, pid, r.probes.types, r.names, o, func(c *events.Call) (bool, error) { return r.w.WriteCall(c) })
}

// Stop removes the programs from the kernel, writes what they still told and the last
// line, and returns it. An error is that of reading the events or of Options.W; the file
// then is what was written before. It may be called again and from any goroutine.
func (r *Recorder) Stop() (events.After, error) {
	r.stop()
	return r.after, r.err
}

// Check tells whether the usual sets of probes can be recorded here, with the errors of
// Start: it lets the programs run for a moment, for no process. Those in functions depend
// on the process, too.
func Check() error {
	if err := checkNamespace("/proc/self/ns/pid"); err != nil {
		return err
	}
	p, err := load(nobody, Options{Buffer: 1})
	if err != nil {
		return explain(err)
	}
	err = p.attach()
	if err == nil {
		var r *readings
		if r, err = countReadings(nobody, p.types, clockRuns); err == nil {
			err = errors.Join(r.attach(), r.close())
		}
	}
	return explain(errors.Join(err, p.close()))
}

// end removes the programs. Until then everything was seen.
func (r *Recorder) end() {
	r.after.EndNS = monotonic()
	var err error
	r.after.Programs, err = r.probes.remove()
	r.fail(err)
	for _, b := range r.all {
		_ = b.detach() // who concludes gets the error
	}
}

// fail keeps the first error.
func (r *Recorder) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// finish completes the file.
func (r *Recorder) finish() {
	r.detach()
	flushed := r.ring.Flush()
	<-r.done
	r.fail(flushed)
	if r.err == nil {
		r.fail(r.takeRest())
	}
	var err error
	r.after.Lost, err = r.probes.lost()
	r.fail(err)
	r.after.Stretches, r.after.Processes = r.w.Stretches, r.ahead.longest()
	c := &r.counted
	r.after.Readings, r.after.Cgo, r.after.Allocs, r.after.GC, r.after.Waits, r.after.TCP, r.after.Func = c.Readings, c.Cgo, c.Allocs, c.GC, c.Waits, c.TCP, c.Func
	r.after.Programs = append(r.after.Programs, c.Programs...)
	r.after.Missing = append(r.after.Missing, c.Missing...)
	if r.err == nil {
		r.err = r.w.Close(r.after)
	}
	r.fail(r.close())
}

// close frees everything.
func (r *Recorder) close() error {
	var err error
	if r.ring != nil {
		err = r.ring.Close()
	}
	for _, b := range r.bursts {
		err = errors.Join(err, b.close())
	}
	if r.names != nil {
		err = errors.Join(err, r.names.close())
	}
	return errors.Join(err, r.probes.close())
}

// run reads until the recording is stopped or full, and measures what that takes.
func (r *Recorder) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	from := threadCPU()
	end, guards := make(chan struct{}), make(chan int64)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		guards <- r.guard(end)
	}()
	err := r.readAll()
	r.detach() // if the file is full, or there was an error; and then what it sets is set
	var full fullError
	if errors.As(err, &full) {
		r.after.Full = true
		r.after.EndNS, err = r.takeOlder(r.latest, full)
	}
	r.look(true)
	r.fail(err)
	close(end)
	r.after.CPUNS = <-guards + threadCPU() - from
	close(r.done)
}

// takeOlder writes the stretches that ended before an instant and are not written yet: first,
// and what the CPUs sent late or not at all. It returns that instant, or the one at which the
// first stretch ended for which there was no room. No program may run any more.
func (r *Recorder) takeOlder(to int64, first []byte) (int64, error) {
	r.w.Release()
	take := func(b []byte) error { // they are in order
		for ; len(b) >= stretchBytes && decode(b).Out < to; b = b[stretchBytes:] {
			err := r.take(b[:stretchBytes])
			var full fullError
			if errors.As(err, &full) {
				to = decode(full).Out
			} else if err != nil {
				return err
			}
		}
		return nil
	}
	if err := take(first); err != nil {
		return to, err
	}
	var rec ringbuf.Record
	r.ring.SetDeadline(time.Now())
	for {
		err := r.ring.ReadInto(&rec)
		if errors.Is(err, ringbuf.ErrFlushed) || errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return to, fmt.Errorf("read scheduling events: %w", err)
		}
		if err := take(rec.RawSample); err != nil {
			return to, err
		}
	}
	list, err := r.probes.unsent()
	for _, b := range list {
		if err == nil {
			err = take(b)
		}
	}
	return to, err
}

// fullError is the stretches, as they were told, for which there was no more room.
type fullError []byte

func (fullError) Error() string { return "the file reached its bound" }

// readAll writes what the programs tell, until the recording is stopped.
func (r *Recorder) readAll() error {
	var rec ringbuf.Record
	due := time.Now().Add(period)
	interim := time.Now().Add(r.o.Every)
	r.ring.SetDeadline(due)
	for {
		switch err := r.ring.ReadInto(&rec); {
		case err == nil:
			if err := r.take(rec.RawSample); err != nil {
				return err
			}
		case errors.Is(err, ringbuf.ErrFlushed):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			rec.Remaining = 0
		default:
			return fmt.Errorf("read scheduling events: %w", err)
		}
		switch wait := time.Until(due); {
		case wait > rest && rec.Remaining == 0:
			time.Sleep(rest)
		case wait <= 0: // even if there is always more
			if r.begun.Load() && !r.attached {
				r.attached = true
				r.attach(func(name string, err error) {
					r.counted.Missing = append(r.counted.Missing, events.Missing{Probes: name, Why: reason(err).Error()})
				}, func(b burst) bool { return b.name() != events.TCP })
			}
			r.look(false)
			if r.o.Interim != nil && !time.Now().Before(interim) {
				interim = interim.Add(max(r.o.Every, period))
				if err := r.interim(); err != nil {
					return err
				}
			}
			due = time.Now().Add(period)
			r.ring.SetDeadline(due)
		}
	}
}

// interim tells what was counted so far.
func (r *Recorder) interim() error {
	now := r.counted
	now.Missing = slices.Concat(r.after.Missing, r.counted.Missing)
	var err error
	if now.Lost, err = r.probes.lost(); err != nil {
		return err
	}
	for _, b := range r.bursts {
		if b.result(&now) != nil {
			continue // look says it
		}
	}
	r.o.Interim(&now)
	return nil
}

// take writes stretches as the programs tell them, some at a time.
func (r *Recorder) take(b []byte) error {
	for ; len(b) >= stretchBytes; b = b[stretchBytes:] {
		s := decode(b)
		room, err := r.w.Write(&s)
		if err == nil && !room {
			err = fullError(bytes.Clone(b))
		}
		if err != nil {
			return err
		}
		if r.o.Each != nil {
			r.o.Each(&s)
		}
		r.latest = max(r.latest, s.Out)
		r.ahead.add(&s)
	}
	if len(b) > 0 {
		return fmt.Errorf("read scheduling events: %d bytes too many, each has %d", len(b), stretchBytes)
	}
	return nil
}

// takeRest writes what the CPUs had not sent when the programs were removed. It runs when
// the reading goroutine has ended.
func (r *Recorder) takeRest() error {
	if r.after.Full {
		return nil // takeOlder has
	}
	to, err := r.takeOlder(math.MaxInt64, nil) // one that ended after EndNS may have begun before
	if to != math.MaxInt64 {
		r.after.Full, r.after.EndNS = true, min(r.after.EndNS, to)
	}
	return err
}

// stretchBytes is the size of struct stretch in bpf/sched.bpf.c.
const stretchBytes = 56

// decode reads a struct stretch.
func decode(b []byte) events.Stretch {
	long := func(at int) int64 { return int64(binary.NativeEndian.Uint64(b[at:])) }
	word := func(at int) int { return int(int32(binary.NativeEndian.Uint32(b[at:]))) }
	return events.Stretch{
		Out: long(0), OnNS: long(8), OffNS: long(16), QueueNS: long(24),
		TID: word(32), NR: word(36), CPU: word(40), Flags: events.Flags(word(44)), Behind: word(48),
	}
}
