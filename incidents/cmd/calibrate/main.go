// Command calibrate measures how well the on-CPU fraction that whylate takes from
// CPU samples inside a trace agrees with the truth, under a CPU quota, beside a
// neighbour that burns CPU, and undisturbed.
//
// It runs one of whylate's demo services, puts it into a cgroup (v1, as root) with
// a quota where one is asked for, records it, and prints for each case
//
//	true    CPU time of the process over the recording / running time in the trace
//	sampled what diagnose uses: samples x 10 ms / running time in the trace
//
// and the verdict of the recording.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/demo"
	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

const cgroupRoot = "/sys/fs/cgroup/cpu"

func main() {
	if name := os.Getenv(demo.VictimEnv); name != "" {
		os.Exit(demo.Victim(name, os.Args[1:]))
	}
	if len(os.Args) == 2 && os.Args[1] == "burn" {
		//lint:ignore SA5002 it is to use a CPU
		for {
		}
	}
	scenarios := flag.String("scenarios", "steady,cpu-hog,expensive-request,overload", "demo scenarios to run")
	duration := flag.Duration("for", 6*time.Second, "length of a recording")
	flag.Parse()
	log.SetFlags(0)
	fmt.Printf("%-20s %-14s %8s %8s %8s %10s  %s\n", "scenario", "disturbance", "quota", "true", "sampled", "throttled", "verdict")
	for _, name := range strings.Split(*scenarios, ",") {
		s, ok := demo.Lookup(name)
		if !ok {
			log.Fatalf("there is no scenario %q", name)
		}
		for _, c := range []setting{{"none", 0, 0}, {"quota", 1.0, 0}, {"quota", 0.5, 0}, {"quota", 0.25, 0}, {"neighbours", 0, 2}, {"neighbours", 0, 6}} {
			if err := run(s, c, *duration); err != nil {
				log.Printf("%s, %s: %v", name, c.name, err)
			}
		}
	}
}

// setting is a disturbance of the service.
type setting struct {
	name       string
	quota      float64 // CPUs, 0 for none
	neighbours int     // processes that burn CPU beside it
}

func run(s demo.Scenario, c setting, duration time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := demo.Run(ctx, s, demo.RunOptions{Duration: duration + 10*time.Second})
	if err != nil {
		return err
	}
	defer r.Stop()
	group := filepath.Join(cgroupRoot, "whylate-calibrate")
	if c.quota > 0 {
		if err := limit(group, r.PID, c.quota); err != nil {
			return err
		}
		defer os.Remove(group)
		defer move(cgroupRoot, r.PID)
	}
	stop, err := burn(c.neighbours)
	if err != nil {
		return err
	}
	defer stop()
	dir, err := os.MkdirTemp("", "calibrate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "a.whylate")

	time.Sleep(time.Second)
	client, err := pprofhttp.Connect(ctx, pprofhttp.Target{URL: r.PprofURL}, pprofhttp.Options{For: duration, NoProbe: true, Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	w, err := evidence.Create(path)
	if err != nil {
		return err
	}
	before, t0 := throttled(group), time.Now()
	cpu0, err := cpuTime(r.PID)
	if err != nil {
		return err
	}
	res, err := client.Record(ctx, w, pprofhttp.Plan{For: duration})
	if err != nil {
		w.Abort()
		return err
	}
	cpu1, err := cpuTime(r.PID)
	if err != nil {
		return err
	}
	took := time.Since(t0)
	if err := w.Close(); err != nil {
		return err
	}
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		return err
	}
	defer in.Close()
	ran, sampled, err := fractions(in)
	if err != nil {
		return err
	}
	d, err := diagnose.Analyse(in, diagnose.AnalyseOptions{})
	if err != nil {
		return err
	}
	// CPU time was taken over a slightly longer time than the trace.
	scale := res.Took.Seconds() / took.Seconds()
	verdict := d.Verdict + " " + d.Reason
	for _, f := range d.Findings {
		verdict += fmt.Sprintf(" %s(%.2f)", f.Cause, f.Share)
	}
	for _, x := range d.ConsistentWith {
		verdict += fmt.Sprintf(" {%s}(%.2f)", strings.Join(x.Causes, ","), x.Share)
	}
	fmt.Printf("%-20s %-14s %8.2f %8.2f %8.2f %10d  %s\n", s.Name, fmt.Sprintf("%s %d", c.name, c.neighbours), c.quota, (cpu1-cpu0)*scale/ran, sampled, throttled(group)-before, verdict)
	return nil
}

// fractions returns the running time in the trace, in seconds, and the on-CPU
// fraction by samples.
func fractions(in *evidence.Incident) (ran, sampled float64, err error) {
	m, err := in.Member(evidence.MemberTrace)
	if err != nil {
		return 0, 0, err
	}
	defer m.Close()
	tr, err := gotrace.NewReader(m)
	if err != nil {
		return 0, 0, err
	}
	t, err := timeline.Read(tr, timeline.Options{})
	if err != nil {
		return 0, 0, err
	}
	a := blame.Attribute(t, request.Find(t, request.Options{}), blame.Options{})
	var ns int64
	for _, c := range a.Classes {
		ns += c.Ran
	}
	return float64(ns) / 1e9, float64(len(t.Samples)) * 10e6 / float64(ns), nil
}

func limit(group string, pid int, cpus float64) error {
	if err := os.MkdirAll(group, 0o755); err != nil {
		return err
	}
	for file, value := range map[string]int{"cpu.cfs_period_us": 100_000, "cpu.cfs_quota_us": int(cpus * 100_000)} {
		if err := os.WriteFile(filepath.Join(group, file), []byte(strconv.Itoa(value)), 0o644); err != nil {
			return err
		}
	}
	return move(group, pid)
}

func move(group string, pid int) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
}

// throttled is the number of throttled periods of a group so far.
func throttled(group string) int {
	b, err := os.ReadFile(filepath.Join(group, "cpu.stat"))
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(b), "\n") {
		if n, ok := strings.CutPrefix(line, "nr_throttled "); ok {
			x, _ := strconv.Atoi(n)
			return x
		}
	}
	return 0
}

// cpuTime is the CPU time that a process has used, in seconds: the sum of its
// threads' run times, which is finer than the ticks of /proc/PID/stat.
func cpuTime(pid int) (float64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no schedstat of process %d: %v", pid, err)
	}
	var ns float64
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread is gone
		}
		x, _ := strconv.ParseFloat(strings.Fields(string(b))[0], 64)
		ns += x
	}
	return ns / 1e9, nil
}

// burn starts n copies of this program that do nothing but use CPU.
func burn(n int) (stop func(), err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var ps []*os.Process
	stop = func() {
		for _, p := range ps {
			p.Kill()
			p.Wait()
		}
	}
	for range n {
		p, err := os.StartProcess(exe, []string{exe, "burn"}, &os.ProcAttr{})
		if err != nil {
			stop()
			return nil, err
		}
		ps = append(ps, p)
	}
	return stop, nil
}
