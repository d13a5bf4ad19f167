package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExportWritesAWholeFileOrNone(t *testing.T) {
	dir := t.TempDir()
	for _, format := range []string{"pprof", "speedscope", "perfetto", "csv", "parquet"} {
		name := filepath.Join(dir, format)
		code, stdout, stderr := whylate(t, "export", healthyTrace, "--to", format, "-o", name)
		st, err := os.Stat(name)
		if code != exitOK || stdout != "" || stderr != "" || err != nil || st.Size() < 500 {
			t.Errorf("%s: exit %d, %q, %q, %v", format, code, stdout, stderr, err)
		}
	}
	if code, stdout, _ := whylate(t, "export", healthyTrace, "--to", "csv"); code != exitOK || !strings.HasPrefix(stdout, "request,endpoint,") {
		t.Errorf("exit %d, %.100q", code, stdout)
	}
	if code, _, stderr := whylate(t, "export", healthyTrace, "--to", "csv", "-o", "/dev/null"); code != exitOK {
		t.Errorf("exit %d, %q", code, stderr)
	}
	if st, err := os.Stat("/dev/null"); err != nil || st.Mode().IsRegular() {
		t.Errorf("it is a file now: %v, %v", st, err)
	}
	for _, bad := range []string{filepath.Join(dir, "none", "x"), dir} {
		if code, _, stderr := whylate(t, "export", healthyTrace, "--to", "csv", "-o", bad); code != exitFailure || !strings.HasPrefix(stderr, "whylate: ") {
			t.Errorf("%s: exit %d, %q", bad, code, stderr)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 5 {
		t.Errorf("%v: %v", list, err)
	}
}

func TestExportSaysWhatCannotBeExported(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.whylate")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, want string }{
		{empty, "whylate record"},
		{filepath.Join(dir, "none.whylate"), "no such file"},
	} {
		if code, stdout, stderr := whylate(t, "export", c.file, "--to", "csv"); code != exitFailure || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %q, %q", c.file, code, stdout, stderr)
		}
	}
}
