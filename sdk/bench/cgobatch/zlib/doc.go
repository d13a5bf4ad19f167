// Package zlib has zlib work on many small buffers in one call of C, as an example over a real library. It
// needs zlib's header (apt-get install zlib1g-dev) and -tags zlib:
//
//	go test -tags zlib -bench . -benchtime 300ms -count 3 ./cgobatch/zlib | go run ./table
package zlib
