//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWhatIsWrittenBetweenTwoPausesIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	paused := make(chan struct{})
	go drain(file, 4096, func() time.Duration { paused <- struct{}{}; return time.Millisecond }, 0)
	<-paused // the pipe exists
	w, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	go func() {
		for range paused {
		}
	}()
	// More than it holds: it can only be written while it is read.
	if _, err := w.WriteString(strings.Repeat("a line of a log\n", 4096)); err != nil {
		t.Error(err)
	}
}

func TestAPipeThatIsThereIsNotTaken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := drain(file, 4096, nil, 0); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("error %v", err)
	}
}
