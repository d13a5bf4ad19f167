package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// holds fails if a folder has other files than these, with these texts.
func holds(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != len(want) {
		t.Errorf("%v, %v", list, err)
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestAFileIsThereWhenItIsWhole(t *testing.T) {
	dir := t.TempDir()
	a := filepath.Join(dir, "a")
	if err := File(a, text("one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(a, 0o640); err != nil {
		t.Fatal(err)
	}
	bad := errors.New("bad")
	if err := File(a, func(w io.Writer) error { return errors.Join(text("half")(w), bad) }); !errors.Is(err, bad) {
		t.Error(err)
	}
	holds(t, dir, map[string]string{"a": "one"})
	if err := File(a, text("two")); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, map[string]string{"a": "two"})
	if st, err := os.Stat(a); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if err := File(filepath.Join(dir, "none", "a"), text("")); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join("none", "a")) {
		t.Error(err)
	}
	if err := File(dir, text("")); err == nil {
		t.Error("a folder was replaced")
	}
}

// Links stay what they are: the file behind them is replaced.
func TestWhatIsBehindALinkIsReplaced(t *testing.T) {
	dir := t.TempDir()
	a, b, dangling := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	if err := errors.Join(os.WriteFile(a, []byte("old"), 0o600), os.Symlink("a", b), os.Symlink("nothing", dangling)); err != nil {
		t.Skip(err)
	}
	if err := File(b, text("new")); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(b); err != nil || target != "a" {
		t.Errorf("%q, %v", target, err)
	}
	if err := File(dangling, text("new")); err == nil {
		t.Error("a link to nothing was written to")
	}
	if err := os.Remove(dangling); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, map[string]string{"a": "new", "b": "new"})
}

func TestDevicesAreWrittenTo(t *testing.T) {
	if err := File(os.DevNull, text("gone")); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(os.DevNull); err != nil || st.Mode().IsRegular() {
		t.Errorf("%v, %v", st, err)
	}
	r, w, err := os.Pipe()
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("no names of open files: ", err)
	}
	defer r.Close()
	name := filepath.Join("/proc/self/fd", fmt.Sprint(w.Fd()))
	if err := errors.Join(File(name, text("through")), w.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "through" {
		t.Errorf("%q, %v", got, err)
	}
}
