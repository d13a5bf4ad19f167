package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/whylate/whylate/internal/unpack"
)

// goldenFile is a recording with a cause, and with the host's evidence.
func goldenFile(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("../../cause/quota-too-low/testdata/*.whylate")
	if err != nil || len(found) == 0 {
		t.Fatalf("no golden incident: %v", err)
	}
	return found[0]
}

// files are the names in a folder.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestRedactWritesACopyForStrangersAndATableForTheOwner(t *testing.T) {
	dir := t.TempDir()
	in, out, table := goldenFile(t), filepath.Join(dir, "copy.whylate"), filepath.Join(dir, "names.json")
	code, stdout, stderr := whylate(t, "redact", in, "-o", out, "--map", table)
	if code != exitOK || stderr != "" || !regexp.MustCompile(`(?m)^trace +\d+ names hashed, +\d+ kept$`).MatchString(stdout) || !strings.HasSuffix(stdout, "\nwhylate diagnose "+out+"\n") {
		t.Fatalf("exit %d, %q, %q", code, stdout, stderr)
	}
	for _, name := range []string{out, table} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	b, err := os.ReadFile(table)
	names := map[string]string{}
	if err != nil || json.Unmarshal(b, &names) != nil || len(names) < 20 {
		t.Errorf("%d names, %v", len(names), err)
	}
	before, _, _ := whylate(t, "diagnose", in)
	after, text, _ := whylate(t, "diagnose", out)
	if before != after || !strings.Contains(text, "hashes") {
		t.Errorf("exit %d, %d before: %s", after, before, text)
	}
	if got := files(t, dir); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func TestRedactNamesTheCopyAfterTheRecording(t *testing.T) {
	for name, want := range map[string]string{"a.whylate": "a.redacted.whylate", "d/a.trace.gz": "d/a.redacted.whylate", "a.out": "a.redacted.whylate", "a": "a.redacted.whylate"} {
		if got := redactedName(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestRedactReplacesNothingButFiles(t *testing.T) {
	dir := t.TempDir()
	in := goldenFile(t)
	link := filepath.Join(dir, "link.whylate")
	if err := os.Symlink(in, link); err != nil {
		t.Skip(err)
	}
	own, err := filepath.Abs(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := whylate(t, "redact", in, "-o", link); code != exitUsage || !strings.Contains(stderr, "over itself") {
		t.Errorf("a link to the recording: exit %d, %q", code, stderr)
	}
	for _, c := range [][]string{
		{"-o", "/dev/null"},
		{"-o", dir},
		{"-o", filepath.Join(dir, "none", "x")},
		{"-o", filepath.Join(dir, "x"), "--map", filepath.Join(dir, "none", "x")},
	} {
		code, stdout, stderr := whylate(t, append([]string{"redact", in}, c...)...)
		if code != exitFailure || stdout != "" || strings.Count(stderr, "\n") != 2 || strings.Contains(stderr, ".part") || strings.Contains(stderr, ".whylate-") {
			t.Errorf("%v: exit %d, %q, %q", c, code, stdout, stderr)
		}
	}
	if st, err := os.Stat(os.DevNull); err != nil || st.Mode().IsRegular() {
		t.Errorf("it is a file now: %v", err)
	}
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
}

// A damaged recording gives an error and no copy; where the damage is in what nobody reads, such as a
// date, the copy is that of the whole one, or something is said to be left out.
func TestRedactMakesNoCopyOfADamagedRecording(t *testing.T) {
	data, err := os.ReadFile(goldenFile(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.whylate"), filepath.Join(dir, "out.whylate")
	try := func(what string, bad []byte) (ok bool, stdout string) {
		if err := os.WriteFile(in, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := whylate(t, "redact", in, "-o", out, "--salt", "s", "--map", filepath.Join(dir, "names"))
		if code == exitOK {
			return true, stdout
		}
		if code != exitFailure || stdout != "" || !strings.HasPrefix(stderr, "whylate: ") || strings.Count(stderr, "\n") != 2 || len(files(t, dir)) != 1 {
			t.Errorf("%s: exit %d, %q, %q, %v", what, code, stdout, stderr, files(t, dir))
		}
		return false, ""
	}
	if ok, _ := try("whole", data); !ok {
		t.Fatal("the whole one was refused")
	}
	want := unpacked(t, out)
	clean := func() {
		os.Remove(out)
		os.Remove(filepath.Join(dir, "names"))
	}
	clean()
	failed := 0
	for i := range 60 {
		at := i * len(data) / 60
		bad := bytes.Clone(data)
		bad[at] ^= 1 << (i % 8)
		ok, stdout := try("a bit at "+filepath.Base(in), bad)
		if !ok {
			failed++
			continue
		}
		if got := unpacked(t, out); !strings.Contains(stdout, "left out") && !reflect.DeepEqual(got, want) {
			t.Errorf("a bit at %d made another copy", at)
		}
		clean()
	}
	if failed < 50 {
		t.Errorf("only %d of 60 damaged recordings were refused", failed)
	}
	for i := range 20 {
		if ok, _ := try("cut", data[:len(data)*i/20]); ok {
			t.Errorf("cut to %d of 20", i)
			clean()
		}
	}
}

// unpacked is what an incident holds.
func unpacked(t *testing.T, path string) map[string][]byte {
	t.Helper()
	out, err := unpack.Zip(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
