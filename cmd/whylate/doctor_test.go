package main

import (
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/whylate/whylate/capture/doctor"
)

func TestDoctorRefusesWhatIsNoProcess(t *testing.T) {
	for _, line := range []string{"doctor x", "doctor 0", "doctor -1", "doctor -- -1", "doctor 1 2", "doctor 99999999999", "doctor -o xml", "doctor --no-such-flag"} {
		code, stdout, stderr := whylate(t, strings.Split(line, " ")...)
		if code != exitUsage || stdout != "" || !strings.HasSuffix(stderr, "\nwhylate doctor --help\n") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", line, code, stdout, stderr)
		}
	}
}

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: doctor examines Linux only")
	}
}

func TestDoctorPrintsEveryPart(t *testing.T) {
	onLinux(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"What can be recorded here\n", "\nClock\n", "\nCPU quota and GOMAXPROCS of a Go program started here\n", "\nHost settings\n"}},
		{[]string{strconv.Itoa(os.Getpid())}, []string{"process " + strconv.Itoa(os.Getpid()) + "  ", runtime.Version(), "\nCPU quota and GOMAXPROCS of process ", "measured in this process, not in the target"}},
	} {
		code, stdout, stderr := whylate(t, append([]string{"doctor"}, c.args...)...)
		if code != exitOK || stderr != "" {
			t.Errorf("exit %d, stderr %q", code, stderr)
		}
		for _, w := range c.want {
			if !strings.Contains(stdout, w) {
				t.Errorf("no %q in\n%s", w, stdout)
			}
		}
	}
}

func TestDoctorSaysTheSameInJSON(t *testing.T) {
	onLinux(t)
	code, stdout, _ := whylate(t, "doctor", "-o", "json", strconv.Itoa(os.Getpid()))
	var r doctor.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v", code, err)
	}
	if r.Schema != doctor.Schema || r.Target == nil || r.Target.Go != runtime.Version() || r.Procs.GOMAXPROCS != runtime.GOMAXPROCS(0) {
		t.Errorf("%+v", r)
	}
}

func TestDoctorGoesOnWithoutTheProcess(t *testing.T) {
	onLinux(t)
	const none = "2147483647" // above the kernel's largest process id
	for _, output := range []string{"text", "json"} {
		code, stdout, stderr := whylate(t, "doctor", "-o", output, none)
		if code != exitFailure || !strings.HasPrefix(stderr, "whylate: there is no process "+none) || strings.Count(stderr, "\n") != 2 {
			t.Errorf("exit %d, stderr %q", code, stderr)
		}
		said := map[string]int{"text": 0, "json": 1}[output] // for text stderr said it
		if !strings.Contains(stdout, "clocksource") || strings.Count(stdout, "there is no process") != said {
			t.Errorf("the rest does not go on, or says it again:\n%s", stdout)
		}
	}
}
