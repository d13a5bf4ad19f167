package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Packages that are tested without the race detector start no goroutine and know nothing of
// sync, nor do their tests.
func TestWhatIsTestedWithoutTheRaceDetectorIsNotConcurrent(t *testing.T) {
	m := regexp.MustCompile(`(?m)^PLAIN := whylate/\((.*)\)\$\$$`).FindStringSubmatch(read(t, "Makefile"))
	if m == nil {
		t.Fatal("the Makefile lists no such packages")
	}
	for _, dir := range strings.Split(m[1], "|") {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, what := range concurrent(f) {
				t.Errorf("%s: %s", file, what)
			}
		}
	}
}

// concurrent returns what a file has of concurrency.
func concurrent(f *ast.File) (out []string) {
	for _, i := range f.Imports {
		if p := strings.Trim(i.Path.Value, `"`); p == "sync" || strings.HasPrefix(p, "sync/") || p == "golang.org/x/sync/errgroup" || p == "net/http/httptest" {
			out = append(out, "it imports "+p)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			out = append(out, "it starts a goroutine")
		case *ast.SelectorExpr:
			if n.Sel.Name == "Parallel" || n.Sel.Name == "RunParallel" || n.Sel.Name == "AfterFunc" {
				out = append(out, "it calls "+n.Sel.Name)
			}
		}
		return true
	})
	return out
}

func TestConcurrencyIsSeen(t *testing.T) {
	for src, want := range map[string]int{
		"package a\nfunc f() { for range 3 {} }":                               0,
		"package a\nfunc f() { go f() }":                                       1,
		"package a\nimport \"sync\"\nvar m sync.Mutex":                         1,
		"package a\nimport \"sync/atomic\"\nvar n atomic.Int64":                1,
		"package a\nimport \"testing\"\nfunc f(t *testing.T) { t.Parallel() }": 1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := concurrent(f); len(got) != want {
			t.Errorf("%s: %q, want %d", src, got, want)
		}
	}
}
