package diagnose

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report/export"
	"github.com/whylate/whylate/timeline"
)

// DuckDB and pandas find in the tables what the trace says of goroutines.
func TestDatabasesReadWhatIsExportedOfGoroutines(t *testing.T) {
	py := python(t)
	in, err := evidence.Open("../cause/lock-held-across-wait/testdata/lock-held-across-wait.whylate", evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	dir := t.TempDir()
	files := map[string]string{}
	parts, rows, total, wakes, births := 0, 0, map[string]int64{}, 0, 0
	for _, name := range []string{"states", "wakeups"} {
		format, ok := export.Find(name)
		if !ok || !format.Goroutines() {
			t.Fatalf("no format %q of goroutines", name)
		}
		files[name] = filepath.Join(dir, name)
		f, err := os.Create(files[name])
		if err != nil {
			t.Fatal(err)
		}
		c := format.Columns(f)
		lost, err := Timelines(in, AnalyseOptions{Window: 60_000}, func(tl *timeline.Timeline) error {
			if name == "states" {
				parts++
				for i := range tl.Gs {
					for _, s := range tl.Gs[i].Segs() {
						rows++
						total[s.Kind.String()] += int64(s.End - s.Start)
					}
					for _, w := range tl.Gs[i].Wakes() {
						wakes++
						if w.Birth() {
							births++
						}
					}
				}
			}
			return c.Add(tl)
		})
		if err != nil || lost != nil {
			t.Fatal(err, lost)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if parts < 2 || wakes == births || births == 0 {
		t.Fatalf("%d parts, %d wake-ups, %d births", parts, wakes, births)
	}
	cmd := exec.Command(py, "testdata/columns.py", files["states"], files["wakeups"])
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Rows, Pandas  int
		NS            map[string]int64
		Wakeups       int
		Births        int
		Longest       string
		LongestWaited string
	}
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatal(err)
	}
	if said.Rows != rows || said.Pandas != rows || said.Wakeups != wakes || said.Births != births {
		t.Errorf("%+v, there are %d stretches, %d wake-ups, %d births", said, rows, wakes, births)
	}
	for kind, ns := range total {
		if said.NS[kind] != ns {
			t.Errorf("%s: %d ns, want %d", kind, said.NS[kind], ns)
		}
	}
	// The fault that is planted: who holds the lock wakes who waits longest for it.
	if said.Longest == "" || said.LongestWaited == "" {
		t.Errorf("the longest waits for a lock: %+v", said)
	}
}
