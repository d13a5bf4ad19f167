package dependency

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/whylate/whylate/evidence"
)

// maxLine holds a Server with all its lists full, each text with every byte escaped: 400 texts
// of 400 bytes at six times their length.
const maxLine = 1 << 20

// Read reads a dependency.jsonl. It trusts nothing in it: lists, texts and numbers
// are bounded. Strings come from the file: quote them before printing. Lines behind a cut
// are missing; fields that this version does not know are skipped. Errors wrap
// [evidence.ErrMalformed], [evidence.ErrTooLarge], [evidence.ErrVersion] or that of r.
func Read(r io.Reader) ([]Server, error) {
	var out []Server
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(out) == MaxServers {
			return nil, fmt.Errorf("read what dependencies said: more than %d of them: %w", MaxServers, evidence.ErrTooLarge)
		}
		line := lines.Bytes()
		s, err := decode(line)
		if err != nil && n > 1 && !json.Valid(line) && !lines.Scan() {
			break // cut
		}
		if err != nil {
			return nil, fmt.Errorf("read what dependencies said, line %d: %w", n, err)
		}
		out = append(out, *s)
	}
	switch err := lines.Err(); {
	case err == bufio.ErrTooLong:
		return nil, fmt.Errorf("read what dependencies said: a line of more than %d bytes: %w", maxLine, evidence.ErrTooLarge)
	case err != nil:
		return nil, fmt.Errorf("read what dependencies said: %w", err)
	case len(out) == 0:
		return nil, fmt.Errorf("read what dependencies said: the file is empty: %w", evidence.ErrMalformed)
	}
	return out, nil
}

func decode(line []byte) (*Server, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("%w: %.200s", evidence.ErrMalformed, err)
	}
	name, version, _ := strings.Cut(head.Schema, "/")
	want, major, _ := strings.Cut(Schema, "/")
	got, _, _ := strings.Cut(version, ".")
	switch n, err := strconv.Atoi(got); {
	case name != want || err != nil || n < 1:
		return nil, fmt.Errorf("%w: schema %.60q, want %q", evidence.ErrMalformed, head.Schema, Schema)
	case got != major:
		return nil, fmt.Errorf("%w: schema %.60q, this whylate reads %q: use a newer whylate", evidence.ErrVersion, head.Schema, Schema)
	}
	s := new(Server)
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(s); err != nil {
		return nil, fmt.Errorf("%w: %.200s", evidence.ErrMalformed, err)
	}
	return s, s.check()
}

// maxNS is the largest duration or sum of them that a file may claim: three years. It
// keeps sums of all of them far from overflowing.
const maxNS = 1e17

// check returns an error if a Server is none that a recorder writes.
func (s *Server) check() error {
	if s.Kind != Redis && s.Kind != Postgres {
		return fmt.Errorf("%w: a dependency of kind %.60q", evidence.ErrMalformed, s.Kind)
	}
	if len(s.Calls) > MaxCalls || len(s.Slow) > MaxSlow || len(s.Events) > MaxEvents || len(s.Waits) > MaxWaits || len(s.Missing) > MaxMissing {
		return fmt.Errorf("more calls, slow commands, events, waits or missing things than any recording has: %w", evidence.ErrTooLarge)
	}
	if longest := s.longestText(); longest > 2*MaxText {
		return fmt.Errorf("a text of %d bytes: %w", longest, evidence.ErrTooLarge)
	}
	if bad := s.impossible(); bad != "" {
		return fmt.Errorf("%w: impossible %s", evidence.ErrMalformed, bad)
	}
	return nil
}

func (s *Server) longestText() int {
	longest := max(len(s.Address), len(s.Peer), len(s.Version))
	for _, c := range s.Calls {
		longest = max(longest, len(c.Name))
	}
	for _, e := range s.Slow {
		longest = max(longest, len(e.Command))
	}
	for _, e := range s.Events {
		longest = max(longest, len(e.Name))
	}
	for _, w := range s.Waits {
		longest = max(longest, len(w.Type), len(w.Event))
	}
	for _, m := range s.Missing {
		longest = max(longest, len(m.What), len(m.Why), len(m.Command))
	}
	return longest
}

// impossible names the first number that cannot be, "" if there is none.
func (s *Server) impossible() string {
	out := func(least int64, ns ...int64) bool {
		for _, n := range ns {
			if n < least || n > maxNS {
				return true
			}
		}
		return false
	}
	const wall = math.MaxInt64
	switch {
	case s.FromNS < 0 || s.ToNS < 0 || s.FromNS > wall/2+wall/4 || s.ToNS != 0 && (s.ToNS < s.FromNS || s.ToNS-s.FromNS > maxNS):
		return "window"
	case out(0, s.Count, s.NS, s.BoundNS, s.SlowLost, int64(s.Looks), int64(s.Asked), s.AskedNS):
		return "sum"
	case s.SlowAboveNS != nil && out(-1, *s.SlowAboveNS), s.EventsAboveNS != nil && out(0, *s.EventsAboveNS):
		return "threshold"
	case s.Busy != nil && !(*s.Busy >= 0 && *s.Busy <= 1000):
		return "use of a CPU"
	}
	for _, c := range s.Calls {
		if out(0, c.Count, c.NS, c.MaxNS, c.P50NS, c.P99NS, c.P999NS) {
			return "call"
		}
	}
	for _, e := range s.Slow {
		if out(0, e.NS, e.At) {
			return "slow command"
		}
	}
	for _, e := range s.Events {
		if out(0, int64(e.Count), e.MaxNS) {
			return "event"
		}
	}
	for _, w := range s.Waits {
		if out(0, int64(w.Looks), int64(w.Most)) {
			return "wait"
		}
	}
	return ""
}
