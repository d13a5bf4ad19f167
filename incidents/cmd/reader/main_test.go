//go:build linux

package main

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// chunks are things to read that come at intervals.
type chunks struct {
	left  int
	after time.Duration
}

func (c *chunks) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(c.after)
	c.left--
	return copy(b, "GET /stock"), nil
}

func TestReadingPausesAndGoesOnToTheEnd(t *testing.T) {
	for name, c := range map[string]struct{ pause, every, want time.Duration }{
		"after each chunk where pauses are due all the time": {10 * time.Millisecond, 1, 55 * time.Millisecond},
		"once where the next is far away":                    {10 * time.Millisecond, 1 << 55, 15 * time.Millisecond},
		"not at all without a length":                        {0, 1, 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				err := read(&chunks{5, time.Millisecond}, c.pause, c.every)
				if took := time.Since(begun); took != c.want || !errors.Is(err, io.EOF) {
					t.Errorf("it took %v, not %v; %v", took, c.want, err)
				}
			})
		})
	}
}
