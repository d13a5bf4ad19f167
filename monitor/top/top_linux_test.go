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
	var b bytes.Buffer
	err := Run(ctx, &b, os.Getpid(), Options{Every: 300 * time.Millisecond, Moments: 3, Clear: "--\n"})
	if err != nil {
		t.Fatal(err)
	}
	pages := strings.Split(b.String(), "--\n")
	if len(pages) != 4 || pages[0] != "" {
		t.Fatalf("%d pages: %s", len(pages)-1, b.String())
	}
	for _, want := range []string{"top.test, process ", "run queue ", "waits a second", "GC ", "goroutines ", "clock ", "Waits for a CPU"} {
		if !strings.Contains(pages[3], want) {
			t.Errorf("the last page has no %q:\n%s", want, pages[3])
		}
	}
	if strings.Contains(pages[3], "0.00 of") {
		t.Errorf("the process used no CPU:\n%s", pages[3])
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
