//go:build !linux

package demo

// mapping is a file in the address space.
type mapping struct{ bytes []byte }

func newMapping(int) (mapping, error) { return mapping{}, errLinux }
func (mapping) forget()               {}
