package slow

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// kindNames are the kinds of events in the order of their numbers, as the Go team's text form of
// traces calls them.
var kindNames = strings.Fields(`- EventBatch Stacks Stack Strings String CPUSamples CPUSample Frequency
	ProcsChange ProcStart ProcStop ProcSteal ProcStatus
	GoCreate GoCreateSyscall GoStart GoDestroy GoDestroySyscall GoStop GoBlock GoUnblock GoSyscallBegin GoSyscallEnd GoSyscallEndBlocked GoStatus
	STWBegin STWEnd GCActive GCBegin GCEnd GCSweepActive GCSweepBegin GCSweepEnd GCMarkAssistActive GCMarkAssistBegin GCMarkAssistEnd HeapAlloc HeapGoal
	GoLabel UserTaskBegin UserTaskEnd UserRegionBegin UserRegionEnd UserLog GoSwitch GoSwitchDestroy GoCreateBlocked GoStatusStack
	ExperimentalBatch Sync ClockSnapshot EndOfGeneration`)

// assemble makes a trace of its text form: a line for each event, with the numbers behind it.
func assemble(text string) ([]byte, error) {
	kinds := map[string]byte{}
	for i, name := range kindNames {
		kinds[name] = byte(i)
	}
	var out []byte
	in := bufio.NewScanner(strings.NewReader(text))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := strings.TrimSpace(in.Text())
		if data, ok := strings.CutPrefix(line, "data="); ok {
			s, err := strconv.Unquote(data)
			if err != nil {
				return nil, err
			}
			out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
			continue
		}
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] == "Trace" {
			out = fmt.Appendf(nil, "%s trace\x00\x00\x00", strings.Replace(strings.ToLower(words[1]), "go", "go ", 1))
			continue
		}
		if kind, ok := kinds[words[0]]; ok {
			out = append(out, kind)
			words = words[1:]
		}
		for _, w := range words {
			_, value, ok := strings.Cut(w, "=")
			n, err := strconv.ParseUint(value, 0, 64)
			if !ok || err != nil {
				return nil, fmt.Errorf("%q: %v", line, err)
			}
			out = binary.AppendUvarint(out, n)
		}
	}
	return out, in.Err()
}

// The Go team's own tests of their reader, in which traces have what is rare: times that
// disagree, Ps that are stolen, states across generations.
func TestTheGoTeamsTestsAreRead(t *testing.T) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/exp").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(root)), "trace", "testdata")
	tests, _ := filepath.Glob(filepath.Join(dir, "tests", "*.test"))
	inputs, _ := filepath.Glob(filepath.Join(dir, "fuzz", "FuzzReader", "*"))
	if len(tests) < 20 || len(inputs) < 15 {
		t.Fatalf("%d tests and %d inputs in %s", len(tests), len(inputs), dir)
	}
	good := 0
	for _, file := range append(tests, inputs...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var data []byte
		var works bool
		if expect, trace, ok := strings.Cut(string(text), "-- trace --\n"); ok {
			works = strings.Contains(expect, "SUCCESS")
			data, err = assemble(trace)
		} else {
			_, quoted, _ := strings.Cut(string(text), "[]byte(")
			var s string
			s, err = strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(quoted), ")"))
			data = []byte(s)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := filepath.Base(file)
		readable, err := readable(data)
		if works != readable && filepath.Ext(file) == ".test" {
			t.Errorf("%s: the Go team's reader says %v: the trace was not assembled well", name, err)
		}
		r, err := gotrace.NewReader(bytes.NewReader(data))
		if err != nil {
			if readable && !errors.Is(err, gotrace.ErrFormat) { // older than go1.22
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if readable {
			good++
			if _, err := same(data); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for ok := true; ok; ok = r.Resume() { // to the end, whatever is in it
			var ev gotrace.Event
			for err = r.Next(&ev); err == nil; err = r.Next(&ev) {
			}
		}
		if readable && err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
	}
	if good < 18 {
		t.Errorf("only %d of them can be read", good)
	}
}

// readable reports whether the Go team's reader comes to the end.
func readable(data []byte) (bool, error) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return false, err
	}
	var ev gotrace.Event
	for err = r.Next(&ev); err == nil; err = r.Next(&ev) {
	}
	return err == io.EOF, err
}
