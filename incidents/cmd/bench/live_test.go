package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRepeatRunsTheCasesFirst(t *testing.T) {
	folder, script := t.TempDir(), filepath.Join(t.TempDir(), "script")
	// It keeps what it was asked for, where a recording would be.
	text := "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -keep ] && keep=$2; printf '%s ' \"$1\"; shift; done > said\nmv said \"$keep\"\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	err := run(context.Background(), []string{"-recorded", folder, "-repeat", "2", "-for", "3s", "-run", "caddy-,log$", "-held-out", "-script", script}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "no incidents to score") {
		t.Errorf("%v, want that there is nothing to score", err)
	}
	said, err := os.ReadFile(filepath.Join(folder, "said"))
	if want := "-times 2 -for 3s -run caddy-,log$ -keep " + folder + " -least 0 -held-out "; err != nil || string(said) != want {
		t.Errorf("the script was called with %q, %v, want %q", said, err, want)
	}
}

func TestCasesThatCannotRunAreAnError(t *testing.T) {
	err := run(context.Background(), []string{"-recorded", t.TempDir(), "-repeat", "1", "-script", "/bin/false"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "run the cases: exit status 1") {
		t.Errorf("%v, want that the script failed", err)
	}
}
