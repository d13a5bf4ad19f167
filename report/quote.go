package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Function names, URLs, endpoints, file names and notes come from the target or
// from an incident file, so whoever controls those chooses the bytes. quote is
// the only way such a string reaches the terminal. A string that passed it
//
//   - is one line of valid UTF-8 without control characters, escape sequences,
//     bidirectional controls or anything else that is invisible: these are
//     written out, as in \x1b or \u202e, so that the reader sees the attempt;
//   - has no right-to-left letters (written out too): they would reorder the
//     numbers printed after them;
//   - is at most limit columns wide, cut with an ellipsis.
//
// Runs of white space become one space, so the result can be wrapped at spaces.
func quote(s string, limit int) string {
	var b []byte
	width, marks, space := 0, 0, false
	cut := 0 // where the ellipsis goes if s turns out to be too wide
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		raw := s[i : i+size]
		i += size
		if unicode.IsSpace(r) && r != '\u0085' {
			space = len(b) > 0
			marks = 0
			continue
		}
		piece := raw
		switch {
		case r == utf8.RuneError && size == 1:
			piece = fmt.Sprintf(`\x%02x`, raw[0])
		case unicode.In(r, unicode.Mn, unicode.Me):
			// Two marks make any letter; hundreds make a tower over other lines.
			marks++
			if marks > 2 || len(b) == 0 || space || r == '\u034f' || unicode.Is(unicode.Variation_Selector, r) {
				piece = written(r)
			}
		default:
			marks = 0
			if !visible(r) {
				piece = written(r)
			}
		}
		need := columns(piece)
		if space {
			need++
		}
		if width+need > limit {
			return string(b[:cut]) + "…"
		}
		if space {
			b = append(b, ' ')
			space = false
		}
		b = append(b, piece...)
		width += need
		if width < limit {
			cut = len(b)
		}
	}
	return string(b)
}

// quoteEnd is quote for file names, of which the end says most: it keeps the
// last limit columns.
func quoteEnd(s string, limit int) string {
	const most = 4096
	if len(s) > most {
		s = s[len(s)-most:]
	}
	q := []rune(quote(s, 8*most))
	width, cut := 0, len(q)
	for i := len(q) - 1; i >= 0; i-- {
		width += runeColumns(q[i])
		if width > limit {
			for cut < len(q) && runeColumns(q[cut]) == 0 {
				cut++ // a mark without its letter
			}
			return "…" + string(q[cut:])
		}
		if width < limit {
			cut = i
		}
	}
	return string(q)
}

func written(r rune) string {
	switch {
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// visible reports whether a terminal shows r as itself, from left to right.
func visible(r rune) bool {
	switch {
	case r < 0x80:
		return r >= 0x20 && r < 0x7f
	case !unicode.IsPrint(r):
		return false
	case r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0', r == '\u2800':
		return false // letters and symbols by category, blank on the screen
	}
	return !rightToLeft(r)
}

// rightToLeft reports whether r lies in a block which Unicode reserves for
// scripts of bidirectional class R or AL (UAX 44, DerivedBidiClass).
func rightToLeft(r rune) bool {
	return r >= 0x0590 && r <= 0x08ff ||
		r >= 0xfb1d && r <= 0xfdff ||
		r >= 0xfe70 && r <= 0xfeff ||
		r >= 0x10800 && r <= 0x10fff ||
		r >= 0x1e800 && r <= 0x1efff
}

// columns is the width of s on a terminal.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

// runeColumns is 0 for combining marks, 2 for the wide blocks of East Asian
// scripts and emoji (Unicode's EastAsianWidth W and F), else 1.
func runeColumns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f,
		r >= 0x2e80 && r <= 0xa4cf && r != 0x303f,
		r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f,
		r >= 0xff00 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1f64f,
		r >= 0x1f680 && r <= 0x1f6ff,
		r >= 0x1f900 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// words splits s at spaces, but keeps a number and its unit in one word.
func words(s string) []string {
	var out []string
	for _, w := range strings.Fields(s) {
		if n := len(out); n > 0 && unit(w) && out[n-1][len(out[n-1])-1] >= '0' && out[n-1][len(out[n-1])-1] <= '9' {
			out[n-1] += " " + w
			continue
		}
		out = append(out, w)
	}
	return out
}

func unit(w string) bool {
	switch strings.TrimRight(w, ".,;:)]") {
	case "ns", "µs", "ms", "s", "%", "B", "kB", "MB", "GB":
		return true
	}
	return false
}

// wrap breaks s at spaces into lines of at most width columns; words that are
// wider are broken anywhere.
func wrap(s string, width int) []string {
	var lines []string
	line, have := "", 0
	flush := func() {
		if have > 0 {
			lines = append(lines, line)
		}
		line, have = "", 0
	}
	for _, word := range words(s) {
		n := columns(word)
		if have > 0 && have+1+n > width {
			flush()
		}
		if have > 0 {
			line, have = line+" ", have+1
		}
		for _, r := range word {
			c := runeColumns(r)
			if have+c > width && have > 0 {
				flush()
			}
			line, have = line+string(r), have+c
		}
	}
	flush()
	return lines
}

// Quote makes a text that comes from a target safe to print on a terminal, on
// one line of at most 400 columns.
func Quote(s string) string { return quote(s, 400) }
