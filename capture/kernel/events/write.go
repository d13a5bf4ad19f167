package events

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// Writer writes a recording. It is for one goroutine.
type Writer struct {
	w    *bufio.Writer
	buf  []byte
	left int64
	kept int64 // more of it, for Release
	full bool  // something had no room
	// calls is how many were written.
	calls int
	// Stretches is how many were written.
	Stretches int64
}

// afterBytes is what is kept for the last line. The bounds of its lists and of [Text] keep
// it below.
const afterBytes = 640 << 10

// NewWriter writes the header of a recording that takes at most most bytes to w;
// Schema and Fields are filled in.
func NewWriter(w io.Writer, h Header, most int64) (*Writer, error) {
	h.Schema, h.Fields = Schema, Fields
	x := &Writer{w: bufio.NewWriterSize(w, 64<<10), left: most - afterBytes}
	if err := x.object(map[string]any{"header": h}); err != nil {
		return nil, fmt.Errorf("write kernel events: %w", err)
	}
	return x, nil
}

func (w *Writer) object(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.left -= int64(len(b)) + 1
	_, err = w.w.Write(append(b, '\n'))
	return err
}

// Keep keeps room for n stretches, or a quarter of what is left, until Release: those are
// written last that ended before the file was full and were told later.
func (w *Writer) Keep(n int) {
	w.kept = min(int64(n)*stretchBytes, w.left/4)
	w.left -= w.kept
}

// Release gives the room back that Keep kept.
func (w *Writer) Release() {
	w.left += w.kept
	w.kept = 0
}

// stretchBytes is more than a line of a stretch takes: three numbers of nanoseconds of up to
// ten digits, an instant of up to sixteen (four months), and five short ones.
const stretchBytes = 88

// Write adds a stretch. It reports false, and writes nothing, when there is no more room.
func (w *Writer) Write(s *Stretch) (room bool, err error) {
	b := append(w.buf[:0], '[')
	for i, v := range [...]int64{int64(s.TID), int64(s.CPU), s.Out, s.OnNS, s.OffNS, s.QueueNS, int64(s.Flags), int64(s.NR), int64(s.Behind)} {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, v, 10)
	}
	w.buf = append(b, ']', '\n')
	if room, err = w.line(); room && err == nil {
		w.Stretches++
	}
	return room, err
}

// WriteCall adds a call, as Write does a stretch; there is room for a million. When there was
// none for something, calls have none any more: those that are there are the first ones.
func (w *Writer) WriteCall(c *Call) (room bool, err error) {
	if w.full || w.calls >= maxCalls {
		return false, nil
	}
	to := c.To
	if c.Open {
		to = 0
	}
	w.buf = fmt.Appendf(w.buf[:0], `{"call":[%d,%d,%d,%d]}`+"\n", c.Goroutine, c.Func, c.From, to)
	if room, err = w.line(); room && err == nil {
		w.calls++
	}
	return room, err
}

// line writes the buffer, if there is room.
func (w *Writer) line() (room bool, err error) {
	if w.left -= int64(len(w.buf)); w.left < 0 {
		w.left, w.full = 0, true
		return false, nil
	}
	if _, err = w.w.Write(w.buf); err != nil {
		return false, fmt.Errorf("write kernel events: %w", err)
	}
	return true, nil
}

// Close writes the last line; it does not close the underlying writer.
func (w *Writer) Close(a After) error {
	a.Stretches = w.Stretches
	err := w.object(map[string]any{"after": a})
	if err == nil {
		err = w.w.Flush()
	}
	if err != nil {
		return fmt.Errorf("write kernel events: %w", err)
	}
	return nil
}
