package main

import (
	"bytes"
	"context"
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
	packages []string // beside the folder's own
	cgo      bool
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
	args := append([]string{"-n", "19", goTool, "build", "-trimpath", "-o", bin + string(filepath.Separator), "."}, s.packages...)
	cmd := exec.CommandContext(ctx, "nice", args...)
	cmd.Dir, cmd.Env = dir, append(environ(), "GOWORK=off", cgo)
	cmd.SysProcAttr = endWithUs()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", s.folder, err, bytes.TrimSpace(out[max(0, len(out)-keptOutput):]))
	}
	return os.WriteFile(done, []byte(key), 0o644)
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
