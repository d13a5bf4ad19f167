// Package export writes what is known of a recording in the formats of other tools: request by
// request as pprof, speedscope, Perfetto, CSV and parquet, of all goroutines as parquet.
package export

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/whylate/whylate/report/detail"
)

// Format is one that [Write] knows.
type Format struct {
	// Name is what users call it, About what is in it and what opens it.
	Name, About string
	// Binary: it is nothing for a terminal.
	Binary bool
	write  func(io.Writer, *detail.Recording) error
	// columns is set instead for what is of goroutines, not of requests.
	columns func(io.Writer) *Columns
}

// Goroutines reports whether the format is of all goroutines, and written by Columns; others are
// of requests, and written by Write.
func (f Format) Goroutines() bool { return f.columns != nil }

// Columns returns what writes timelines to w.
func (f Format) Columns(w io.Writer) *Columns {
	c := f.columns(w)
	c.name = f.Name
	return c
}

// Formats are all there are.
func Formats() []Format {
	return []Format{
		{Name: "pprof", About: "where the extra time of slow requests goes, as a profile of lateness: go tool pprof, speedscope", Binary: true, write: pprofTo},
		{Name: "speedscope", About: "the same, and the slowest requests one by one: speedscope.app", write: speedscopeTo},
		{Name: "perfetto", About: "the slowest requests, what each wait was for, and the collector: ui.perfetto.dev", Binary: true, write: perfettoTo},
		{Name: "csv", About: "a line for each leaf of each request: spreadsheets", write: csvTo},
		{Name: "parquet", About: "a row for each request with its leaves: DuckDB, pandas", Binary: true, write: parquetTo},
		{Name: "states", About: "parquet: a row for each stretch of each goroutine's life, with who woke it", Binary: true, columns: statesTo},
		{Name: "wakeups", About: "parquet: a row for each wake-up of a goroutine by another one", Binary: true, columns: wakeupsTo},
	}
}

// Find returns a format by its name.
func Find(name string) (f Format, ok bool) {
	all := Formats()
	i := slices.IndexFunc(all, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return f, false
	}
	return all[i], true
}

// Write writes a recording. Names in it come from the target: they are written as they are
// as far as the format has a way to hold any text, without what is no printable character.
// Errors are those of w.
func (f Format) Write(w io.Writer, r *detail.Recording) error {
	if err := f.write(w, r); err != nil {
		return fmt.Errorf("export as %s: %w", f.Name, err)
	}
	return nil
}

// maxText bounds a name in bytes: some targets have type parameters of many kilobytes.
const maxText = 1024

// text makes a name of the target fit to be shown.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// title names a request.
func title(r *detail.Request) string {
	s := fmt.Sprintf("%s %s %.3f ms", r.ID, text(r.Endpoint), float64(r.DurationNS)/1e6)
	if r.InFlight {
		s += ", not ended"
	}
	return s
}

// doing says what a goroutine does in a step, in few words.
func doing(s *detail.Step) string {
	out := text(s.State)
	if s.Where != "" {
		out += " in " + text(s.Where)
	}
	if s.Call != "" && s.Call != s.Where {
		out += " (" + text(s.Call) + ")"
	}
	return out
}

// who names the goroutine of a step.
func who(s *detail.Step) string {
	if s.Goroutine == 0 {
		return "no goroutine"
	}
	return strings.TrimSpace(fmt.Sprintf("goroutine %d %s", s.Goroutine, text(s.Root)))
}
