// Command compiles sees to it that packages compile for other systems: it checks the
// types of their sources and tests, and of all that they import. A compiler would see a little
// more (functions in assembly, the linker's work), but only after it made machine code of the
// standard library for each system, which takes minutes and which nobody runs.
//
//	compiles [-C FOLDER] GOOS/GOARCH[,GOOS/GOARCH...] PACKAGE...
//
// What is wrong is written to standard error, at most ten lines for each package; then
// the exit status is 1. cgo is off.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	folder := flag.String("C", ".", "the module's folder")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "compiles [-C FOLDER] GOOS/GOARCH[,GOOS/GOARCH...] PACKAGE...")
		os.Exit(2)
	}
	bad := false
	for s := range strings.SplitSeq(flag.Arg(0), ",") {
		if err := check(*folder, s, flag.Args()[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "for %s:\n%v\n", s, err)
			bad = true
		}
	}
	if bad {
		os.Exit(1)
	}
}

// listed is what go list says about a package.
type listed struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string // what the source says, to ImportPath
	Module     *struct {
		Main      bool
		GoVersion string
	}
}

// check checks packages for one system, and what they import.
func check(folder, system string, packages []string) error {
	goos, goarch, ok := strings.Cut(system, "/")
	sizes := types.SizesFor("gc", goarch)
	if !ok || sizes == nil {
		return fmt.Errorf("there is no system %q", system)
	}
	args := []string{"-C", folder, "list", "-deps", "-test", "-json=ImportPath,Name,Dir,GoFiles,ImportMap,Module"}
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	var told bytes.Buffer
	cmd.Stderr = &told
	list, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, told.String())
	}
	done := map[string]*types.Package{"unsafe": types.Unsafe}
	var wrong []error
	for d := json.NewDecoder(bytes.NewReader(list)); ; { // each after what it imports
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return errors.Join(wrong...)
		} else if err != nil {
			return err
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // go makes the source of a .test
			continue
		}
		var errs []error
		done[p.ImportPath], errs = p.check(done, sizes)
		wrong = append(wrong, errs...)
	}
}

// most is how many errors of a package are told.
const most = 10

// check returns the package, and the errors in it. What functions of other modules do is not read.
func (p *listed) check(done map[string]*types.Package, sizes types.Sizes) (*types.Package, []error) {
	files := token.NewFileSet()
	var errs []error
	wrong := func(err error) {
		if len(errs) < most {
			errs = append(errs, err)
		}
	}
	var parsed []*ast.File
	for _, f := range p.GoFiles {
		a, err := parser.ParseFile(files, filepath.Join(p.Dir, f), nil, parser.SkipObjectResolution)
		if err != nil {
			wrong(err)
			continue
		}
		parsed = append(parsed, a)
	}
	own := p.Module != nil && p.Module.Main
	c := types.Config{Importer: importer{p.ImportMap, done}, Sizes: sizes, IgnoreFuncBodies: !own, FakeImportC: true, Error: wrong}
	if p.Module != nil && p.Module.GoVersion != "" {
		c.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // "a [b.test]" is a, with the tests of b
	pkg, _ := c.Check(path, files, parsed, nil)  // the error is the first of those that were told
	return pkg, errs
}

// importer gives packages that were checked before.
type importer struct {
	names map[string]string
	done  map[string]*types.Package
}

func (i importer) Import(path string) (*types.Package, error) {
	if name, ok := i.names[path]; ok {
		path = name
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed", path)
}
