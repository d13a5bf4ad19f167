package evidence

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func create(t *testing.T) (*Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.whylate")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Abort() })
	return w, path
}

func member(t *testing.T, w *Writer, name string) *MemberWriter {
	t.Helper()
	m, err := w.Member(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func put(t *testing.T, w *Writer, name, body string) {
	t.Helper()
	m := member(t, w, name)
	if _, err := io.WriteString(m, body); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func reopen(t *testing.T, path string) *Incident {
	t.Helper()
	in, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in
}

func folder(t *testing.T, path string) []string {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	w, path := create(t)
	bodies := map[string]string{}
	for i, name := range MemberNames() {
		if name == MemberManifest {
			continue
		}
		bodies[name] = strings.Repeat(name, i+1)
		if name == MemberTrace {
			bodies[name] = traceHeader + "rest"
		}
		put(t, w, name, bodies[name])
	}
	w.Edit(func(m *Manifest) { m.Notes = append(m.Notes, "a note"); m.Cost.Requests = 7 })
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	in := reopen(t, path)
	if !slices.Equal(in.Members(), MemberNames()) {
		t.Errorf("members %v", in.Members())
	}
	for name, want := range bodies {
		if got, err := readMember(in, name); err != nil || string(got) != want {
			t.Errorf("%s: %q, error %v; want %q", name, got, err, want)
		}
	}
	if len(in.Manifest.Recorded) != len(bodies) || in.Manifest.Schema != Schema || in.Manifest.Cost.Requests != 7 || in.Manifest.Started.IsZero() {
		t.Errorf("manifest %+v", in.Manifest)
	}
	for _, r := range in.Manifest.Recorded {
		if r.Bytes != int64(len(bodies[r.Member])) || r.What == "" || r.EndedNS < r.StartedNS {
			t.Errorf("recorded %+v", r)
		}
	}
	for name, f := range in.files {
		if age := time.Since(f.Modified); age > time.Hour || age < -time.Hour {
			t.Errorf("%s: dated %s", name, f.Modified)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode %v, error %v: evidence is for its owner only", info.Mode(), err)
	}
}

func TestMembersAreWrittenWhileTheTraceStreams(t *testing.T) {
	w, path := create(t)
	chunk := bytes.Repeat([]byte("event "), 10_000)
	trace := member(t, w, MemberTrace)
	if _, err := io.WriteString(trace, traceHeader); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for _, name := range []string{MemberHost, MemberCPU, MemberKernel} {
		group.Go(func() {
			m, err := w.Member(name)
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				if _, err := io.WriteString(m, name); err != nil {
					t.Error(err)
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			w.Edit(func(m *Manifest) { m.Notes = append(m.Notes, name) })
		})
	}
	for range 20 {
		if _, err := trace.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()
	trace.Incomplete("the target died")
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	in := reopen(t, path)
	for name, want := range map[string]string{
		MemberTrace: traceHeader + strings.Repeat(string(chunk), 20),
		MemberHost:  strings.Repeat(MemberHost, 20), MemberCPU: strings.Repeat(MemberCPU, 20), MemberKernel: strings.Repeat(MemberKernel, 20),
	} {
		if got, err := readMember(in, name); err != nil || string(got) != want {
			t.Errorf("%s: %d bytes of %d, error %v", name, len(got), len(want), err)
		}
	}
	if first := in.Manifest.Recorded[0]; first.Member != MemberTrace || first.Incomplete != "the target died" {
		t.Errorf("the trace began first and is incomplete, got %+v", first)
	}
}

func TestNothingHalfWrittenRemains(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, w *Writer) error
		want string // part of the error; "" means none
		left int    // files in the folder afterwards
	}{
		{"after Close there is the file alone", func(t *testing.T, w *Writer) error { return w.Close() }, "", 1},
		{"after Abort there is nothing", func(t *testing.T, w *Writer) error { return w.Abort() }, "", 0},
		{"Abort after Close does nothing", func(t *testing.T, w *Writer) error { return errors.Join(w.Close(), w.Abort()) }, "", 1},
		{"Close after Abort fails", func(t *testing.T, w *Writer) error { w.Abort(); return w.Close() }, "aborted", 0},
		{"Close with an open member fails", func(t *testing.T, w *Writer) error { member(t, w, MemberHost); return w.Close() }, "not closed", 0},
		{"a full disk fails Close", func(t *testing.T, w *Writer) error {
			w.file.Close() // every write fails from here on
			m := member(t, w, MemberTrace)
			for range 1000 {
				if _, err := m.Write(make([]byte, 1<<20)); err != nil {
					break
				}
			}
			m.Close()
			return w.Close()
		}, "write member trace", 0},
		{"a manifest above its bound fails Close", func(t *testing.T, w *Writer) error {
			w.Edit(func(m *Manifest) { m.Notes = []string{strings.Repeat("x", maxManifest)} })
			return w.Close()
		}, "too large", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, path := create(t)
			if _, err := os.Stat(path); err == nil {
				t.Error("the file has its name before Close")
			}
			err := c.end(t, w)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if names := folder(t, path); len(names) != c.left {
				t.Errorf("left in the folder: %v", names)
			}
		})
	}
}

func TestMembersHaveTheirRules(t *testing.T) {
	w, path := create(t)
	for _, name := range []string{"", "other", "../trace", MemberManifest} {
		if _, err := w.Member(name); err == nil {
			t.Errorf("member %q was accepted", name)
		}
	}
	put(t, w, MemberHost, "x")
	if _, err := w.Member(MemberHost); err == nil {
		t.Error("a member was written twice")
	}
	put(t, w, MemberMutex, "")
	put(t, w, MemberMutex, "") // nothing was written, so it may be begun again
	w.options.MaxMember = 10
	m := member(t, w, MemberKernel)
	if n, err := m.Write(make([]byte, 11)); n != 10 || !errors.Is(err, ErrTooLarge) {
		t.Errorf("wrote %d bytes, error %v; want 10 and ErrTooLarge", n, err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	in := reopen(t, path)
	if want := []string{MemberManifest, MemberHost, MemberKernel}; !slices.Equal(in.Members(), want) {
		t.Errorf("members %v, want %v: a member without bytes is left out", in.Members(), want)
	}
}

// The temporary file is nobody's business, whatever goes wrong.
func TestErrorsNameTheIncidentAndNotItsTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	for name, fail := range map[string]func(t *testing.T) error{
		"no such folder": func(*testing.T) error {
			_, err := Create(filepath.Join(dir, "none", "x.whylate"))
			return err
		},
		"a folder in its place": func(t *testing.T) error {
			path := filepath.Join(dir, "folder", "x.whylate")
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := Create(path)
			return err
		},
		"a folder that came": func(t *testing.T) error {
			path := filepath.Join(t.TempDir(), "x.whylate")
			w, err := Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			return w.Close()
		},
		"the file is gone": func(t *testing.T) error {
			w, err := Create(filepath.Join(dir, "y", "..", "x.whylate"))
			if err != nil {
				t.Fatal(err)
			}
			w.file.Close()
			m, err := w.Member(MemberTrace)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = m.Write(make([]byte, 1<<20)) // Close reports the first failure
			m.Close()
			return w.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := fail(t)
			if err == nil || !strings.Contains(err.Error(), "x.whylate") || strings.Contains(err.Error(), ".part") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestTheManifestKeepsNoSecrets(t *testing.T) {
	w, path := create(t)
	w.Edit(func(m *Manifest) {
		m.Target.URL = "https://user:hunter2@host:1/debug/pprof?token=hunter2#hunter2"
		m.Target.Program = "/home/hunter2/bin/server"
		m.Target.Env = map[string]string{"GOGC": "50", "AWS_SECRET_ACCESS_KEY": "hunter2"}
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	in := reopen(t, path)
	b, err := readMember(in, MemberManifest)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte("hunter2")) {
		t.Errorf("manifest: %s", b)
	}
	want := Target{URL: "https://host:1/debug/pprof", Program: "server", Env: map[string]string{"GOGC": "50"}}
	if !reflect.DeepEqual(in.Manifest.Target, want) {
		t.Errorf("target %+v, want %+v", in.Manifest.Target, want)
	}
}

func TestAMemberIsAddedToAnIncidentThatExists(t *testing.T) {
	old, path := create(t)
	put(t, old, MemberTrace, traceHeader)
	put(t, old, MemberDiagnosis, "old")
	old.Edit(func(m *Manifest) { m.Target.Kind = "pprof"; m.DurationNS = 5 })
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	in := reopen(t, path)
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	put(t, w, MemberDiagnosis, "newer")
	if err := w.Copy(in); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	added := reopen(t, path)
	if got, err := readMember(added, MemberDiagnosis); err != nil || string(got) != "newer" {
		t.Errorf("diagnosis %q, error %v", got, err)
	}
	if got, err := readMember(added, MemberTrace); err != nil || string(got) != traceHeader {
		t.Errorf("trace %q, error %v", got, err)
	}
	m := added.Manifest
	if m.Target.Kind != "pprof" || m.DurationNS != 5 || len(m.Recorded) != 2 {
		t.Errorf("manifest %+v", m)
	}
}

func TestADeviceIsNotReplaced(t *testing.T) {
	w, err := Create(os.DevNull)
	if err == nil {
		w.Abort()
	}
	if err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("%v", err)
	}
}

func TestAnIncidentIsWrittenBehindALink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "a.whylate"), filepath.Join(dir, "b.whylate")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink("a.whylate", link)); err != nil {
		t.Skip(err)
	}
	w, err := Create(link)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(link); err != nil || target != "a.whylate" {
		t.Errorf("the link is %q, %v", target, err)
	}
	if _, err := Open(file, Options{}); err != nil {
		t.Error(err)
	}
}
