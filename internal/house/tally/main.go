// Command tally reads `go test -json` from its standard input, prints what a
// person wants to see of it (the closing line of every package, and everything
// that failed or was skipped), and ends with one line, "N passed, N failed, N
// skipped", over the tests and subtests that ran. A package that did not build, or
// failed outside of its tests, counts as one failed. It fails if anything failed or
// if no test ran; the caller still has to look at the exit status of go test
// (pipefail), which knows more.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	ok, err := tally(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// event is what `go doc test2json` and `go help buildjson` describe.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
}

// tally reports whether everything passed.
func tally(in io.Reader, out io.Writer) (bool, error) {
	var passed, failed, skipped int
	failedIn := map[string]bool{}    // packages with a failed test
	builds := map[string]bool{}      // failed builds no package has answered for yet
	said := map[[2]string][]string{} // output of tests still running
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF && line == "" {
			break
		}
		if err != nil && err != io.EOF {
			return false, err
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			fmt.Fprint(out, line) // the go command's own complaint
			continue
		}
		test := [2]string{e.Package, e.Test}
		switch e.Action {
		case "output":
			if e.Test == "" {
				if worthwhile(e.Output) {
					fmt.Fprint(out, e.Output)
				}
				continue
			}
			said[test] = append(said[test], e.Output)
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "build-fail":
			builds[e.ImportPath] = true
		case "pass", "fail", "skip":
			switch {
			case e.Test == "" && e.Action == "fail":
				if !failedIn[e.Package] {
					failed++ // a build, a panic or a time-out between tests
				}
				delete(builds, e.FailedBuild)
			case e.Test == "":
			case e.Action == "pass":
				passed++
			case e.Action == "skip":
				skipped++
				fmt.Fprint(out, strings.Join(said[test], ""))
			default:
				failed++
				failedIn[e.Package] = true
				fmt.Fprint(out, strings.Join(said[test], ""))
			}
			delete(said, test)
		}
	}
	for test, lines := range said {
		fmt.Fprintf(out, "%s of %s did not end:\n%s", test[1], test[0], strings.Join(lines, ""))
		failed++
	}
	failed += len(builds)
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if passed+failed+skipped == 0 {
		return false, fmt.Errorf("no test ran")
	}
	return failed == 0, nil
}

// worthwhile tells a package's closing line from the go command's small talk.
func worthwhile(line string) bool {
	return line != "PASS\n" && !strings.HasPrefix(line, "=== ") && !strings.HasSuffix(line, "[no test files]\n")
}
