// Command table makes a Markdown table of each benchmark that it reads, with a row for each
// sub-benchmark: the median of its runs, and the ratio to the first row of the same run.
//
//	go test -bench . -count 5 ./clock | go run ./table
package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

type row struct {
	name   string
	ns     []float64
	allocs string
}

type table struct {
	name string
	rows []*row
}

func main() {
	var tables []*table
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	failed := false
	for in.Scan() {
		line := in.Text()
		failed = failed || strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "--- FAIL")
		name, r := parse(line)
		if r == nil {
			continue
		}
		i := slices.IndexFunc(tables, func(t *table) bool { return t.name == name })
		if i < 0 {
			i, tables = len(tables), append(tables, &table{name: name})
		}
		tables[i].add(r)
	}
	if err := in.Err(); err != nil || failed {
		fmt.Fprintln(os.Stderr, "table: the benchmarks failed", err)
		os.Exit(1)
	}
	for _, t := range tables {
		t.print()
	}
}

// parse reads a line of `go test -bench`. What a benchmark calls ns/item, or the like, counts rather
// than its ns/op. r is nil if the line is no result.
func parse(line string) (name string, r *row) {
	f := strings.Fields(line)
	if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
		return "", nil
	}
	full := strings.TrimPrefix(f[0], "Benchmark")
	if i := strings.LastIndexByte(full, '-'); i > 0 { // GOMAXPROCS
		full = full[:i]
	}
	i := strings.LastIndexByte(full, '/')
	if i < 0 {
		return "", nil
	}
	r = &row{name: strings.ReplaceAll(full[i+1:], "_", " ")}
	for j := 2; j+1 < len(f); j += 2 {
		v, err := strconv.ParseFloat(f[j], 64)
		switch unit := f[j+1]; {
		case err != nil:
			return "", nil
		case unit == "ns/op" && r.ns == nil, strings.HasPrefix(unit, "ns/") && unit != "ns/op":
			r.ns = []float64{v}
		case strings.HasPrefix(unit, "allocs/") && (r.allocs == "" || unit != "allocs/op"):
			r.allocs = f[j]
		}
	}
	return full[:i], r
}

func (t *table) add(r *row) {
	for _, have := range t.rows {
		if have.name == r.name {
			have.ns = append(have.ns, r.ns...)
			return
		}
	}
	t.rows = append(t.rows, r)
}

func (t *table) print() {
	fmt.Printf("| %s | ns | of the first | allocations |\n|---|---|---|---|\n", t.name)
	base := median(t.rows[0].ns)
	for _, r := range t.rows {
		ns := median(r.ns)
		fmt.Printf("| %s | %.3g | %.2g | %s |\n", r.name, ns, ns/base, r.allocs)
	}
	fmt.Println()
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
