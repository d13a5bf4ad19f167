//go:build amd64 || arm64

package kernel

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/whylate/whylate/internal/need"
)

// compiler is the one that the committed programs were made with. Another one may make
// others of the same source.
const compiler = "clang version 14."

// haveCompiler tells why the programs cannot be made here.
func haveCompiler() error {
	out, err := exec.Command("clang", "--version").Output()
	if err != nil {
		return err
	}
	if version, _, _ := strings.Cut(string(out), "\n"); !strings.Contains(version, compiler) {
		return fmt.Errorf("the programs were made with %s, here is %q", compiler, version)
	}
	if _, err := exec.LookPath("llvm-strip"); err != nil {
		return err
	}
	if _, err := os.Stat("/usr/include/bpf/bpf_helpers.h"); err != nil {
		return fmt.Errorf("libbpf-dev: %w", err)
	}
	return nil
}

func TestTheCommittedProgramsAreThoseOfTheSource(t *testing.T) {
	need.Feature(t, "clang", haveCompiler())
	src, err := os.ReadFile("gen.go")
	fatal(t, err)
	lines := regexp.MustCompile(`(?m)^//go:generate go (run \S+) (.*)$`).FindAllSubmatch(src, -1)
	if len(lines) == 0 {
		t.Fatal("gen.go has no line that runs a program")
	}
	dir := t.TempDir()
	for _, line := range lines {
		args := append(strings.Fields(string(line[1])), "-output-dir", dir, "-go-package", "kernel")
		cmd := exec.Command("go", append(args, strings.Fields(string(line[2]))...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	made, err := filepath.Glob(filepath.Join(dir, "*"))
	fatal(t, err)
	if len(made) != 4*len(lines) {
		t.Fatalf("made are %q, want two objects and two Go files of each of %d sources", made, len(lines))
	}
	for _, file := range made {
		name := filepath.Base(file)
		want, got := content(t, file), content(t, name)
		if got != want {
			t.Errorf("%s is not what go generate makes of its source", name)
		}
	}
}

// content is a Go file as it is, and of an object what is loaded from it: neither the
// paths nor the strings of its debug information.
func content(t *testing.T, file string) string {
	t.Helper()
	if !strings.HasSuffix(file, ".o") {
		b, err := os.ReadFile(file)
		fatal(t, err)
		return string(b)
	}
	spec, err := ebpf.LoadCollectionSpec(file)
	fatal(t, err)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		p := spec.Programs[name]
		fmt.Fprintf(&b, "%s of %s\n", name, p.AttachTo)
		for i, ins := range p.Instructions {
			fmt.Fprintf(&b, "%d %v %s\n", i, ins, ins.Reference())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Maps)) {
		if strings.HasPrefix(name, ".") { // sections of data
			continue
		}
		m := spec.Maps[name]
		fmt.Fprintf(&b, "%s %v %d %d %d %d\n", name, m.Type, m.KeySize, m.ValueSize, m.MaxEntries, m.Flags)
	}
	return b.String()
}
