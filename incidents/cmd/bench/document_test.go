package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryProgramHasAVersion(t *testing.T) {
	mods, err := filepath.Glob("../../hosts/*/go.mod")
	if err != nil || len(mods) < 10 {
		t.Fatal(mods, err)
	}
	for _, mod := range mods {
		from, err := versions(mod)
		if err != nil {
			t.Fatal(err)
		}
		host := filepath.Base(filepath.Dir(mod))
		if len(from) == 0 && host != "resize" { // which is all our own
			t.Errorf("%s is built of nothing", host)
		}
		if host == "prometheus" && !slices.ContainsFunc(from, func(s string) bool { return strings.HasPrefix(s, "`github.com/prometheus/prometheus` v") }) {
			t.Errorf("%s is built of %v", host, from)
		}
	}
}
