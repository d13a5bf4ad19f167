package export

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Columns writes what a trace says of all goroutines, as parquet. Its memory is bounded by that
// of a timeline.
type Columns struct {
	name   string
	origin timeline.Time
	begun  bool
	add    func(c *Columns, t *timeline.Timeline) error
	close  func() error
}

// rowGroup is how many rows are held in memory until they are written.
const rowGroup = 1 << 16

// Add writes the timeline of the next part of the trace. Errors are of the writer.
func (c *Columns) Add(t *timeline.Timeline) error {
	if !c.begun {
		c.begun, c.origin = true, t.Start
	}
	if err := c.add(c, t); err != nil {
		return fmt.Errorf("export %s: %w", c.name, err)
	}
	return nil
}

// Close writes the end of the file; the writer stays open.
func (c *Columns) Close() error {
	if err := c.close(); err != nil {
		return fmt.Errorf("export %s: %w", c.name, err)
	}
	return nil
}

func (c *Columns) since(at timeline.Time) int64 { return int64(at - c.origin) }

// state is a stretch of a goroutine's life. Goroutines have no name but the function that they
// were started with. Number 0 is none.
type state struct {
	Goroutine   int64  `parquet:"goroutine"`
	Function    string `parquet:"function,dict"`
	State       string `parquet:"state,dict"`
	Reason      string `parquet:"reason,dict"`
	StartNS     int64  `parquet:"start_ns"`
	DurationNS  int64  `parquet:"duration_ns"`
	P           int32  `parquet:"p"` // -1 if it has none, or it is not known
	Innermost   string `parquet:"innermost,dict"`
	At          string `parquet:"place,dict"`
	File        string `parquet:"file,dict"`
	Line        int32  `parquet:"line"`
	Waker       int64  `parquet:"waker"`
	WakerStarts string `parquet:"waker_function,dict"`
	WakerAt     string `parquet:"waker_place,dict"`
}

// statesTo writes a row for each stretch of each goroutine's life.
func statesTo(w io.Writer) *Columns {
	out := parquet.NewGenericWriter[state](w, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(rowGroup))
	return &Columns{close: out.Close, add: func(c *Columns, t *timeline.Timeline) error {
		at := places{t: t}
		for i := range t.Gs {
			g := &t.Gs[i]
			for _, s := range g.Segs() {
				here := at.of(s.Stack)
				x := state{
					Goroutine: int64(g.ID), Function: text(g.Root()), State: s.Kind.String(), Reason: s.Reason.String(),
					StartNS: c.since(s.Start), DurationNS: int64(s.End - s.Start), P: int32(s.P),
					Innermost: here.innermost, At: here.function, File: here.file, Line: here.line,
				}
				if s.Waker != timeline.NoG {
					by := &t.Gs[s.Waker]
					x.Waker, x.WakerStarts, x.WakerAt = int64(by.ID), text(by.Root()), at.of(s.WakerStack).function
				}
				if _, err := out.Write([]state{x}); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// wakeup is one goroutine making another one runnable, or giving birth to it.
type wakeup struct {
	TimeNS        int64  `parquet:"time_ns"`
	Waker         int64  `parquet:"waker"`
	WakerFunction string `parquet:"waker_function,dict"`
	At            string `parquet:"place,dict"`
	File          string `parquet:"file,dict"`
	Line          int32  `parquet:"line"`
	Woken         int64  `parquet:"woken"`
	WokenFunction string `parquet:"woken_function,dict"`
	Birth         bool   `parquet:"birth"`
	Reason        string `parquet:"reason,dict"` // why it waited
	WaitedNS      int64  `parquet:"waited_ns"`
	WaitedAt      string `parquet:"waited_place,dict"`
}

// wakeupsTo writes a row for each wake-up of a goroutine by another one.
func wakeupsTo(w io.Writer) *Columns {
	out := parquet.NewGenericWriter[wakeup](w, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(rowGroup))
	return &Columns{close: out.Close, add: func(c *Columns, t *timeline.Timeline) error {
		at := places{t: t}
		for i := range t.Gs {
			g := &t.Gs[i]
			for _, wake := range g.Wakes() {
				whom, here := &t.Gs[wake.Whom()], at.of(wake.Stack)
				x := wakeup{
					TimeNS: c.since(wake.Time), Waker: int64(g.ID), WakerFunction: text(g.Root()), At: here.function, File: here.file, Line: here.line,
					Woken: int64(whom.ID), WokenFunction: text(whom.Root()), Birth: wake.Birth(),
				}
				if k := whom.SegmentAt(wake.Time); !wake.Birth() && k < whom.Len() && whom.Seg(k).Kind == timeline.Waiting {
					s := whom.Seg(k)
					x.Reason, x.WaitedNS, x.WaitedAt = s.Reason.String(), int64(s.End-s.Start), at.of(s.Stack).function
				}
				if _, err := out.Write([]wakeup{x}); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// places are where stacks stand: the innermost function, and the innermost one of the application.
type places struct {
	t     *timeline.Timeline
	known map[gotrace.StackID]spot
}

type spot struct {
	innermost, function, file string
	line                      int32
}

func (p *places) of(id gotrace.StackID) spot {
	if id == 0 {
		return spot{}
	}
	if x, ok := p.known[id]; ok {
		return x
	}
	var x spot
	if frames := p.t.Stacks.Frames(id); len(frames) > 0 {
		f, ok := request.AppFrame(frames)
		if !ok {
			f = frames[0]
		}
		x = spot{text(frames[0].Func), text(f.Func), text(f.File), int32(f.Line)}
	}
	if p.known == nil {
		p.known = map[gotrace.StackID]spot{}
	}
	p.known[id] = x
	return x
}
