package slow

import (
	"path/filepath"
	"testing"

	"github.com/whylate/whylate/internal/unpack"
)

// What the two readers read is the same, down to the numbers of stacks.
func TestBothReadersReadTheSame(t *testing.T) {
	files, err := filepath.Glob("../testdata/go1.*.trace.gz")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, name := range files {
		data, err := unpack.Gzip(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{len(data), len(data) / 2} {
			if _, err := same(data[:n]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
