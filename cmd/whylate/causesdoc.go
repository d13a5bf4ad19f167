package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/whylate/whylate/cause"
)

//go:generate sh -c "go run . causes --markdown > ../../docs/causes.md"

const causesIntro = `# Causes

<!-- Written by whylate causes --markdown from the entries below cause/. Do not edit: go generate ./cmd/whylate. -->

What whylate can name, in the order in which causes claim time: what an earlier one claims is gone for those behind it, so
that shares add up. A cause is named if all that must hold holds and nothing that must not hold does, in the slow requests compared
with the typical ones of the same recording. Where what would decide was not recorded, or speaks for neither, the answer is
"consistent with" it and its look-alikes, and what to record. ` + "`whylate causes ID`" + ` prints the same.

| cause | what it is |
|---|---|
`

// causesMarkdown writes the whole catalogue as one document.
func causesMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString(causesIntro)
	for _, e := range cause.Entries() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", e.ID, e.ID, e.Title)
	}
	for _, e := range cause.Entries() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", e.ID, e.What)
		fmt.Fprintf(&b, "- **Must hold:** %s.\n- **Must not hold:** %s.\n- **Look-alikes:** %s.\n- **Fix:**\n", e.MustHold, e.MustNot, linked(e.LookAlikes))
		for _, f := range e.Fix {
			fmt.Fprintf(&b, "  - %s\n", f)
		}
		fmt.Fprintf(&b, "- **Verify:** %s.\n", e.Verify)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// linked links the causes that can be named; others are still to come.
func linked(ids []string) string {
	var out []string
	for _, id := range ids {
		if cause.Lookup(id) == nil {
			out = append(out, id+" (not named yet)")
			continue
		}
		out = append(out, fmt.Sprintf("[%s](#%s)", id, id))
	}
	return strings.Join(out, ", ")
}
