package slow

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// What the two readers read is the same, down to the numbers of stacks.
func TestBothReadersReadTheSame(t *testing.T) {
	files, err := filepath.Glob("../testdata/go1.*.trace.gz")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{len(data), len(data) / 2} {
			fast, err := gotrace.NewReader(bytes.NewReader(data[:n]))
			if err != nil {
				t.Fatal(err)
			}
			slow, err := NewReader(bytes.NewReader(data[:n]))
			if err != nil {
				t.Fatal(err)
			}
			if fast.Version() != slow.Version() {
				t.Errorf("%s: %s and %s", name, fast.Version(), slow.Version())
			}
			for i := 0; ; i++ {
				var a, b gotrace.Event
				errA, errB := fast.Next(&a), slow.Next(&b)
				if (errA == nil) != (errB == nil) || (errA == io.EOF) != (errB == io.EOF) {
					t.Fatalf("%s: event %d: %v and %v", name, i, errA, errB)
				}
				if errA != nil {
					break
				}
				if a.Kind == gotrace.KindSync {
					a.Value = 0 // where it is, the other one does not know
				}
				if a != b {
					t.Fatalf("%s: event %d:\n%+v\n%+v", name, i, a, b)
				}
			}
			if a, b := fast.Stacks().Len(), slow.Stacks().Len(); a != b {
				t.Errorf("%s: %d and %d stacks", name, a, b)
			}
		}
	}
}
