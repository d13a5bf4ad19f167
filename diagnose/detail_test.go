package diagnose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/report/detail"
	"github.com/whylate/whylate/report/export"
)

// details are those of a golden incident.
func details(t *testing.T, path string) (*report.Diagnosis, *detail.Recording) {
	t.Helper()
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	d, err := Analyse(in, AnalyseOptions{Detail: &report.PageDetail})
	if err != nil {
		t.Fatal(err)
	}
	return d, d.Detail
}

// What is known of each request adds up to the diagnosis.
func TestDetailsAddUpToTheDiagnosis(t *testing.T) {
	for _, g := range some(t) {
		t.Run(filepath.Base(g.path), func(t *testing.T) {
			t.Parallel()
			d, r := details(t, g.path)
			ids, tail := map[string]int{}, 0.
			for i := range r.Requests {
				q := &r.Requests[i]
				ids[q.ID] = i
				if ns := total(q.Pieces); ns != q.DurationNS || q.StartNS < 0 || q.StartNS+q.DurationNS > r.DurationNS {
					t.Fatalf("%s: pieces of %d ns, it took %d from %d on", q.ID, ns, q.DurationNS, q.StartNS)
				}
				if q.Band == detail.Tail {
					tail += q.Weight
				}
			}
			if int(tail) != d.Requests.Tail.Count {
				t.Errorf("%g slow requests, in the diagnosis %d", tail, d.Requests.Tail.Count)
			}
			var excess float64
			by := map[string]float64{}
			for _, l := range r.Leaves {
				excess += l.ExcessNS
				by[l.Cause] += l.ExcessNS
			}
			near(t, "excess", excess, float64(d.ExcessNS)*(1-d.Mix.Share))
			claims := func(id, contrast string, ns float64) {
				if contrast == cause.TailContrast {
					near(t, id, by[id], ns)
				}
			}
			for _, f := range d.Findings {
				claims(f.Cause, f.Contrast, float64(f.ExcessNS))
				for _, e := range f.Examples {
					if _, ok := ids[e]; !ok {
						t.Errorf("the example %s is no request", e)
					}
				}
			}
			for _, c := range d.ConsistentWith {
				claims(strings.Join(c.Causes, "|"), c.Contrast, c.Share*float64(d.ExcessNS))
			}
			if len(r.Paths) != min(20, len(r.Requests)) {
				t.Errorf("%d paths of %d requests", len(r.Paths), len(r.Requests))
			}
			last := int64(math.MaxInt64)
			for _, p := range r.Paths {
				q := &r.Requests[p.Request]
				if q.DurationNS > last {
					t.Errorf("%s is slower than the one before", q.ID)
				}
				last = q.DurationNS
				var ns, outer int64
				for _, s := range p.Steps {
					ns += total(s.Pieces)
					if s.Depth == 0 {
						outer += s.ToNS - s.FromNS
					}
				}
				if ns != q.DurationNS || outer != q.DurationNS {
					t.Errorf("%s: %d ns in its steps, those of itself are %d long, it took %d", q.ID, ns, outer, q.DurationNS)
				}
			}
		})
	}
}

func total(list []detail.Piece) (ns int64) {
	for _, p := range list {
		ns += p.NS
	}
	return ns
}

// near fails if two sums of many numbers, made in other orders, differ.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 2+1e-6*math.Abs(want) {
		t.Errorf("%s: %.1f ns in the leaves, %.1f in the diagnosis", what, got, want)
	}
}

// python is the interpreter that has the packages of testdata/readers.py.
func python(t *testing.T) string {
	t.Helper()
	name := "python3"
	if s := os.Getenv("WHYLATE_PYTHON"); s != "" {
		name = s
	}
	out, err := exec.Command(name, "-c", "import duckdb, pandas, pyarrow, perfetto").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("python with duckdb, pandas, pyarrow and perfetto: %w: %.200s", err, out)
	}
	need.Feature(t, "readers", err)
	return name
}

// The tools that people use read what is exported, and find in it what is there.
func TestOtherToolsReadWhatIsExported(t *testing.T) {
	py := python(t)
	for _, path := range []string{"testdata/mixture.whylate", "testdata/hung.whylate", "../cause/lock-held-across-wait/testdata/lock-held-across-wait.whylate"} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			_, r := details(t, path)
			dir := t.TempDir()
			file := func(name string) string { return filepath.Join(dir, name) }
			for _, f := range export.Formats() {
				if f.Goroutines() {
					continue
				}
				var b bytes.Buffer
				if err := f.Write(&b, r); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file(f.Name), b.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.Command("go", "tool", "pprof", "-top", "-unit=ns", "-sample_index=slow", file("pprof")).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "Type: slow") || !strings.Contains(string(out), "flat%") {
				t.Errorf("go tool pprof: %v: %s", err, out)
			}
			cmd := exec.Command(py, "testdata/readers.py", file("perfetto"), file("csv"), file("parquet"))
			cmd.Stderr = os.Stderr
			out, err = cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			type table struct {
				Rows, Tail          int
				NS, Leaves, Claimed int64
				Endpoints           []string
			}
			var said struct {
				Perfetto struct {
					Requests        map[string]int64
					Slices, Deepest int
				}
				DuckDB    table
				DuckDBCSV table `json:"duckdb csv"`
				Pandas    table
				PandasCSV table `json:"pandas csv"`
			}
			if err := json.Unmarshal(out, &said); err != nil {
				t.Fatal(err)
			}
			var ns, claimed int64
			tail, endpoints := 0, map[string]bool{}
			for _, q := range r.Requests {
				ns += q.DurationNS
				endpoints[q.Endpoint] = true
				if q.Band == detail.Tail {
					tail++
				}
				for _, p := range q.Pieces {
					if r.Leaves[p.Leaf].Cause != "" {
						claimed += p.NS
					}
				}
			}
			for name, x := range map[string]table{"duckdb": said.DuckDB, "duckdb, CSV": said.DuckDBCSV, "pandas": said.Pandas, "pandas, CSV": said.PandasCSV} {
				if x.Rows != len(r.Requests) || x.NS != ns {
					t.Errorf("%s says %d requests of %d ns, there are %d of %d", name, x.Rows, x.NS, len(r.Requests), ns)
				}
			}
			if d, p := said.DuckDB, said.Pandas; d.Leaves != ns || p.Leaves != ns || d.Tail != tail || d.Claimed != claimed || len(p.Endpoints) != len(endpoints) {
				t.Errorf("%+v, %+v, want %d ns in leaves, %d claimed, %d slow requests of %d endpoints", d, p, ns, claimed, tail, len(endpoints))
			}
			steps := 0
			for _, p := range r.Paths {
				steps += len(p.Steps)
				q := &r.Requests[p.Request]
				if got := said.Perfetto.Requests[q.ID]; got != q.DurationNS {
					t.Errorf("Perfetto says that %s took %d ns, it took %d", q.ID, got, q.DurationNS)
				}
			}
			if want := steps + len(r.STW) + len(r.GC); said.Perfetto.Slices != want || len(said.Perfetto.Requests) != len(r.Paths) {
				t.Errorf("%d slices on the tracks of %d requests, want %d of %d", said.Perfetto.Slices, len(said.Perfetto.Requests), want, len(r.Paths))
			}
		})
	}
}
