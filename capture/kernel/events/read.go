package events

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/evidence/jsonl"
)

// What one kernel.events may hold. A recorder stays below; beyond them the file is
// not its product. Together they bound the memory of reading to about 1 GB.
const (
	maxBytes     = 256 << 20
	maxLine      = 1 << 20
	maxStretches = 2_000_000
	maxCalls     = 1_000_000
	maxPrograms  = 64
	// maxCPUs is what Linux can be built for.
	maxCPUs = 8192
	// maxNS is the latest instant, 146 years after the boot, maxSpan by how much instants
	// differ from the beginning: three days.
	maxNS, maxSpan = 1 << 62, 1 << 48
)

// Recording is a kernel.events in memory. It does not change; use it from anywhere.
type Recording struct {
	Header Header
	// After is nil if the file was cut.
	After *After
	// Stretches are in order of the instants at which they ended.
	Stretches []Stretch
	// Calls are those of functions that the user named, in order of their ends.
	Calls []Call

	threads map[int]thread
	load    []load
	polls   []poll
	pauses  []Pause
	robbed  []robbed
}

// Read reads a kernel.events. It trusts nothing in it: sizes and numbers are bounded,
// no time is negative. Strings come from the file: quote them before printing.
//
// A file that was cut, even within a line, gives what precedes the cut, without After;
// there has to be a first line. Objects and further numbers that this version does not
// know are skipped. Errors wrap [evidence.ErrMalformed], [evidence.ErrTooLarge],
// [evidence.ErrVersion] or that of r.
func Read(r io.Reader) (*Recording, error) { return read(r, maxBytes) }

func read(r io.Reader, most int64) (*Recording, error) {
	d := decoder{}
	if err := jsonl.NewReader(r, most, maxLine).Each("kernel events", d.add); err != nil {
		return nil, err
	}
	if !d.begun {
		return nil, fmt.Errorf("read kernel events: no complete first line, the file is empty, cut or something else: %w", evidence.ErrMalformed)
	}
	rec := New(d.rec.Header, d.rec.After, d.rec.Stretches)
	rec.Calls = d.rec.Calls
	if a := rec.After; a == nil || a.Func == nil {
		rec.Calls = nil // their functions are not known
	} else {
		for i := range rec.Calls {
			if c := &rec.Calls[i]; c.Open {
				c.To = max(c.From, a.Func.ToNS)
			}
		}
	}
	slices.SortStableFunc(rec.Calls, func(a, b Call) int { return cmp.Compare(a.To, b.To) })
	return rec, nil
}

// New returns a recording of what is given. It takes over stretches, of which none
// may end before it begins.
func New(h Header, after *After, stretches []Stretch) *Recording {
	r := &Recording{Header: h, After: after, Stretches: stretches}
	slices.SortStableFunc(r.Stretches, func(a, b Stretch) int { return cmp.Compare(a.Out, b.Out) })
	r.index()
	return r
}

// decoder is the state of one Read.
type decoder struct {
	begun bool
	rec   Recording
	nums  [16]int64
}

func (d *decoder) add(line []byte) error {
	switch {
	case !d.begun:
		return d.header(line)
	case d.rec.After != nil:
		return fmt.Errorf("%w: a line behind the last one", evidence.ErrMalformed)
	case len(line) > 0 && line[0] == '[':
		return d.stretch(line)
	}
	if call, ok := bytes.CutPrefix(line, []byte(`{"call":`)); ok {
		return d.call(call)
	}
	var l struct {
		After *After `json:"after"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return fmt.Errorf("%w: %.200s", evidence.ErrMalformed, err)
	}
	if l.After == nil {
		return nil // of a later version
	}
	a := l.After
	if max(len(a.Programs), len(a.Missing)) > maxPrograms {
		return fmt.Errorf("after: more than %d programs: %w", maxPrograms, evidence.ErrTooLarge)
	}
	least := min(a.EndNS, a.Stretches, a.Lost, a.CPUNS)
	for _, p := range a.Programs {
		least = min(least, p.Runs, p.NS)
	}
	if least < 0 {
		return fmt.Errorf("%w: after: a negative number", evidence.ErrMalformed)
	}
	if err := a.check(); err != nil {
		return fmt.Errorf("after: %w", err)
	}
	d.rec.After = a
	return nil
}

func (d *decoder) header(line []byte) error {
	var head struct {
		Header *struct {
			Schema string `json:"schema"`
		} `json:"header"`
	}
	if err := json.Unmarshal(line, &head); err != nil || head.Header == nil {
		return fmt.Errorf("%w: it does not begin with a header, these are no kernel events", evidence.ErrMalformed)
	}
	if err := jsonl.CheckSchema(head.Header.Schema, Schema); err != nil {
		return err
	}
	var l struct {
		Header Header `json:"header"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return fmt.Errorf("%w: %.200s", evidence.ErrMalformed, err)
	}
	h := &l.Header
	if len(h.Fields) < len(Known) || !slices.Equal(h.Fields[:len(Known)], Known) {
		return fmt.Errorf("%w: header: other fields than %q", evidence.ErrMalformed, Known)
	}
	if h.CPUs < 1 || h.CPUs > maxCPUs || h.PID < 0 || h.StartNS < 0 {
		return fmt.Errorf("%w: header: %d CPUs, pid %d, start %d", evidence.ErrMalformed, h.CPUs, h.PID, h.StartNS)
	}
	d.begun, d.rec.Header = true, *h
	return nil
}

