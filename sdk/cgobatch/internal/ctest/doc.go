// Package ctest is the C of cgobatch's tests: cgo does not go into test files.
package ctest
