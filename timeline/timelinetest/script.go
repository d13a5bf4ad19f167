package timelinetest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Script is a parsed script: one event per line, behind the instant at which it
// happens. In what follows NAME is a stack's.
//
//	procs 2                              GOMAXPROCS, from the instant of the line before
//	stack NAME = inner < middle < root   functions, innermost first
//	home g1 at NAME                      where g1 waits for its next piece of work
//	request /x g1 2ms-5ms g2 5ms-7ms     parts of a request; "open" behind them: in flight
//	off 0 queued 2ms-3ms                 thread 0, which P 0 has by itself, is on no CPU
//	repeat 9 ... again                   the lines between, so many times
//	1ms   p0 busy | p0 idle | p1 takes p0
//	1ms   g1 runs on p0 [at NAME]        only a first status has a stack
//	1ms   g1 waits [REASON] [at NAME]    the first status of a goroutine has no reason
//	1ms   g1 yields [REASON] [at NAME]
//	1ms   g1 calls [at NAME]             begins a system call
//	1ms   g1 returns                     runs on, or is runnable if its P was taken
//	1ms   g1 ends
//	1ms   g1 wakes g2 [at NAME]          also "p0 wakes g2", "poller wakes g2", "sysmon wakes g2"
//	1ms   g1 starts g2 [as NAME] [at NAME]   also "p0 starts g2"
//	1ms   g1 label GC (idle)
//	1ms   g1 enters RANGE [at NAME] | g1 leaves RANGE | runtime within RANGE
//	1ms   g1 task NAME | g1 done
//	1ms   g1 sample [at NAME]
//	1ms   heap BYTES | goal BYTES        the size of the heap, and up to where it may grow
//	1ms   sync                           a new generation
//	1ms   end                            nothing happens any more
//
// An instant "+1ms" counts from the line before.
type Script struct {
	*Builder
	// Homes are the stacks of the home lines, Requests what the request lines say.
	Homes    map[gotrace.GoID]gotrace.StackID
	Requests []Request
	Offs     []Off

	names map[string]gotrace.StackID
	last  time.Duration
}

// Off is an off line: for how long a thread was on no CPU, and why.
type Off struct {
	M          gotrace.ThreadID
	Why        string
	Start, End gotrace.Time
}

// Request is a request line.
type Request struct {
	Name  string
	Parts []Part
	Open  bool
}

// Part is the stretch of a request that one goroutine carries.
type Part struct {
	G          gotrace.GoID
	Start, End gotrace.Time
}

// Parse reads a script.
func Parse(text string) (*Script, error) {
	s := &Script{Builder: NewBuilder(), Homes: map[gotrace.GoID]gotrace.StackID{}, names: map[string]gotrace.StackID{}}
	var lines []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		lines = append(lines, strings.TrimSpace(line))
	}
	for n, from, left := 0, -1, 0; n < len(lines); n++ {
		word, count, _ := strings.Cut(lines[n], " ")
		var err error
		switch word {
		case "":
		case "repeat":
			from = n
			left, err = strconv.Atoi(count)
		case "again":
			if left--; left > 0 && from >= 0 {
				n = from
			}
		default:
			err = s.line(lines[n])
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", n+1, lines[n], err)
		}
	}
	return s, nil
}

