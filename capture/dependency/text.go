package dependency

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// short cuts a text to n bytes of valid UTF-8 on one line, without anything that
// cannot be seen.
func short(s string, n int) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// word returns the name of a command, an event or a wait; "?" if it is none. What
// is not a plain word may be data of somebody's.
func word(s string) string {
	const most = 60
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.|:", r)
	}
	if s == "" || len(s) > most || strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return "?"
	}
	return s
}

// statement takes comments and literals out of a statement. pg_stat_statements has
// replaced the constants of queries by $1 and so on; in statements that are no
// queries, such as CREATE USER, they stand, and comments may hold anything.
func statement(sql string) string {
	var b strings.Builder
	for i := 0; i < len(sql); {
		rest := sql[i:]
		switch c := sql[i]; {
		case strings.HasPrefix(rest, "--"):
			i += until(rest, 2, "\n")
			b.WriteByte(' ')
		case strings.HasPrefix(rest, "/*"):
			i += comment(rest)
			b.WriteByte(' ')
		case c == '\'':
			i += quoted(rest)
			b.WriteString("'…'")
		case c == '"':
			n := until(rest, 1, `"`)
			b.WriteString(rest[:n])
			i += n
		case c == '$':
			tag := dollar(rest)
			if tag == "" { // a parameter
				b.WriteByte(c)
				i++
				continue
			}
			i += until(rest, len(tag), tag)
			b.WriteString("'…'")
		case c >= '0' && c <= '9' && !partOfName(sql, i):
			for i < len(sql) && (sql[i] >= '0' && sql[i] <= '9' || sql[i] == '.') {
				i++
			}
			b.WriteByte('?')
		default:
			b.WriteByte(c)
			i++
		}
	}
	return short(b.String(), MaxText)
}

// until is the length of a text up to the end of the next mark behind from; all of it
// without one.
func until(s string, from int, mark string) int {
	if n := strings.Index(s[from:], mark); n >= 0 {
		return from + n + len(mark)
	}
	return len(s)
}

// quoted is the length of a string literal. A backslash may or may not escape what
// follows; taking it for an escape can only hide more.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '\'':
			return i + 1
		}
	}
	return len(s)
}

// comment is the length of a block comment; they nest.
func comment(s string) int {
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		switch s[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			i++
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

// dollar returns the opening mark of a dollar-quoted literal, "" if s begins with
// something else.
func dollar(s string) string {
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '$':
			return s[:i+1]
		case c >= '0' && c <= '9' && i == 1:
			return ""
		case c != '_' && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c < 0x80:
			return ""
		}
	}
	return ""
}

// partOfName reports whether the digit at i belongs to a name or a parameter.
func partOfName(s string, i int) bool {
	for ; i > 0; i-- {
		c := s[i-1]
		switch {
		case c >= '0' && c <= '9':
		case c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80:
			return true
		default:
			return false
		}
	}
	return false
}

// cut keeps the calls that took the most time, and of the others one with the
// longest call.
func (s *Server) cut() {
	slices.SortStableFunc(s.Calls, func(a, b Call) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	if len(s.Calls) > MaxCalls {
		longest := slices.MaxFunc(s.Calls[MaxCalls-1:], func(a, b Call) int { return cmp.Compare(a.MaxNS, b.MaxNS) })
		s.Calls, s.CallsCut = s.Calls[:MaxCalls], true
		s.Calls[MaxCalls-1] = longest
	}
	slices.SortStableFunc(s.Slow, func(a, b Slow) int { return cmp.Compare(b.NS, a.NS) })
	slices.SortStableFunc(s.Events, func(a, b Event) int { return cmp.Compare(b.MaxNS, a.MaxNS) })
	slices.SortStableFunc(s.Waits, func(a, b Wait) int { return cmp.Or(cmp.Compare(b.Looks, a.Looks), cmp.Compare(b.Most, a.Most)) })
	s.Slow = s.Slow[:min(len(s.Slow), MaxSlow)]
	s.Events = s.Events[:min(len(s.Events), MaxEvents)]
	s.Waits = s.Waits[:min(len(s.Waits), MaxWaits)]
	s.Missing = s.Missing[:min(len(s.Missing), MaxMissing)]
}

func (s *Server) miss(what, why, command string) {
	s.Missing = append(s.Missing, Missing{What: what, Why: short(why, MaxText), Command: command})
}

// clamp makes a number of the server's one that a file may hold.
func clamp(n int64) int64 { return min(max(n, 0), maxNS) }

// fromFloat converts a number of units to nanoseconds.
func fromFloat(v float64, unit float64) int64 {
	if !(v > 0) {
		return 0
	}
	return int64(min(v*unit, maxNS))
}
