//go:build amd64 || arm64

package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/whylate/whylate/capture/kernel/events"
)

const (
	defaultMaxBytes = 64 << 20
	defaultBuffer   = 1 << 20

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
	probes *probes
	clock  *readings // until it has ended; of the reading goroutine
	ring   *ringbuf.Reader
	w      *events.Writer
	done   chan struct{}
	detach func() // runs once
	stop   func() // runs once

	// What follows belongs to detach and the reading goroutine, once done is closed to stop.
	after events.After
	err   error
	// read is what the reading goroutine adds to it.
	read struct {
		readings *events.Readings
		programs []events.Program
		missing  []events.Missing
	}
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
		return nil, fmt.Errorf("record scheduling events: %w", err)
	}
	p, err := load(pid, o)
	if err != nil {
		return nil, explain(err)
	}
	r := &Recorder{probes: p, done: make(chan struct{})}
	r.detach, r.stop = sync.OnceFunc(r.end), sync.OnceFunc(r.finish)
	if err := r.begin(pid, o); err != nil {
		return nil, errors.Join(err, r.close())
	}
	go r.run()
	return r, nil
}

// begin attaches the programs and writes the first line.
func (r *Recorder) begin(pid int, o Options) (err error) {
	if r.ring, err = ringbuf.NewReader(r.probes.WhylateEvents); err != nil {
		return explain(err)
	}
	if err := r.probes.attach(); err != nil {
		return explain(err)
	}
	sets := []string{events.Sched}
	if !o.NoClock {
		r.clock, err = countReadings(pid, r.probes.types, cmp.Or(o.clockRuns, clockRuns))
		if err == nil {
			sets = append(sets, events.Clock)
		} else {
			r.after.Missing = append(r.after.Missing, events.Missing{Probes: events.Clock, Why: explain(err).Error()})
		}
	}
	r.w, err = events.NewWriter(o.W, header(pid, sets), cmp.Or(max(o.MaxBytes, 0), defaultMaxBytes))
	return err
}

// countedEnough ends counting readings of the clock when it is time, or now.
func (r *Recorder) countedEnough(now bool) {
	if r.clock == nil {
		return
	}
	c, end, err := r.clock.count()
	if !end && !now {
		return
	}
	clock := r.clock
	r.clock = nil
	if err == nil {
		r.read.readings, r.read.programs = &c, r.probes.cost(clock.programs())
	}
	if err = errors.Join(err, clock.close()); err != nil { // the stretches are worth having without it
		r.read.missing = append(r.read.missing, events.Missing{Probes: events.Clock, Why: err.Error()})
	}
}

// Stop removes the programs from the kernel, writes what they still told and the last
// line, and returns it. An error is that of reading the events or of Options.W; the file
// then is what was written before. It may be called again and from any goroutine.
func (r *Recorder) Stop() (events.After, error) {
	r.stop()
	return r.after, r.err
}

// Check tells whether all sets of probes can be recorded here, with the errors of Start:
// it lets the programs run for a moment, for no process.
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
			err = r.close()
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
	var err error
	r.after.Lost, err = r.probes.lost()
	r.fail(err)
	r.after.Stretches, r.after.Readings = r.w.Stretches, r.read.readings
	r.after.Programs = append(r.after.Programs, r.read.programs...)
	r.after.Missing = append(r.after.Missing, r.read.missing...)
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
	if r.clock != nil {
		err = errors.Join(err, r.clock.close())
	}
	return errors.Join(err, r.probes.close())
}

// run reads until the recording is stopped or full, and measures what that takes.
func (r *Recorder) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	from := threadCPU()
	err := r.readAll()
	r.countedEnough(true)
	cpu := threadCPU() - from
	r.detach() // and then what it sets is set
	r.after.CPUNS = cpu
	var full fullError
	if errors.As(err, &full) {
		r.after.Full, r.after.EndNS = true, int64(full)
	} else {
		r.fail(err)
	}
	close(r.done)
}

// fullError is the instant in ns at which the first stretch ended for which there was no
// more room.
type fullError int64

func (fullError) Error() string { return "the file reached its bound" }

// readAll writes what the programs tell, until the recording is stopped.
func (r *Recorder) readAll() error {
	var rec ringbuf.Record
	due := time.Now().Add(period)
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
		if rec.Remaining > 0 {
			continue
		}
		if wait := time.Until(due); wait > rest {
			time.Sleep(rest)
		} else if wait <= 0 {
			r.countedEnough(false)
			due = time.Now().Add(period)
			r.ring.SetDeadline(due)
		}
	}
}

// take writes a stretch as the programs tell it.
func (r *Recorder) take(b []byte) error {
	s, err := decode(b)
	if err != nil {
		return err
	}
	room, err := r.w.Write(&s)
	if err == nil && !room {
		err = fullError(s.Out)
	}
	return err
}

// stretchBytes is the size of struct stretch in bpf/sched.bpf.c.
const stretchBytes = 48

// decode reads a struct stretch.
func decode(b []byte) (events.Stretch, error) {
	if len(b) < stretchBytes {
		return events.Stretch{}, fmt.Errorf("read scheduling events: one of %d bytes, they have %d", len(b), stretchBytes)
	}
	long := func(at int) int64 { return int64(binary.NativeEndian.Uint64(b[at:])) }
	word := func(at int) int { return int(int32(binary.NativeEndian.Uint32(b[at:]))) }
	return events.Stretch{
		Out: long(0), OnNS: long(8), OffNS: long(16), QueueNS: long(24),
		TID: word(32), NR: word(36), CPU: word(40), Flags: events.Flags(word(44)),
	}, nil
}
