package export

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/whylate/whylate/report/detail"
)

// columns are those of the CSV. A request has a line for each of its leaves.
var columns = []string{"request", "endpoint", "class", "goroutine", "start", "start_ns", "duration_ns", "band", "in_flight", "weight",
	"leaf", "cause", "what", "function", "file", "line", "ns"}

// csvTo writes a line for each leaf of each request.
func csvTo(w io.Writer, r *detail.Recording) error {
	out := csv.NewWriter(w)
	if err := out.Write(columns); err != nil {
		return err
	}
	for i := range r.Requests {
		q := &r.Requests[i]
		start := ""
		if !r.Start.IsZero() {
			start = r.Start.Add(time.Duration(q.StartNS)).Format(time.RFC3339Nano)
		}
		for _, p := range q.Pieces {
			l := &r.Leaves[p.Leaf]
			f := place(r, l)
			if err := out.Write([]string{
				q.ID, cell(q.Endpoint), cell(r.Class), strconv.FormatInt(q.Goroutine, 10), start, strconv.FormatInt(q.StartNS, 10),
				strconv.FormatInt(q.DurationNS, 10), q.Band, strconv.FormatBool(q.InFlight), strconv.FormatFloat(q.Weight, 'g', -1, 64),
				l.Kind, l.Cause, cell(l.Text), cell(f.Function), cell(f.File), strconv.Itoa(f.Line), strconv.FormatInt(p.NS, 10),
			}); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// cell makes a name of the target one that no spreadsheet takes for a formula
// (https://owasp.org/www-community/attacks/CSV_Injection).
func cell(s string) string {
	s = text(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}

// place is the innermost function of a leaf's stack that stands in a file; none if there is
// no such.
func place(r *detail.Recording, l *detail.Leaf) (f detail.Frame) {
	for _, i := range l.Stack {
		if r.Frames[i].File != "" {
			f = r.Frames[i]
		}
	}
	return f
}

// row is a request in parquet.
type row struct {
	Request    string    `parquet:"request"`
	Endpoint   string    `parquet:"endpoint,dict"`
	Class      string    `parquet:"class,dict"`
	Goroutine  int64     `parquet:"goroutine"`
	Start      time.Time `parquet:"start,timestamp(nanosecond)"` // 1970 if it is not known
	StartNS    int64     `parquet:"start_ns"`
	DurationNS int64     `parquet:"duration_ns"`
	Band       string    `parquet:"band,dict"`
	InFlight   bool      `parquet:"in_flight"`
	Weight     float64   `parquet:"weight"`
	Leaves     []leaf    `parquet:"leaves,list"`
}

type leaf struct {
	Leaf     string `parquet:"leaf,dict"`
	Cause    string `parquet:"cause,dict"`
	What     string `parquet:"what,dict"`
	Function string `parquet:"function,dict"`
	File     string `parquet:"file,dict"`
	Line     int32  `parquet:"line"`
	NS       int64  `parquet:"ns"`
}

// parquetTo writes a row for each request.
func parquetTo(w io.Writer, r *detail.Recording) error {
	out := parquet.NewGenericWriter[row](w, parquet.Compression(&parquet.Zstd))
	for i := range r.Requests {
		q := &r.Requests[i]
		x := row{
			Request: q.ID, Endpoint: text(q.Endpoint), Class: text(r.Class), Goroutine: q.Goroutine, Start: time.Unix(0, 0).UTC(), StartNS: q.StartNS,
			DurationNS: q.DurationNS, Band: q.Band, InFlight: q.InFlight, Weight: q.Weight,
		}
		if !r.Start.IsZero() {
			x.Start = r.Start.Add(time.Duration(q.StartNS))
		}
		for _, p := range q.Pieces {
			l := &r.Leaves[p.Leaf]
			f := place(r, l)
			x.Leaves = append(x.Leaves, leaf{l.Kind, l.Cause, text(l.Text), text(f.Function), text(f.File), int32(f.Line), p.NS})
		}
		if _, err := out.Write([]row{x}); err != nil {
			return err
		}
	}
	return out.Close()
}
