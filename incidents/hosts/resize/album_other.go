//go:build !linux

package main

import "errors"

type album struct{}

func newAlbum(string) (*album, error) { return nil, errors.New("it needs Linux") }
func (*album) look() (uint32, error)  { return 0, nil }