// Read parses a script and builds its timeline.
func Read(tb testing.TB, text string, o timeline.Options) (*Script, *timeline.Timeline) {
	tb.Helper()
	s, err := Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	t, err := timeline.Read(s.Source(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return s, t
}

func (s *Script) line(line string) error {
	first, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch first {
	case "procs":
		n, err := strconv.Atoi(rest)
		s.Procs(n)
		return err
	case "stack":
		name, functions, ok := strings.Cut(rest, " = ")
		if !ok {
			return fmt.Errorf("no functions")
		}
		s.names[strings.TrimSpace(name)] = s.Stack(strings.Split(strings.ReplaceAll(functions, " ", ""), "<")...)
		return nil
	case "home":
		rest, stack, err := s.stack(rest, "at")
		if err != nil {
			return err
		}
		g, _, err := s.subject(rest)
		s.Homes[g] = stack
		return err
	case "request":
		return s.request(strings.Fields(rest))
	case "off":
		return s.off(strings.Fields(rest))
	}
	at, err := time.ParseDuration(strings.TrimPrefix(first, "+"))
	if err != nil {
		return err
	}
	if first[0] == '+' {
		at += s.last
	}
	s.last = at
	if err := s.At(int64(at)); err != nil {
		return err
	}
	return s.event(rest)
}

func (s *Script) request(words []string) error {
	if len(words) < 3 {
		return fmt.Errorf("no parts")
	}
	r := Request{Name: words[0]}
	for words = words[1:]; len(words) >= 2; words = words[2:] {
		g, _, err := s.subject(words[0])
		if err != nil {
			return err
		}
		a, b, err := between(words[1])
		if err != nil {
			return err
		}
		r.Parts = append(r.Parts, Part{g, a, b})
	}
	r.Open = len(words) == 1 && words[0] == "open"
	s.Requests = append(s.Requests, r)
	return nil
}

func (s *Script) off(words []string) error {
	if len(words) != 3 {
		return fmt.Errorf("no thread, reason and time")
	}
	m, err := strconv.Atoi(words[0])
	if err != nil {
		return err
	}
	a, b, err := between(words[2])
	s.Offs = append(s.Offs, Off{gotrace.ThreadID(m), words[1], a, b})
	return err
}

// between reads instants such as 2ms-5ms.
func between(word string) (from, to gotrace.Time, err error) {
	a, b, _ := strings.Cut(word, "-")
	x, err := time.ParseDuration(a)
	if err != nil {
		return 0, 0, err
	}
	y, err := time.ParseDuration(b)
	return Epoch + gotrace.Time(x), Epoch + gotrace.Time(y), err
}

// stack cuts " WORD NAME" off the end of a line.
func (s *Script) stack(line, word string) (string, gotrace.StackID, error) {
	i := strings.LastIndex(" "+line, " "+word+" ")
	if i < 0 {
		return line, 0, nil
	}
	name := strings.TrimSpace(line[i+len(word):])
	id, ok := s.names[name]
	if !ok {
		return line, 0, fmt.Errorf("unknown stack %q", name)
	}
	return strings.TrimSpace(line[:i]), id, nil
}

// subject reads g1, p1 or poller.
func (s *Script) subject(word string) (g gotrace.GoID, p gotrace.ProcID, err error) {
	g, p = gotrace.NoGoroutine, gotrace.NoProc
	if word == "poller" || word == "runtime" {
		return g, p, nil
	}
	if word == "" {
		return g, p, fmt.Errorf("no subject")
	}
	n, err := strconv.Atoi(word[1:])
	switch word[0] {
	case 'g':
		g = gotrace.GoID(n)
	case 'p':
		p = gotrace.ProcID(n)
	default:
		err = fmt.Errorf("%q is no goroutine and no P", word)
	}
	return g, p, err
}

// sysmon is the thread of the runtime's monitor.
const sysmon gotrace.ThreadID = 1 << 10

func (s *Script) event(line string) error {
	switch line {
	case "sync":
		s.Sync()
		return nil
	case "end":
		s.Sample(gotrace.NoGoroutine, 0)
		return nil
	}
	if name, value, _ := strings.Cut(line, " "); name == "heap" || name == "goal" {
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		if name == "heap" {
			s.Heap(n)
		} else {
			s.Goal(n)
		}
		return err
	}
	line, at, err := s.stack(line, "at")
	if err != nil {
		return err
	}
	who, rest, _ := strings.Cut(line, " ")
	verb, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	rest = strings.TrimSpace(rest)
	if who == "sysmon" { // the poller, on a thread that never has a P
		who = "poller"
		s.On(gotrace.NoProc, sysmon)
		defer delete(s.on, gotrace.NoProc)
	}
	g, p, err := s.subject(who)
	if err != nil {
		return err
	}
	switch verb {
	case "busy":
		return s.Busy(p)
	case "idle":
		return s.Idle(p, gotrace.NoProc)
	case "takes":
		_, other, err := s.subject(rest)
		if err != nil {
			return err
		}
		return s.Idle(other, p)
	case "runs":
		_, on, err := s.subject(strings.TrimPrefix(rest, "on "))
		if err != nil {
			return err
		}
		return s.Runs(g, on, at)
	case "waits":
		return s.Waits(g, rest, at)
	case "yields":
		return s.Yields(g, rest, at)
	case "calls":
		return s.Calls(g, at)
	case "returns":
		return s.Returns(g)
	case "ends":
		return s.Ends(g)
	case "wakes":
		whom, _, err := s.subject(rest)
		if err != nil {
			return err
		}
		return s.Wakes(g, p, whom, at)
	case "starts":
		rest, root, err := s.stack(rest, "as")
		if err != nil {
			return err
		}
		whom, _, err := s.subject(rest)
		if err != nil {
			return err
		}
		return s.Starts(g, p, whom, at, root)
	case "label":
		return s.Label(g, rest)
	case "enters":
		return s.Range(gotrace.KindRangeBegin, g, rest, at)
	case "leaves":
		return s.Range(gotrace.KindRangeEnd, g, rest, at)
	case "within":
		return s.Range(gotrace.KindRangeActive, g, rest, at)
	case "task":
		return s.Task(g, rest)
	case "done":
		return s.Done(g)
	case "sample":
		s.Sample(g, at)
		return nil
	}
	return fmt.Errorf("unknown verb %q", verb)
}

// Name returns the name that the script gave to a stack, "" for none.
func (s *Script) Name(id gotrace.StackID) string {
	best := ""
	for name, x := range s.names {
		if x == id && (best == "" || name < best) {
			best = name
		}
	}
	return best
}
