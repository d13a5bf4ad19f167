//go:build amd64 || arm64

package top

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/whylate/whylate/capture/kernel"
	"github.com/whylate/whylate/internal/need"
)

func TestPagesOfAProcessThatWorks(t *testing.T) {
	need.Feature(t, "ebpf", kernel.Check())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 4 { // threads of this process that wait for each other
		go func() {
			for n := 0; ctx.Err() == nil; n++ {
				if n%100_000 == 0 {
					time.Sleep(100 * time.Microsecond)
				}
			}
		}()
	}
	// What the kernel tells of a moment is read when there is a CPU for it: a page may have less.
	p := &pages{until: func(page string) bool {
		for _, want := range []string{"top.test, process ", "run queue ", "waits a second", "GC ", "goroutines ", "clock ", "Waits for a CPU"} {
			if !strings.Contains(page, want) {
				return false
			}
		}
		return !strings.Contains(page, "0.00 of")
	}, seen: cancel}
	if err := Run(ctx, p, os.Getpid(), Options{Every: 300 * time.Millisecond, Moments: 100, Clear: "--\n"}); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() == nil {
		t.Errorf("no page of %d has all of it; the last:\n%s", p.n, p.page.String())
	}
}

// pages calls seen when a page is as wanted. A page begins with a line of its own.
type pages struct {
	until func(page string) bool
	seen  func()
	n     int
	page  strings.Builder
}

func (p *pages) Write(b []byte) (int, error) {
	if string(b) == "--\n" {
		p.n++
		p.page.Reset()
		return len(b), nil
	}
	p.page.Write(b)
	if p.until(p.page.String()) {
		p.seen()
	}
	return len(b), nil
}

func TestPagesHaveABeginning(t *testing.T) {
	need.Feature(t, "ebpf", kernel.Check())
	var b bytes.Buffer
	if err := Run(t.Context(), &b, os.Getpid(), Options{Every: 50 * time.Millisecond, Moments: 3, Clear: "--\n"}); err != nil {
		t.Fatal(err)
	}
	if pages := strings.Split(b.String(), "--\n"); len(pages) != 4 || pages[0] != "" {
		t.Fatalf("%d pages: %s", len(pages)-1, b.String())
	}
}

func TestWhatIsNoGoProgramHasNoFunctions(t *testing.T) {
	need.Feature(t, "ebpf", kernel.Check())
	sleep := exec.Command("sleep", "100")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err := Run(t.Context(), &b, sleep.Process.Pid, Options{Every: 300 * time.Millisecond, Moments: 2})
	if err != nil || !strings.Contains(b.String(), "run queue   none") || !strings.Contains(b.String(), "gosched     not there: ") {
		t.Errorf("%v: %s", err, b.String())
	}
	if err := sleep.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sleep.Wait() // killed
	if err := Run(t.Context(), &b, sleep.Process.Pid, Options{}); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("of a process that has ended: %v", err)
	}
}

func TestItEndsWithTheProcess(t *testing.T) {
	need.Feature(t, "ebpf", kernel.Check())
	sleep := exec.Command("sleep", "0.5")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = sleep.Wait() }() // else it would stay
	if err := Run(t.Context(), new(bytes.Buffer), sleep.Process.Pid, Options{Every: 100 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("%v", err)
	}
}
