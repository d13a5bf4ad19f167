package pprofhttp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/pprof/profile"

	"github.com/whylate/whylate/evidence"
)

// parseProfile decodes a profile as the endpoint sends it. It bounds the
// decompressed size, which the pprof package does not.
func parseProfile(packed []byte) (*profile.Profile, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("not a gzipped profile: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxProfile+1))
	if err != nil {
		return nil, fmt.Errorf("decompress the profile: %w", err)
	}
	if len(raw) > maxProfile {
		return nil, errors.New("the profile is too large")
	}
	p, err := profile.ParseUncompressed(raw)
	if err != nil {
		return nil, fmt.Errorf("decode the profile: %w", err)
	}
	return p, nil
}

var (
	// A file of the toolchain that the go command downloaded.
	toolchainFile = regexp.MustCompile(`golang\.org/toolchain@v[0-9.]+-(go1\.[0-9][^./]*(?:\.[0-9]+)?)\.`)
	// A file in the module cache, or, built with -trimpath, the module's path.
	moduleFile = regexp.MustCompile(`^(?:.*/pkg/mod/)?([a-z0-9!.-]+\.[a-z0-9!.-]+(?:/[A-Za-z0-9!._~-]+)*)@(v[0-9][^/]*)/`)
)

// build is what the names of source files in profiles tell about a program.
// The endpoint serves no build information: this is a part of the modules, and
// the Go version only if the go command had to download that toolchain.
type build struct {
	goVersion string
	modules   map[string]string // path to version
}

// learn takes the facts out of a profile.
func (b *build) learn(p *profile.Profile) {
	if b.modules == nil {
		b.modules = make(map[string]string)
	}
	for _, f := range p.Function {
		if m := toolchainFile.FindStringSubmatch(f.Filename); m != nil {
			b.goVersion = m[1]
			continue
		}
		if m := moduleFile.FindStringSubmatch(f.Filename); m != nil {
			b.modules[unescape(m[1])] = unescape(m[2])
		}
	}
}

// fill enters the facts in the manifest. What another part of the recording
// knows from the program itself stays.
func (b *build) fill(t *evidence.Target) {
	if t.Go == "" {
		t.Go = b.goVersion
	}
	if len(t.Modules) > 0 || len(b.modules) == 0 {
		return
	}
	t.ModulesFrom = "profiles"
	for _, path := range slices.Sorted(maps.Keys(b.modules)) {
		t.Modules = append(t.Modules, evidence.Module{Path: path, Version: b.modules[path]})
	}
}

// unescape undoes the module cache's way to write capital letters: "!a" is "A".
func unescape(s string) string {
	var out strings.Builder
	upper := false
	for _, r := range s {
		switch {
		case r == '!':
			upper = true
			continue
		case upper:
			r = unicode.ToUpper(r)
		}
		upper = false
		out.WriteRune(r)
	}
	return out.String()
}

// indexCount is a line of the index page of net/http/pprof; some
// versions of Go leave the quotes out.
var indexCount = regexp.MustCompile(`<td>(\d+)</td>\s*<td><a href=['"]?goroutine\?debug=1`)

// goroutineCount returns the number of goroutines that the index page shows, or
// -1 if the page is something else.
func goroutineCount(page []byte) int {
	m := indexCount.FindSubmatch(page)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return -1
	}
	return n
}
