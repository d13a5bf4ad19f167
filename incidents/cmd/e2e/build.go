package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// A source is how a program is built: as a module of its own, with its authors'
// versions, so that it is what they ship.
type source struct {
	folder   string   // below hosts
	main     string   // the package of the program, if it is not the folder's own; "tool" is the one that go.mod names as that
	packages []string // beside it
	tags     string   // its authors', comma-separated
	cgo      bool
	// embedded are files that the program embeds and that are not in its authors'
	// module, below the vendor folder: pages that a release builds with other
	// tools. They are empty here.
	embedded []string
}

func (s source) name() string { return s.folder }

// build compiles a program into bin if its folder, or Go, has changed since it was
// last built there: linking one takes longer than a run. It leaves the machine to
// others.
func (s source) build(ctx context.Context, hosts, bin string, log io.Writer) error {
	dir := filepath.Join(hosts, s.folder)
	key, err := s.key(dir)
	if err != nil {
		return err
	}
	done := filepath.Join(bin, s.folder+".key")
	if last, err := os.ReadFile(done); err == nil && string(last) == key {
		return nil
	}
	fmt.Fprintln(log, "e2e: building", s.folder)
	goTool, cgo := "go", "CGO_ENABLED=0"
	if g := os.Getenv("GO"); g != "" {
		goTool = g
	}
	if s.cgo {
		cgo = "CGO_ENABLED=1"
	}
	run := func(dir string, args ...string) error {
		cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "19", goTool}, args...)...)
		cmd.Dir, cmd.Env = dir, append(environ(), "GOWORK=off", cgo)
		cmd.SysProcAttr = endWithUs()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", s.folder, err, bytes.TrimSpace(out[max(0, len(out)-keptOutput):]))
		}
		return nil
	}
	if len(s.embedded) > 0 {
		whole, err := os.MkdirTemp("", "e2e-"+s.folder+"-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(whole)
		if err := s.complete(dir, whole, run); err != nil {
			return err
		}
		dir = whole
	}
	args := append([]string{"build", "-trimpath", "-tags", s.tags, "-o", bin + string(filepath.Separator), cmp.Or(s.main, ".")}, s.packages...)
	if err := run(dir, args...); err != nil {
		return err
	}
	return os.WriteFile(done, []byte(key), 0o644)
}

// complete copies a program's folder to another, with all that it is built of, and
// adds the files that its authors' module lacks.
func (s source) complete(dir, whole string, run func(dir string, args ...string) error) error {
	if err := os.CopyFS(whole, os.DirFS(dir)); err != nil {
		return err
	}
	if err := run(whole, "mod", "vendor", "-e"); err != nil { // -e: although files are missing
		return err
	}
	for _, name := range s.embedded {
		file := filepath.Join(whole, "vendor", filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// key is a check sum over what a program is built of.
func (s source) key(dir string) (string, error) {
	sum := crc32.NewIEEE()
	fmt.Fprintln(sum, runtime.Version(), s)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintln(sum, path, len(b))
		sum.Write(b)
		return err
	})
	return fmt.Sprintf("%08x\n", sum.Sum32()), err
}
