package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// live is how cases are run before they are scored.
type live struct {
	script   string
	times    int
	duration time.Duration
	heldOut  bool
}

// grace is how long the script may take to end its programs.
const grace = time.Minute

// record runs the chosen cases and adds their recordings to a folder. Answers that are
// not right are no error here: they are scored.
func (l live) record(ctx context.Context, folder, only string) error {
	folder, err := filepath.Abs(folder) // the script changes its own
	if err != nil {
		return err
	}
	args := []string{"-times", strconv.Itoa(l.times), "-for", l.duration.String(), "-run", only, "-keep", folder, "-least", "0"}
	if l.heldOut {
		args = append(args, "-held-out")
	}
	c := exec.CommandContext(ctx, l.script, args...)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	// What is planted has to end with the case: the script is asked to end, not killed.
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = grace
	if err := c.Run(); err != nil {
		return fmt.Errorf("run the cases: %w", err)
	}
	return nil
}
