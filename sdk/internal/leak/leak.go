// Package leak makes a package's tests fail that leave goroutines behind.
package leak

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// Main is TestMain of a package: it runs the tests and ends the process, with a failure if a goroutine is
// left in a function whose name has the text in, "sdk/clock." for example.
func Main(m *testing.M, in string) {
	code := m.Run()
	if left := Left(in); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines are left:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// Left returns the stacks of goroutines in such functions, those of TestMain aside, which had
// a second to end.
func Left(in string) string {
	var left []byte
	for i := 0; i < 100; i++ {
		buf := make([]byte, 1<<20)
		left = nil
		for _, g := range bytes.Split(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
			if bytes.Contains(g, []byte(in)) && !bytes.Contains(g, []byte("TestMain")) {
				left = append(append(left, g...), "\n\n"...)
			}
		}
		if left == nil {
			return ""
		}
		time.Sleep(10 * time.Millisecond)
	}
	return string(left)
}
