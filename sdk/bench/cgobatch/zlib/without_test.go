//go:build !zlib || !cgo

package zlib

import "testing"

func TestAsGoDoesIt(t *testing.T) {
	t.Skip("this needs cgo, zlib's header (apt-get install zlib1g-dev), and go test -tags zlib")
}
