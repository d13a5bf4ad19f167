// Package unpack reads archives into memory, for tests that look at what is in them.
package unpack

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"strings"
)

// Zip returns what the members of a zip file hold, by their names; of those whose names end
// with .gz what is packed in them. Its memory has no bound: the file should be the test's own.
func Zip(file string) (map[string][]byte, error) {
	z, err := zip.OpenReader(file)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	out := map[string][]byte{}
	for _, f := range z.File {
		if out[f.Name], err = member(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func member(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if strings.HasSuffix(f.Name, ".gz") {
		return gunzip(r)
	}
	return io.ReadAll(r)
}

// Gzip returns what a file holds that is packed with gzip.
func Gzip(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return gunzip(f)
}

func gunzip(r io.Reader) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// TarGz returns what the files of a tar that is packed with gzip hold, by their cleaned names;
// of folders nothing.
func TarGz(r io.Reader) (map[string][]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if out[path.Clean(h.Name)], err = io.ReadAll(t); err != nil {
			return nil, err
		}
	}
}
