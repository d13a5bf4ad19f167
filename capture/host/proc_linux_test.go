package host

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A program may call itself whatever it likes.
func TestTheNameOfAProgramDoesNotSpoilItsStat(t *testing.T) {
	rest := " 1 15426 9618 0 -1 4194304 99 0 3 0 12 34 0 0 20 0 7 0 142519 3133440 394 18446744073709551615 1 2 3 0 0 0 0 0 0 0 0 0 17 1 0 0 5 0 0"
	want := stat{state: 'D', parent: 1, minflt: 99, majflt: 3, utime: 12, stime: 34, threads: 7, started: 142519, rss: 394, blkioNS: 5 * tickNS}
	for _, name := range []string{"cat", "a b", ") R 1 2 3", "((", "x\ny"} {
		if got, ok := parseStat([]byte("42 (" + name + ") D" + rest)); !ok || got != want {
			t.Errorf("%q: %+v, %v; want %+v", name, got, ok, want)
		}
	}
	for _, line := range []string{"", "42", "42 (cat)", "42 (cat) ", "42 (cat) D", "42 (cat) D 1 2 3", "42 (cat) D x" + rest} {
		if got, ok := parseStat([]byte(line)); ok {
			t.Errorf("%q is %+v", line, got)
		}
	}
}

func TestTextsOfTheKernelAreRead(t *testing.T) {
	var m Machine
	m.parse([]byte("cpu  100 20 3 4000 50 6 7 8 90 0\ncpu0 1 2 3\n"))
	some, full := pressure([]byte("some avg10=0.01 avg60=0.19 avg300=0.10 total=7620655\nfull avg10=0.00 avg60=0.07 avg300=0.03 total=6821171\n"))
	alone, none := pressure([]byte("some avg10=0.01 avg60=0.19 avg300=0.10 total=5\n"))
	snmp := "Ip: A RetransSegs\nIp: 1 2\nTcp: A RetransSegs B\nTcp: -1 12 0\n"
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"the machine", m, Machine{CPUTimes: CPUTimes{BusyNS: 136 * tickNS, IdleNS: 4000 * tickNS, IOWaitNS: 50 * tickNS, StealNS: 8 * tickNS}}},
		{"pressure", [2]int64{some, full}, [2]int64{7620655000, 6821171000}},
		{"pressure without full", [2]int64{alone, none}, [2]int64{5000, 0}},
		{"a network counter", netCounter(snmp, "Tcp", "RetransSegs"), int64(12)},
		{"a network counter that is not there", netCounter(snmp, "Tcp", "C"), int64(0)},
		{"a network group that is not there", netCounter(snmp, "TcpExt", "A"), int64(0)},
		{"a value", value([]byte("a_b 1\na 22\nb 3"), "a"), int64(22)},
		{"a value that is not there", value([]byte("a_b 1\n"), "a"), int64(0)},
		{"a list of CPUs", countList("0-3,8,10-11"), 7},
		{"one CPU", countList("0"), 1},
		{"ids in namespaces", nspids("Name:\tx\nNSpid:\t7\t1\nNSpgid:\t8\n"), []int{7, 1}},
		{"settings of Go", settings("A=1\x00GOGC=50\x00GOGC=60\x00XGOGC=7\x00GODEBUG=a=1,b=2\x00"), map[string]string{"GOGC": "50", "GODEBUG": "a=1,b=2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !reflect.DeepEqual(c.got, c.want) {
				t.Errorf("got %v, want %v", c.got, c.want)
			}
		})
	}
}

func TestSocketsOfBothFamiliesAreRead(t *testing.T) {
	for _, c := range []struct {
		line          string
		v6            bool
		local, remote string
		state         string
	}{
		{" 0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1 0 100 0 0 10 0", false, "127.0.0.1:8080", "0.0.0.0:0", "LISTEN"},
		{" 1: 00000000000000000000000001000000:0050 B80D0120000000000000000001000000:C000 01 0:0 0:0 0 0 0 4711", true, "[::1]:80", "[2001:db8::1]:49152", "ESTABLISHED"},
		{" 2: 0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000200007F:0051 06 0:0 0:0 0 0 0 4711", true, "127.0.0.1:80", "127.0.0.2:81", "TIME_WAIT"},
	} {
		s, ok := parseTCP(c.line, c.v6)
		if !ok || s.local.String() != c.local || s.remote.String() != c.remote || s.state != c.state || s.inode != 4711 || s.v6 != c.v6 {
			t.Errorf("%q is %+v, %v", c.line, s, ok)
		}
	}
	for _, line := range []string{"", "sl local_address rem_address st tx rx tr tm uid timeout inode", "0: 01:1 00000000:0000 0A 0:0 0:0 0 0 0 1", "0: 0100007F:1F90 00000000:0000 FF 0:0 0:0 0 0 0 1"} {
		if s, ok := parseTCP(line, false); ok {
			t.Errorf("%q is %+v", line, s)
		}
	}
}

func TestWhatADescriptorIsDoesNotNeedToOpenIt(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	regular, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer regular.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for want, f := range map[string]*os.File{"pipe": w, "file": regular, "null": null} {
		if got, err := fdKind(os.Getpid(), int(f.Fd())); got != want || err != nil {
			t.Errorf("%s is %q, %v", want, got, err)
		}
	}
	if got, err := fdKind(os.Getpid(), 1<<20); got != "" || err != nil {
		t.Errorf("a closed one is %q, %v", got, err)
	}
}

// What the kernel gives here is read to the end: every thread of ours has counters.
func TestOurOwnThreadsHaveCounters(t *testing.T) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	got := record(t, os.Getpid()).stop()
	first := got.Samples[0]
	for _, task := range tasks {
		is := func(th Thread) bool { return fmt.Sprint(th.TID) == task.Name() }
		all := first.Threads
		for _, s := range got.Samples[1:] {
			all = append(slices.Clip(all), s.Threads...)
		}
		if !slices.ContainsFunc(all, is) {
			t.Errorf("thread %s was never read", task.Name())
		}
	}
	if m := first.Machine; m.BusyNS <= 0 || m.IdleNS <= 0 || strings.Contains(fmt.Sprint(got.Static.Missing), "machine ") {
		t.Errorf("machine %+v, missing %+v", m, got.Static.Missing)
	}
	if got.After.Memory == nil || first.NumThreads < 1 || first.RSS <= 0 {
		t.Errorf("%+v", first)
	}
}

// Only threads that start after it was switched on are counted.
func TestWhoSwitchesDelayAccountingOnHearsToRestartTheService(t *testing.T) {
	d, err := Describe(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	on, err := readInt("/proc/sys/kernel/task_delayacct")
	i := slices.IndexFunc(d.Static.Missing, func(m Missing) bool { return m.What == "io_delay_ns" })
	if off := err != nil || on == 0; (i >= 0) != off || off && !strings.Contains(d.Static.Missing[i].Command, "restart the service") {
		t.Errorf("it is %d (%v), missing %+v", on, err, d.Static.Missing)
	}
}
