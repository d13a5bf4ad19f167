package main

import (
	"os"
	"os/exec"
	"testing"
)

func TestWhatWeStartIsNotOfOthers(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	all := tasks()
	if all[cmd.Process.Pid].parent != os.Getpid() {
		t.Fatalf("%+v of %d", all[cmd.Process.Pid], os.Getpid())
	}
	if left := others(all, os.Getpid()); left[cmd.Process.Pid] != (task{}) {
		t.Errorf("it is: %+v", left[cmd.Process.Pid])
	}
	if left := others(all, cmd.Process.Pid); left[os.Getpid()] == (task{}) {
		t.Error("of it, we are not")
	}
}
