package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is committed is what go generate writes.
func TestTheCommittedCatalogueIsCurrent(t *testing.T) {
	want, err := generate("../../cause")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../cause/all/all.go")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("cause/all/all.go is not current: run go generate ./cause")
	}
}

func TestADirectoryIsACauseIfItHoldsGoFiles(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"slow-disk/slowdisk.go", "slow-disk/testdata/x.whylate", "a-b-c/abc.go", "all/all.go", "notes/README.md", "judge.go"} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	src, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(src)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "cause.Register("); ok {
			got = append(got, name)
		}
	}
	if strings.Join(got, " ") != "abc.Entry) slowdisk.Entry)" {
		t.Errorf("%q in\n%s", got, src)
	}
	if _, err := generate(filepath.Join(dir, "[")); err == nil {
		t.Error("a pattern that is malformed is no error")
	}
}
