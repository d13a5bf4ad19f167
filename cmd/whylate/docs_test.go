package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commands are the lines of whylate that a document shows: in blocks, and between backticks.
func commands(t *testing.T, file string) (list []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fenced := false
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if block, ok := strings.CutPrefix(line, "    "); ok || fenced {
			if fenced {
				block = line
			}
			block, _, _ = strings.Cut(block, " #")
			if _, after, ok := strings.Cut(block, "-- whylate "); ok {
				block = "whylate " + after
			}
			if strings.HasPrefix(block, "whylate ") {
				block, _, _ = strings.Cut(block, " && ")
				list = append(list, strings.TrimSpace(block))
			}
			continue
		}
		for _, m := range regexp.MustCompile("`(?:sudo )?(whylate [^`]*)`").FindAllStringSubmatch(line, -1) {
			list = append(list, m[1])
		}
	}
	return list
}

// placeholder is what stands for something else: a word in capitals, a part that may be left out.
var placeholder = regexp.MustCompile(`\b[A-Z][A-Z-]+\b|\[|\.\.\.`)

// What the documents tell people to type is understood: commands about files run, of
// recordings that a test has; those about live targets have the flags that there are.
func TestTheDocumentsCommandsWork(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran, parsed := 0, 0
	for _, file := range append(files, "../../README.md") {
		for _, line := range commands(t, file) {
			args := strings.Fields(strings.TrimPrefix(line, "whylate "))
			root := newRoot(&bytes.Buffer{}, &bytes.Buffer{})
			root.InitDefaultCompletionCmd() // Execute does
			cmd, rest, err := root.Find(args)
			if err != nil || cmd == root && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				t.Errorf("%s: %q: %v", file, line, err)
				continue
			}
			if placeholder.MatchString(line) { // is text, not to be typed
				continue
			}
			parsed++
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", file, line, err)
			}
			if strings.Contains(line, ".whylate") && !strings.Contains(line, "http://") && cmd.Name() != "record" {
				ran++
				t.Run(line, func(t *testing.T) { runThere(t, args) })
			}
		}
	}
	if ran < 12 || parsed < 25 {
		t.Errorf("%d commands ran, %d were parsed: the documents have more", ran, parsed)
	}
}

// runThere runs a command in a folder in which the recordings are that documents name.
func runThere(t *testing.T, args []string) {
	t.Helper()
	incident, err := os.ReadFile(lockIncident)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"a.whylate", "b.whylate", "before.whylate", "after.whylate"} {
		if args[0] == "redact" && name != "a.whylate" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), incident, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("TMPDIR", dir)
	t.Setenv("BROWSER", "true")
	for i := range args {
		args[i], _, _ = strings.Cut(args[i], ">") // the shell's
	}
	if code, _, stderr := whylate(t, args...); code == exitFailure || code == exitUsage {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
