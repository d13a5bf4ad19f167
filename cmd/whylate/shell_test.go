package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The scripts are for the shells: those that are here read them.
func TestShellsTakeTheCompletions(t *testing.T) {
	for shell, check := range map[string][]string{"bash": {"-n"}, "zsh": {"-n"}, "fish": {"--no-execute"}} {
		code, stdout, stderr := whylate(t, "completion", shell)
		if code != exitOK || stderr != "" || !strings.Contains(stdout, "whylate") {
			t.Errorf("%s: exit %d, %q", shell, code, stderr)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("there is no %s here", shell)
			continue
		}
		file := filepath.Join(t.TempDir(), shell)
		if err := os.WriteFile(file, []byte(stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path, append(check, file)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
}

func TestWhatIsCompleted(t *testing.T) {
	for line, want := range map[string]string{
		"export a.whylate --to ": "parquet",
		"redac":                  "redact\t",
		"redact ":                ":0", // files
		"causes gc-":             "gc-assist\t",
		"demo tcp":               "tcp-loss",
		"":                       "diagnose\t",
	} {
		_, stdout, _ := whylate(t, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		if !strings.Contains("\n"+stdout, "\n"+want) {
			t.Errorf("%q is completed to %q, want %q", line, stdout, want)
		}
	}
}

func TestEachCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if code, stdout, stderr := whylate(t, "man", dir); code != exitOK || stdout+stderr != "" {
		t.Fatalf("exit %d, %q, %q", code, stdout, stderr)
	}
	for _, c := range newRoot(&bytes.Buffer{}, &bytes.Buffer{}).Commands() {
		b, err := os.ReadFile(filepath.Join(dir, "whylate-"+c.Name()+".1"))
		if err != nil || !bytes.Contains(b, []byte(`.TH "WHYLATE-`+strings.ToUpper(c.Name())+`"`)) {
			t.Errorf("%s: %v, %.100q", c.Name(), err, b)
		}
	}
	if code, _, stderr := whylate(t, "man", "/dev/null/x"); code != exitFailure || !strings.HasPrefix(stderr, "whylate: ") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
