package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/whylate/whylate/cause"
)

// JSON writes d as one document of schema whylate.diagnosis/1, indented and
// ended by a newline. Lists without elements are written as [], never as null;
// ruled_out is written in the order of elimination. Invisible characters and
// right-to-left letters are written as \u escapes, which every JSON reader turns
// back into the same string, so that the document is safe to show on a terminal.
// d is not changed. The error is that of a share which is no number, or w's.
func JSON(w io.Writer, d *Diagnosis) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // URLs with & stay readable
	e.SetIndent("", "  ")
	if err := e.Encode(complete(d)); err != nil {
		return fmt.Errorf("writing the diagnosis as JSON: %w", err)
	}
	_, err := w.Write(EscapeInvisible(b.Bytes()))
	return err
}

// complete returns a copy of d with its schema named and no nil list.
func complete(d *Diagnosis) *Diagnosis {
	c := *d
	if c.Schema == "" {
		c.Schema = Schema
	}
	c.Requests.Classes = list(c.Requests.Classes)
	c.Requests.Excluded = list(c.Requests.Excluded)
	c.Findings = append([]cause.Finding{}, c.Findings...)
	for i := range c.Findings {
		f := &c.Findings[i]
		f.Evidence, f.Fix = list(f.Evidence), list(f.Fix)
	}
	c.ConsistentWith = append([]cause.Consistent{}, c.ConsistentWith...)
	for i := range c.ConsistentWith {
		c.ConsistentWith[i].Causes = list(c.ConsistentWith[i].Causes)
	}
	c.RuledOut = eliminated(c.RuledOut)
	c.Unnamed = list(c.Unnamed)
	c.NotRecorded = list(c.NotRecorded)
	return &c
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// EscapeInvisible rewrites the characters that quote would write out. In a JSON
// document they can only stand inside strings (the document's own line ends
// excepted), where an escape means the same.
func EscapeInvisible(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	for len(doc) > 0 {
		r, size := utf8.DecodeRune(doc)
		switch {
		case r == '\n' || visible(r):
			out = append(out, doc[:size]...)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		doc = doc[size:]
	}
	return out
}
