// Package cgobatch compares ways to have C work on many items, and tells what a call costs, in one run:
//
//	go test -bench . -benchtime 300ms -count 3 ./cgobatch | go run ./table
package cgobatch
