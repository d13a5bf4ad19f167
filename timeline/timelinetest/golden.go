package timelinetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Golden is a golden case: a script, what must come of it, and what comes of it
// when one protection is switched off. In its file the parts stand below lines
// "-- want --" and "-- without NAME --".
type Golden struct {
	Name, Script, Want string
	// Without holds the wrong answers by the name of the protection.
	Without map[string]string
}

// Goldens reads the golden cases of a directory, *.txt.
func Goldens(tb testing.TB, dir string) []Golden {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no golden cases in %s: %v", dir, err)
	}
	var out []Golden
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		g := Golden{Name: strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".txt"), "-", " "), Without: map[string]string{}}
		put := func(s string) { g.Script = s }
		var part strings.Builder
		for line := range strings.Lines(string(text)) {
			name, ok := header(line)
			if !ok {
				part.WriteString(line)
				continue
			}
			put(part.String())
			part.Reset()
			put = func(s string) { g.Want = clean(s) }
			if guard, ok := strings.CutPrefix(name, "without "); ok {
				put = func(s string) { g.Without[guard] = clean(s) }
			}
		}
		put(part.String())
		if g.Want == "" {
			tb.Fatalf("%s wants nothing", file)
		}
		out = append(out, g)
	}
	return out
}

func header(line string) (string, bool) {
	line = strings.TrimSpace(line)
	name, ok := strings.CutPrefix(line, "-- ")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, " --")
}

// clean drops comments, empty lines and alignment.
func clean(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 0 {
			out = append(out, strings.Join(f, " "))
		}
	}
	return strings.Join(out, "\n")
}
