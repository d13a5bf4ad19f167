package house

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// machinePaths are those of the machines on which recordings are made: none of
// them belongs in a fixture. Written in two parts, so that a search for them does
// not find this file.
var machinePaths = []string{"/" + "work/", "/" + "root/", "/" + "tmp/"}

// maxFixture bounds what is read of one file or member: seeds of fuzz tests may be
// bombs.
const maxFixture = 32 << 20

// unpacked calls do with a file and, recursively, with what is packed in it: the
// members of a zip, the content of a gzip, the values of a seed of a fuzz test.
// What cannot be unpacked is looked at as it is.
func unpacked(name string, data []byte, do func(name string, data []byte)) {
	do(name, data)
	switch {
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		for _, f := range z.File {
			if r, err := f.Open(); err == nil {
				member, _ := io.ReadAll(io.LimitReader(r, maxFixture)) // what can be read is enough
				r.Close()
				unpacked(name+"!"+f.Name, member, do)
			}
		}
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		if r, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
			content, _ := io.ReadAll(io.LimitReader(r, maxFixture)) // what can be read is enough
			unpacked(name+"!", content, do)
		}
	case bytes.HasPrefix(data, []byte("go test fuzz v1\n")):
		for i, line := range strings.Split(string(data), "\n") {
			_, value, ok := strings.Cut(strings.TrimSuffix(line, ")"), "(")
			if s, err := strconv.Unquote(value); ok && err == nil {
				unpacked(fmt.Sprintf("%s:%d", name, i+1), []byte(s), do)
			}
		}
	}
}

// foundMachinePaths returns one line for each piece of test data in tree that
// holds a path of the machine it was made on.
func foundMachinePaths(tree fs.FS) (lines []string, pieces int, err error) {
	err = fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if base := path.Base(name); name != "." && base[0] == '.' || base == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.Contains("/"+name, "/testdata/") {
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		unpacked(name, data, func(piece string, data []byte) {
			pieces++
			for _, p := range machinePaths {
				if i := bytes.Index(data, []byte(p)); i >= 0 {
					lines = append(lines, fmt.Sprintf("%s holds a path of the machine it was made on: %q", piece, data[i:min(len(data), i+40)]))
				}
			}
		})
		return nil
	})
	return lines, pieces, err
}

func TestFixturesHoldNoPathsOfMachines(t *testing.T) {
	lines, pieces, err := foundMachinePaths(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if pieces < 100 { // about 25 incidents of 6 members each
		t.Errorf("only %d files and members were looked at", pieces)
	}
	for _, l := range lines {
		t.Error(l)
	}
}

// The check is checked: it sees through each kind of wrapping.
func TestTheFixtureCheckSeesWhatItShould(t *testing.T) {
	secret := []byte("x" + machinePaths[0] + "main/demo/work.go")
	var zipped, gzipped bytes.Buffer
	g := gzip.NewWriter(&gzipped)
	g.Write(secret)
	g.Close()
	z := zip.NewWriter(&zipped)
	for _, m := range []struct {
		name string
		data []byte
	}{{"trace", secret}, {"cpu.pb.gz", gzipped.Bytes()}} {
		w, err := z.Create(m.name)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(m.data)
	}
	z.Close()
	for name, c := range map[string]struct {
		data []byte
		want int
	}{
		"a/testdata/x.trace":         {secret, 1},
		"a/testdata/x.trace.gz":      {gzipped.Bytes(), 1},
		"a/testdata/x.whylate":       {zipped.Bytes(), 2},
		"a/testdata/fuzz/FuzzA/seed": {[]byte("go test fuzz v1\n[]byte(" + strconv.QuoteToASCII(gzipped.String()) + ")\n"), 1},
		"a/testdata/fine":            {[]byte("/usr/local/go/src"), 0},
		"a/x.trace":                  {secret, 0},
	} {
		lines, _, err := foundMachinePaths(fstest.MapFS{name: {Data: c.data}})
		if err != nil || len(lines) != c.want {
			t.Errorf("%s: %q, %v; want %d lines", name, lines, err, c.want)
		}
	}
}
