package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whylate/whylate/internal/need"
)

// browser is a Chromium that needs no screen.
func browser(t *testing.T) string {
	t.Helper()
	if s := os.Getenv("WHYLATE_CHROMIUM"); s != "" {
		return s
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	need.Feature(t, "chromium", errors.New("no chromium-headless-shell, chromium or google-chrome in PATH, and no WHYLATE_CHROMIUM"))
	return ""
}

// A browser shows the page of every golden incident, and of a bare trace, as its JSON says, by mouse and by
// keyboard, light and dark, wide and narrow, and asks nobody for anything. Pictures of the
// pages go to the folder WHYLATE_SCREENSHOTS, if it is set.
func TestABrowserShowsEveryIncident(t *testing.T) {
	chromium := browser(t)
	_, err := os.Stat("../ui/node_modules/playwright-core")
	need.Feature(t, "page", err)
	dir := t.TempDir()
	whylate := filepath.Join(t.TempDir(), "whylate")
	if out, err := exec.Command("go", "build", "-o", whylate, "../cmd/whylate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var files []string
	for _, pattern := range []string{"../cause/*/testdata/*.whylate", "../diagnose/testdata/*.whylate"} {
		list, err := filepath.Glob(pattern)
		if err != nil || len(list) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(list), err)
		}
		files = append(files, list...)
	}
	files = append(files, "../request/testdata/fasthttp.trace") // nobody recorded it with whylate
	for _, file := range files {
		for _, format := range []string{"html", "json"} {
			out, err := os.Create(filepath.Join(dir, incident(file)+"."+format))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(whylate, "diagnose", file, "-o", format)
			cmd.Stdout = out
			if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 1 {
				t.Fatal(err)
			}
			if err := out.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := spoiled()
	for name, write := range map[string]func(*bytes.Buffer) error{
		"hostile.html": func(b *bytes.Buffer) error { return HTML(b, d) },
		"hostile.json": func(b *bytes.Buffer) error { return JSON(b, d) },
	} {
		var b bytes.Buffer
		if err := errors.Join(write(&b), os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("node", "test/walk.mjs", chromium, dir)
	cmd.Dir = "../ui"
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	if saw := fmt.Sprintf("\n%d pages, ", len(files)+1); !strings.Contains("\n"+string(out), saw) {
		t.Errorf("it did not see the pages of %d recordings and a hostile one", len(files))
	}
}

// incident is what the page of one is called: cause.name, as some have the same name.
func incident(file string) string {
	folder := filepath.Base(filepath.Dir(filepath.Dir(file)))
	return folder + "." + strings.TrimSuffix(filepath.Base(file), ".whylate")
}
