package house

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/whylate/whylate"

// order is the table of the design: a package may import the packages of its own
// row, of earlier rows and of internal/, never those of a later row.
var order = []string{
	"internal",
	"evidence",
	"capture",
	"gotrace",
	"timeline",
	"request",
	"blame",
	"cause",
	"report",
	"diagnose",
	"load",
	"experiment",
	"demo",
	"monitor",
	"cmd",
}

// apart are folders of other modules: nothing in the root module imports them.
var apart = []string{"sdk", "incidents", "ui"}

// row returns the place of a folder of the root module in the order.
func row(folder string) (int, bool) {
	first, _, _ := strings.Cut(folder, "/")
	i := slices.Index(order, first)
	return i, i >= 0
}

// imports calls do with every Go file of the root module in tree, and its imports. Other modules, and folders that the go command does not
// look into, are left out; build constraints are not evaluated, so files for
// other systems are seen, too.
func imports(tree fs.FS, do func(file string, paths []string)) error {
	return fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if e.IsDir() {
			if name == "." {
				return nil
			}
			if base == "testdata" || base == "node_modules" || base == "vendor" || base[0] == '.' || base[0] == '_' || slices.Contains(apart, name) {
				return fs.SkipDir
			}
			if _, err := fs.Stat(tree, path.Join(name, "go.mod")); err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") || base[0] == '.' || base[0] == '_' {
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an editor's temporary file, gone since the folder was read
		}
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		var paths []string
		for _, s := range f.Imports {
			p, err := strconv.Unquote(s.Path.Value)
			if err != nil {
				return err
			}
			paths = append(paths, p)
		}
		do(name, paths)
		return nil
	})
}

// violations returns one line for each import in tree that runs against the order.
func violations(tree fs.FS) (lines []string, files int, err error) {
	err = imports(tree, func(file string, paths []string) {
		files++
		folder := path.Dir(file)
		own, known := row(folder)
		if !known {
			lines = append(lines, fmt.Sprintf("%s: folder %s has no row in the order; the design says which folders there are", file, folder))
			return
		}
		for _, p := range paths {
			to, inside := strings.CutPrefix(p, module+"/")
			if !inside {
				if p == module {
					lines = append(lines, fmt.Sprintf("%s imports %s, which has no row in the order", file, p))
				}
				continue
			}
			first, _, _ := strings.Cut(to, "/")
			if slices.Contains(apart, first) {
				lines = append(lines, fmt.Sprintf("%s imports %s: the root module imports no other one", file, to))
				continue
			}
			theirs, known := row(to)
			switch {
			case !known:
				lines = append(lines, fmt.Sprintf("%s imports %s, which has no row in the order", file, to))
			case theirs > own:
				lines = append(lines, fmt.Sprintf("%s imports %s: %s stands later than %s", file, to, order[theirs], order[own]))
			}
		}
	})
	return lines, files, err
}

func TestImportsFollowTheOrderOfTheHouse(t *testing.T) {
	lines, files, err := violations(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if files < 3 { // this package's own files, at least
		t.Fatalf("only %d files were looked at", files)
	}
	for _, l := range lines {
		t.Error(l)
	}
}

func goFile(pkg string, paths ...string) *fstest.MapFile {
	src := "package " + pkg + "\n"
	for _, p := range paths {
		src += "import _ " + strconv.Quote(p) + "\n"
	}
	return &fstest.MapFile{Data: []byte(src)}
}

// The check is checked: each wrong import is reported, each right one is not.
func TestTheOrderCheckSeesWhatItShould(t *testing.T) {
	for _, c := range []struct {
		name    string
		file    string
		content *fstest.MapFile
		want    string // "" when the file is in order
	}{
		{"an earlier row is fine", "report/a.go", goFile("report", module+"/cause", module+"/evidence", "fmt"), ""},
		{"a later row is not", "cause/a.go", goFile("cause", module+"/report"), "cause/a.go imports report: report stands later than cause"},
		{"the last pair is checked", "monitor/a.go", goFile("monitor", module+"/cmd/whylate"), "monitor/a.go imports cmd/whylate: cmd stands later than monitor"},
		{"the first pair is checked", "evidence/a.go", goFile("evidence", module+"/capture/host"), "evidence/a.go imports capture/host: capture stands later than evidence"},
		{"internal is for everyone", "gotrace/a.go", goFile("gotrace", module+"/internal/x"), ""},
		{"internal builds on nothing", "internal/x/a.go", goFile("x", module+"/gotrace"), "internal/x/a.go imports gotrace: gotrace stands later than internal"},
		{"one cause may use another and all of them count as cause", "cause/all/a.go", goFile("all", module+"/cause/cpu-hog", module+"/cause", module+"/blame"), ""},
		{"a cause must not report", "cause/cpu-hog/a.go", goFile("cpuhog", module+"/diagnose"), "cause/cpu-hog/a.go imports diagnose: diagnose stands later than cause"},
		{"tests follow the order, too", "blame/a_test.go", goFile("blame_test", module+"/demo"), "blame/a_test.go imports demo: demo stands later than blame"},
		{"nor what makes the pages", "report/a.go", goFile("report", module+"/ui/bundle"), "report/a.go imports ui/bundle: the root module imports no other one"},
		{"files for other systems are seen", "load/a_windows.go", goFile("load", module+"/monitor"), "load/a_windows.go imports monitor: monitor stands later than load"},
		{"sdk stays apart", "demo/a.go", goFile("demo", module+"/sdk/clock"), "demo/a.go imports sdk/clock: the root module imports no other one"},
		{"incidents stay apart, even from tests of the command", "cmd/whylate/a_test.go", goFile("main_test", module+"/incidents"), "cmd/whylate/a_test.go imports incidents: the root module imports no other one"},
		{"a new folder needs a row", "util/a.go", goFile("util"), "util/a.go: folder util has no row in the order; the design says which folders there are"},
		{"so does the root", "a.go", goFile("whylate"), "a.go: folder . has no row in the order; the design says which folders there are"},
		{"a name that only begins like the module is foreign", "gotrace/a.go", goFile("gotrace", module+"-extra/report"), ""},
		{"test data is not looked at", "gotrace/testdata/a.go", goFile("x", module+"/demo"), ""},
		{"the sdk is another module", "sdk/a.go", goFile("sdk", module+"/demo"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, _, err := violations(fstest.MapFS{c.file: c.content, "evidence/ok.go": goFile("evidence")})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(lines, "\n"); got != c.want {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
	t.Run("a folder with a go.mod is another module", func(t *testing.T) {
		lines, files, err := violations(fstest.MapFS{"adapter/go.mod": {Data: []byte("module x\n")}, "adapter/a.go": goFile("x", module+"/sdk")})
		if err != nil || len(lines) != 0 || files != 0 {
			t.Errorf("%q, %d files, %v", lines, files, err)
		}
	})
	t.Run("a file that does not parse is an error", func(t *testing.T) {
		if _, _, err := violations(fstest.MapFS{"blame/a.go": {Data: []byte("packag blame")}}); err == nil {
			t.Error("no error")
		}
	})
}
