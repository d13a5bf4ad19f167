package report

import (
	"fmt"
	"math"
	"strconv"
)

// duration writes ns with three significant digits and the unit a person would
// say: 850 ns, 310 µs, 41.2 ms, 1.93 s.
func duration(ns int64) string {
	v := float64(ns)
	switch a := math.Abs(v); {
	case ns == 0:
		return "0 ms"
	case a < 1e3:
		return fmt.Sprintf("%d ns", ns)
	case a < 999.5e3:
		return digits(v/1e3) + " µs"
	case a < 999.5e6:
		return digits(v/1e6) + " ms"
	case a >= 1e15: // eleven days: no latency, but a file may claim it
		return fmt.Sprintf("%.2g s", v/1e9)
	}
	return digits(v/1e9) + " s"
}

// Duration writes nanoseconds as the reports do: 41.2 ms.
func Duration(ns int64) string { return duration(ns) }

func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// count writes n with thousands separated: 12,034.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// counted is count with its noun: 1 request, 2 requests.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(int64(n)) + " " + noun + "s"
}

// tenths writes a share given in tenths of a per cent.
func tenths(n int) string { return fmt.Sprintf("%.1f %%", float64(n)/10) }

// percent writes a ratio with as many digits as a reader needs.
func percent(ratio float64) string {
	p := ratio * 100
	switch a := math.Abs(p); {
	case math.IsNaN(p) || math.IsInf(p, 0):
		return "unknown"
	case a >= 10 || p == 0:
		return fmt.Sprintf("%.0f %%", p)
	case a >= 0.1:
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.2g %%", p)
}

// interval writes the bounds of a share, or nothing if there is none.
func interval(low, high *float64) string {
	if low == nil || high == nil {
		return ""
	}
	p := func(share float64) float64 { return min(max(bounded(share)*100, -999), 999) }
	return fmt.Sprintf("[%.0f..%.0f %%]", p(*low), p(*high))
}

// number writes the value of a piece of evidence, whose unit is not known here.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "unknown"
	case a >= 1e6: // at most 7 columns, whatever a file claims
		return fmt.Sprintf("%.1g", v)
	case a >= 1e3:
		return count(int64(math.Round(v)))
	case v != 0 && a < 0.0005:
		return "<0.001"
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// maxShare is ten times the excess: beyond it no digit helps.
const maxShare = 10

// bounded keeps a share printable: what is not a number is no share.
func bounded(share float64) float64 {
	if math.IsNaN(share) {
		return 0
	}
	return min(max(share, -maxShare), maxShare)
}

// size writes a number of bytes: 812 B, 1.20 MB.
func size(n int64) string {
	switch v := float64(n); {
	case n < 1e3:
		return fmt.Sprintf("%d B", n)
	case n < 1e6:
		return digits(v/1e3) + " kB"
	case n < 1e9:
		return digits(v/1e6) + " MB"
	default:
		return digits(v/1e9) + " GB"
	}
}
