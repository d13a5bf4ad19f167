package leak

import (
	"strings"
	"testing"
)

func TestAGoroutineThatIsLeftIsFound(t *testing.T) {
	const here = "leak.wait"
	if left := Left(here); left != "" {
		t.Errorf("before there is one: %s", left)
	}
	begun, end, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { wait(begun, end); close(gone) }()
	<-begun
	if left := Left(here); !strings.Contains(left, here) {
		t.Errorf("it is not found: %q", left)
	}
	close(end)
	<-gone
	if left := Left(here); left != "" {
		t.Errorf("after it ended: %s", left)
	}
}

//go:noinline
func wait(begun, end chan struct{}) {
	close(begun)
	<-end
}