// stretch takes a line such as [17,1,99000,5000,20000,20000,1,-1].
func (d *decoder) stretch(line []byte) error {
	n, err := numbers(line, d.nums[:])
	if err != nil {
		return err
	}
	if n < len(Known) {
		return fmt.Errorf("%w: %d numbers, a stretch has %d", evidence.ErrMalformed, n, len(Known))
	}
	if len(d.rec.Stretches) >= maxStretches {
		return fmt.Errorf("more than %d stretches: %w", maxStretches, evidence.ErrTooLarge)
	}
	x := &d.nums
	s := Stretch{TID: int(x[0]), CPU: int(x[1]), Out: x[2], OnNS: x[3], OffNS: x[4], QueueNS: x[5], Flags: Flags(x[6]) & allFlags, NR: int(x[7])}
	if min(x[0], x[1], x[2], x[3], x[4], x[5], x[6]) < 0 || x[0] >= 1<<31 || x[1] >= maxCPUs || x[7] < -1 || x[7] >= 1<<31 ||
		s.QueueNS > s.OffNS || s.OnNS > s.Out || s.OffNS > s.Out-s.OnNS ||
		s.Out > d.rec.Header.StartNS+maxSpan || s.From() < d.rec.Header.StartNS-maxSpan {
		return fmt.Errorf("%w: a stretch that cannot be: %.100s", evidence.ErrMalformed, line)
	}
	if n >= len(Fields) && d.rec.asksBehind() && x[8] > 0 && x[8] < 1<<31 {
		s.Behind = int(x[8])
	}
	d.rec.Stretches = append(d.rec.Stretches, s)
	return nil
}

// call takes the rest of a line such as {"call":[17,0,99000,120000]}.
func (d *decoder) call(rest []byte) error {
	list, ok := bytes.CutSuffix(bytes.TrimRight(rest, "\n"), []byte("}"))
	if !ok || len(list) == 0 || list[0] != '[' {
		return fmt.Errorf("%w: no call: %.100q", evidence.ErrMalformed, rest)
	}
	n, err := numbers(list, d.nums[:])
	if err != nil {
		return err
	}
	if len(d.rec.Calls) >= maxCalls {
		return fmt.Errorf("more than %d calls: %w", maxCalls, evidence.ErrTooLarge)
	}
	x := &d.nums
	c := Call{Goroutine: x[0], Func: int(x[1]), From: x[2], To: x[3], Open: x[3] == 0}
	if c.Open {
		c.To = c.From
	}
	start := d.rec.Header.StartNS
	if n < 4 || min(x[0], x[1], x[2]) < 0 || x[1] >= MaxFunctions || c.To < c.From || c.From < start-maxSpan || c.To > start+maxSpan {
		return fmt.Errorf("%w: a call that cannot be: %.100s", evidence.ErrMalformed, list)
	}
	d.rec.Calls = append(d.rec.Calls, c)
	return nil
}

// numbers reads a JSON array of integers into out, as many as fit, and returns how
// many there are. (encoding/json would take most of the time of a diagnosis.)
func numbers(line []byte, out []int64) (n int, err error) {
	bad := func() (int, error) {
		return 0, fmt.Errorf("%w: no list of numbers: %.100q", evidence.ErrMalformed, line)
	}
	i := 1
	for {
		negative := i < len(line) && line[i] == '-'
		if negative {
			i++
		}
		begun := i
		var v int64
		for ; i < len(line) && '0' <= line[i] && line[i] <= '9'; i++ {
			if v = 10*v + int64(line[i]-'0'); v > maxNS/16 {
				return bad()
			}
		}
		if i == begun || i == len(line) {
			return bad()
		}
		if negative {
			v = -v
		}
		if n < len(out) {
			out[n] = v
		}
		n++
		switch line[i] {
		case ',':
			i++
		case ']':
			if rest := line[i+1:]; len(rest) > 1 || len(rest) == 1 && rest[0] != '\n' {
				return bad()
			}
			return min(n, len(out)), nil
		default:
			return bad()
		}
	}
}
