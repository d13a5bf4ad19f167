package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/whylate/whylate/incidents/score"
)

// exceptOne is how the held-out programs were used. The numbers are those of the day
// before that rule changed.
const exceptOne = `The other part is held out: its truth was committed before it was first
diagnosed, and no rule was changed because of an answer there, but for two: that who sends in a select and then waits for an answer asks for it
was seen in rqlite-disk, which an earlier rule of the same day had made wrong; and that queueing behind handshakes belongs to them was
first seen in traefik-idle, developed with caddy-dial, and changed three of its answers, of which there were 33 that day, 28 of them right. That threads
wait for a CPU because of handshakes was developed with caddy-dial alone, before traefik-idle was recorded again; the rules before that got 10 of the
11 oldest of these recordings right, and traefik-idle wrong.`

// firstAnswers is what was said of the newest incidents before any rule had been made
// with them, on the day on which they were recorded.
const firstAnswers = `What rules were developed with is answered better than what nobody has looked at: of the 48 recordings of look-alikes on gateway
(gateway-bind, -book, -crowd, -desk, -hold, -list, -load, -log, -matches, -permits, -plain, -plans, -polls, -ps, -rooms and -tidy) 35 were
right when they were first diagnosed, before the rules that they led to; of the first 6 of gateway-days and -stamps, all were. The places of gateway-book, -plans and -rooms were corrected after that: they named
the goroutine's function, not the one below it that sleeps or computes.`

// introduction is what stands above the tables of docs/benchmark.md. Its verbs are
// the number of incidents, cases and programs, the version of Go, the number of CPUs,
// the list of programs, and what is said of those that are held out, and of the newest.
const introduction = `# How often is the named cause right?

<!-- Written by incidents/cmd/bench -document; do not edit. -->

%[1]d recordings of %[2]d cases on %[3]d programs. The truth of incidents is known by removal: each planted cause made the clients' 99th percentile rise
by what its case says in each of three pairs of runs with and without it, and the removed share is what went with it
(incidents/truth; the pairs of most cases were run before these recordings, and once). The
recordings were taken live by whylate itself, as root, with %[4]s, on a machine with %[5]d CPUs that the program, what it calls, its clients and
whylate share; runs that other work, or the hypervisor, disturbed do not count, whatever their answer; of programs without what is
planted the least disturbed run counts if all were, which makes the removed shares smaller.

    incidents/e2e.sh -pairs 3 -for 6s           records each case with and without what is planted, and writes incidents/truth
    incidents/e2e.sh -times 2 -for 6s           more recordings, of controls too
    incidents/e2e.sh -without -for 6s           the programs of incidents without what is planted
    cd incidents && GOWORK=off go run ./cmd/bench -recorded ../.cache/e2e/incidents -document hosts >../docs/benchmark.md

Rules were developed with one part of the programs. %[7]s%[8]s

**right**: the verdict is cause, the first finding is the largest planted cause, and nothing is named that is not real. **honest**: undecided,
and what was planted is among the look-alikes or was named without enough of the tail. **wrong**: something is named that is not real,
or something smaller first. **silent**: the rest. (Planted causes whose removed shares differ by no more than 0.1 are both the largest.) A control is right if it is called healthy, and a false alarm if a cause is named
there; the programs of incidents without what is planted (NAME-without) are counted apart, as nobody saw to it that they are healthy; the contention of programs that share a machine is real everywhere. The baselines are what anybody can say of the same recordings:
the largest state of the slow requests' own goroutines, and the top of the CPU profile during slow requests.

**AC@k**: the largest planted cause is among the first k that are named or suspected; by place, its function is, without type
parameters and closures. **total variation**: half the sum of the differences between removed and named shares, of incidents with two
causes. **planted**: causes and their removed shares, which may exceed 100%% where without them the tail is shorter than usual requests
with them; **removal**: the least of three ratios of the 99th percentiles. What removal takes is mostly less than the time that the tail spends under
a cause, and outside its interval: without the cause other requests are the slowest, and they are slow, too.

| program | built from | |
|---|---|---|
%[6]s

`

// introduce writes what stands above the tables.
func introduce(out io.Writer, hosts string, all []*score.Incident) error {
	cases, programs := map[string]bool{}, map[string]bool{}
	newest, heldOut := "", "None of the programs of the other part, which is held out, is among these."
	var list []string
	for _, i := range all {
		cases[i.Truth.Case] = true
		if programs[i.Truth.Host] {
			continue
		}
		programs[i.Truth.Host] = true
		from, err := versions(filepath.Join(hosts, i.Truth.Host, "go.mod"))
		if err != nil {
			return err
		}
		part := "development"
		if i.Truth.HeldOut {
			part = "held out"
			heldOut = exceptOne
		}
		list = append(list, fmt.Sprintf("| %s | %s | %s |", i.Truth.Host, strings.Join(from, ", "), part))
	}
	if cases["gateway-log"] && cases["gateway-tidy"] {
		newest = "\n" + firstAnswers
	}
	slices.Sort(list)
	_, err := fmt.Fprintf(out, introduction, len(all), len(cases), len(programs), runtime.Version(), runtime.NumCPU(), strings.Join(list, "\n"), heldOut, newest)
	return err
}

// kernelAdds is what stands above the comparison with the same recordings without the
// kernel's events.
const kernelAdds = `
## What the kernel's events add

The same recordings, with the trace and the samples of ` + "`/proc`" + ` and cgroups alone, as they are made without root.

`

// compare writes what the kernel's events add.
func compare(out io.Writer, without, with []*score.Incident) error {
	if _, err := io.WriteString(out, kernelAdds); err != nil {
		return err
	}
	return score.Changes(out, [2]string{"without", "with"}, [2][]*score.Incident{without, with})
}

// versions are the modules that a go.mod requires directly, or for a program that it
// names as a tool.
func versions(path string) (direct []string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	in, tool := false, "none"
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "require (":
			in = true
			continue
		case line == ")":
			in = false
		case strings.HasPrefix(line, "tool "):
			tool = strings.TrimPrefix(line, "tool ")
			continue
		case strings.HasPrefix(line, "require "):
			line = strings.TrimPrefix(line, "require ")
		case !in:
			continue
		}
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		ofTool := f[0] == tool || strings.HasPrefix(tool, f[0]+"/")
		if ofTool || len(f) == 2 && !strings.HasPrefix(f[0], "golang.org/x/") {
			direct = append(direct, "`"+f[0]+"` "+f[1])
		}
	}
	return direct, nil
}
