//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asMain makes the test binary slowfs, asParent a parent of one that wants it
// killed at its own end, as a careful parent does.
const asMain, asParent = "SLOWFS_TEST_AS_MAIN", "SLOWFS_TEST_AS_PARENT"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asParent) != "":
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Env = append(os.Environ(), asParent+"=", asMain+"=1")
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Run(); err != nil {
			os.Exit(1)
		}
	case os.Getenv(asMain) != "":
		main()
	default:
		os.Exit(m.Run())
	}
}

func mounted(t *testing.T, dir string) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(b, []byte(" "+dir+" "))
}

// mount runs the test binary as what is said over a folder with one file, until the
// test is over.
func mount(t *testing.T, as string, args ...string) (dir string, cmd *exec.Cmd) {
	t.Helper()
	files, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "a"), []byte("in stock"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd = exec.Command(os.Args[0], append(args, files, dir)...)
	cmd.Env = append(os.Environ(), as+"=1")
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd.WaitDelay = time.Second // a killed parent's child keeps the pipe
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); <-ended })
	for {
		if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
			return dir, cmd
		}
		select {
		case err := <-ended:
			ended <- err
			if !may(out.String()) {
				t.Skipf("NOT TESTED: %v: %s", err, out.String())
			}
			t.Fatalf("%v: %s", err, out.String())
		case <-time.After(time.Millisecond):
		}
	}
}

// may says whether the failure to mount is one where mounting is possible.
func may(output string) bool {
	_, err := os.Stat("/dev/fuse")
	required := slices.Contains(strings.Split(os.Getenv("WHYLATE_REQUIRE"), ","), "fuse")
	return required || os.Geteuid() == 0 && !errors.Is(err, os.ErrNotExist) && !strings.Contains(output, "not permitted")
}

func TestEverythingPassesAndAnFsyncIsSlow(t *testing.T) {
	const delay = 30 * time.Millisecond
	dir, cmd := mount(t, asMain, "-share", "1", "-delay", delay.String())
	f, err := os.OpenFile(filepath.Join(dir, "a"), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(": 12"); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < delay {
		t.Errorf("the fsync took %v, less than %v", took, delay)
	}
	if b, err := os.ReadFile(f.Name()); err != nil || string(b) != "in stock: 12" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	t.Run("it unmounts when it is told to end, although a file is open", func(t *testing.T) {
		cmd.Process.Signal(syscall.SIGTERM)
		for {
			ended := cmd.Process.Signal(syscall.Signal(0)) != nil
			switch {
			case !mounted(t, dir):
				return
			case ended:
				t.Fatal("it has ended, and the mount is there")
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func TestAnOpenIsSlow(t *testing.T) {
	const delay = 30 * time.Millisecond
	dir, _ := mount(t, asMain, "-share", "0", "-opens", "1", "-delay", delay.String())
	begun := time.Now()
	b, err := os.ReadFile(filepath.Join(dir, "a"))
	if took := time.Since(begun); took < delay {
		t.Errorf("it took %v, less than %v", took, delay)
	}
	if err != nil || string(b) != "in stock" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}

func TestTheMountGoesWithItsParent(t *testing.T) {
	dir, parent := mount(t, asParent)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); mounted(t, dir); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			unix.Unmount(dir, unix.MNT_DETACH) // or the folder cannot be removed
			t.Fatal("the mount is there")
		}
	}
}
