package main

import (
	"errors"
	"os"
)

// shelf keeps pictures in a file.
type shelf struct{ file *os.File }

func newShelf(folder string) (shelf, error) {
	f, err := os.CreateTemp(folder, "shelf-")
	return shelf{f}, err
}

// keep returns when the picture is durable.
func (s shelf) keep() (uint32, error) {
	n, err := s.file.Write(make([]byte, 4096))
	return uint32(n), errors.Join(err, s.file.Sync())
}
