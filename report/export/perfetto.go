package export

import (
	"bufio"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/whylate/whylate/report/detail"
)

// Numbers of fields and values of Perfetto's messages (protos/perfetto/trace: trace.proto,
// trace_packet.proto, track_event/track_descriptor.proto, track_event/track_event.proto,
// track_event/debug_annotation.proto, clock_snapshot.proto, common/builtin_clock.proto).
const (
	tracePacket = 1

	packetClocks     = 6
	packetTimestamp  = 8
	packetSequence   = 10
	packetEvent      = 11
	packetFlags      = 13
	packetClock      = 58
	packetDescriptor = 60

	clocksClock   = 1
	clocksPrimary = 2
	clockID       = 1
	clockTime     = 2

	trackUUID   = 1
	trackName   = 2
	trackParent = 5

	eventAnnotation = 4
	eventType       = 9
	eventTrack      = 11
	eventCategories = 22
	eventName       = 23

	annotationInt    = 4
	annotationString = 6
	annotationName   = 10

	sliceBegin, sliceEnd = 1, 2

	clockRealtime      = 1
	clockMonotonic     = 3
	clockBoottime      = 6
	incrementalCleared = 1
	sequence           = 1
)

// perfettoTo writes a trace: a track for each of the slowest requests, in which what a waker
// did lies below the wait that it ended, and two for the collector's phases. Times are on
// the trace's clock, CLOCK_MONOTONIC of the target's machine.
func perfettoTo(w io.Writer, r *detail.Recording) error {
	p := &perfetto{w: bufio.NewWriter(w), first: true}
	p.clocks(r)
	root := p.track(0, "whylate: the slowest requests")
	for i := range r.Paths {
		path := &r.Paths[i]
		q := &r.Requests[path.Request]
		track := p.track(root, title(q))
		walk(path.Steps, func(s *detail.Step, from, to int64) {
			p.begin(track, r.StartNS+from, doing(s), s.State, p.about(r, s))
		}, func(_ *detail.Step, at int64) {
			p.end(track, r.StartNS+at)
		})
	}
	for _, x := range []struct {
		name  string
		spans []detail.Span
	}{{"stop-the-world", r.STW}, {"garbage collection", r.GC}} {
		if len(x.spans) == 0 {
			continue
		}
		track := p.track(0, x.name)
		for _, s := range x.spans {
			name := text(s.Name)
			if name == "" {
				name = x.name
			}
			p.begin(track, r.StartNS+s.FromNS, name, x.name, nil)
			p.end(track, r.StartNS+s.ToNS)
		}
	}
	if p.err != nil {
		return p.err
	}
	return p.w.Flush()
}

// perfetto writes packets; it keeps the first error.
type perfetto struct {
	w      *bufio.Writer
	err    error
	first  bool
	tracks uint64
	stacks int // bytes of frames
	buf    []byte
}

func (p *perfetto) packet(b []byte) {
	b = number(b, packetSequence, sequence)
	if p.first { // nothing was said before
		b, p.first = number(b, packetFlags, incrementalCleared), false
	}
	p.buf = protowire.AppendBytes(protowire.AppendTag(p.buf[:0], tracePacket, protowire.BytesType), b)
	if p.err == nil {
		_, p.err = p.w.Write(p.buf)
	}
}

// clocks says what the trace's clock is. Without it readers know no way from that to the clock
// that they sort by, CLOCK_BOOTTIME, and leave all events out; how far that one is ahead, by
// the time that the machine slept, is not known and does not matter.
func (p *perfetto) clocks(r *detail.Recording) {
	var b []byte
	at := func(clock uint64, ns int64) {
		b = message(b, clocksClock, number(number(nil, clockID, clock), clockTime, uint64(ns)))
	}
	at(clockMonotonic, r.StartNS)
	at(clockBoottime, r.StartNS)
	if !r.Start.IsZero() {
		at(clockRealtime, r.Start.UnixNano())
	}
	p.packet(message(nil, packetClocks, number(b, clocksPrimary, clockMonotonic)))
}

// track makes one, below another one if parent is not 0.
func (p *perfetto) track(parent uint64, name string) uint64 {
	p.tracks++
	d := word(number(nil, trackUUID, p.tracks), trackName, name)
	if parent != 0 {
		d = number(d, trackParent, parent)
	}
	p.packet(message(nil, packetDescriptor, d))
	return p.tracks
}

func (p *perfetto) begin(track uint64, at int64, name, category string, annotations [][]byte) {
	e := number(number(nil, eventType, sliceBegin), eventTrack, track)
	e = word(word(e, eventName, name), eventCategories, category)
	for _, a := range annotations {
		e = message(e, eventAnnotation, a)
	}
	p.event(at, e)
}

func (p *perfetto) end(track uint64, at int64) {
	p.event(at, number(number(nil, eventType, sliceEnd), eventTrack, track))
}

func (p *perfetto) event(at int64, e []byte) {
	b := number(number(nil, packetTimestamp, uint64(at)), packetClock, clockMonotonic)
	p.packet(message(b, packetEvent, e))
}

// maxStack is how many frames of a stack a slice says, maxStacks how many bytes of a trace
// they may be all together: those of further slices are left out.
const (
	maxStack  = 32
	maxStacks = 64 << 20
)

// about is what stands beside a slice.
func (p *perfetto) about(r *detail.Recording, s *detail.Step) (list [][]byte) {
	say := func(name, value string) {
		list = append(list, word(word(nil, annotationName, name), annotationString, value))
	}
	say("goroutine", who(s))
	if s.Waker != 0 {
		list = append(list, number(word(nil, annotationName, "woken by goroutine"), annotationInt, uint64(s.Waker)))
	}
	for i, f := range slices.Backward(s.Stack) {
		n := len(s.Stack) - 1 - i
		if n == maxStack || p.stacks > maxStacks {
			break
		}
		x := &r.Frames[f]
		at := fmt.Sprintf("%s (%s:%d)", text(x.Function), text(x.File), x.Line)
		p.stacks += len(at)
		say(fmt.Sprintf("stack %02d", n), at)
	}
	for _, x := range s.Pieces {
		l := &r.Leaves[x.Leaf]
		value := fmt.Sprintf("%.6f ms", float64(x.NS)/1e6)
		if l.Cause != "" {
			value += " (" + l.Cause + ")"
		}
		say(text(l.Text), value)
	}
	return list
}

func number(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func word(b []byte, field protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func message(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}
