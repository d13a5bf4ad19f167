package main

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestProcessesAreReadWhateverTheirName(t *testing.T) {
	const rest = " S 7 1 1 0 -1 4194560 1 2 3 4 10 20 300 400 20 0 1 0 5 6"
	for _, name := range []string{"(cat)", "(a b)", "(1 (2) 3)", "(x) R 9 9"} {
		pid, p, ok := parseProcess("42 " + name + ")" + rest)
		if !ok || pid != 42 || p != (used{7, 730}) {
			t.Errorf("%s: %d, %+v, %v", name, pid, p, ok)
		}
	}
	for _, bad := range []string{"", "42", "42 (cat", "x (cat)" + rest, "42 (cat) S 7", "42 (cat) S x 1 1 0 -1 0 1 2 3 4 1 2 3 4", "42 (cat) S 7 1 1 0 -1 0 1 2 3 4 1 x 3 4"} {
		if _, _, ok := parseProcess(bad); ok {
			t.Errorf("%q is a process", bad)
		}
	}
}

func TestOthersAreWhomWeDidNotStart(t *testing.T) {
	all := map[int]used{
		1: {0, 1}, 2: {0, 10}, 3: {2, 100}, // init and the kernel's threads
		10: {1, 1000}, 11: {10, 10_000}, // a shell and this process
		12: {11, 100_000}, 13: {12, 1_000_000}, // what it started
		20: {10, 3}, 21: {99, 5}, // others, one of whose parent is not seen
	}
	if got, want := others(all, 11), time.Duration(1+1000+3+5)*tick; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	all[30], all[31] = used{31, 7}, used{30, 7} // no such thing, but it must end
	if got, want := others(all, 11), time.Duration(1+1000+3+5+14)*tick; got != want {
		t.Errorf("with a loop: %v, want %v", got, want)
	}
}

func TestWhatWeStartIsNotOfOthers(t *testing.T) {
	if len(processes()) == 0 {
		t.Skip("no /proc here")
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	all := processes()
	if all[cmd.Process.Pid].parent != os.Getpid() {
		t.Fatalf("%+v of %d", all[cmd.Process.Pid], os.Getpid())
	}
	with := others(all, os.Getpid())
	delete(all, cmd.Process.Pid)
	if without := others(all, os.Getpid()); with != without {
		t.Errorf("%v with it, %v without", with, without)
	}
}
