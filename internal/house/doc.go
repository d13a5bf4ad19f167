// Package house keeps the house in order: its tests check that data flows one
// way (which folder may import which), that the product stands apart from the
// remedies and from the benchmark, and that the modules can be installed as they
// are. It holds no code of the product. The command tally beside it counts what
// `go test` did for `make test`.
package house
