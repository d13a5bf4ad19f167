package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
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

// live is a target in a document: a URL, or a process of a machine or a container.
var live = regexp.MustCompile(`http://(localhost|host|pod):6060|\b4711\b|\b1\b`)

// anyHost is the beginning of a URL.
var anyHost = regexp.MustCompile(`http://[a-z]+`)

// What the documents tell people to type is understood, and runs: commands about files with
// recordings that a test has, those about live targets with a service that it starts. The demo
// has a test of its own, dependencies are not there.
func TestTheDocumentsCommandsWork(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran, parsed := map[string]bool{}, 0
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
			what := anyHost.ReplaceAllString(line, "http://localhost") // what it does is the same for each
			if ran[what] || len(args) < 2 && cmd.Name() != "doctor" && cmd.Name() != "version" || slices.Contains(args, "A") || slices.Equal(args, []string{"diagnose", "-o", "json"}) || strings.Contains(line, "--redis") {
				continue
			}
			ran[what] = true
			t.Run(line, func(t *testing.T) { runThere(t, args) })
		}
	}
	if len(ran) < 20 || parsed < 25 {
		t.Errorf("%d commands ran, %d were parsed: the documents have more", len(ran), parsed)
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
		args[i] = strings.Replace(args[i], "/tmp/", dir+"/", 1)
		name := args[i]
		if live.FindString(name) != name || name == "" {
			continue
		}
		s := scene{t, dir}
		service := s.service()
		s.ask(service.URL+"/healthz", 5*time.Millisecond)
		args[i] = service.URL
		if !strings.HasPrefix(live.FindString(name), "http") && runtime.GOOS == "linux" {
			args[i] = strconv.Itoa(os.Getpid())
		}
		args = append(args, "--for=1s")
	}
	if code, _, stderr := whylate(t, args...); code == exitFailure || code == exitUsage {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
