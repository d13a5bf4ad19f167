package score

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Changes writes how two scores of the same incidents, in the same order, differ: their
// totals, and the cases with other results. The names are those of the scores.
func Changes(w io.Writer, names [2]string, scores [2][]*Incident) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s | %s |\n| --- | --- | --- |\n", names[0], names[1])
	sums := [2]*Total{Sum(scores[0]), Sum(scores[1])}
	for _, r := range ratios {
		fmt.Fprintf(&b, "| %s | %v | %v |\n", r.name, r.value(sums[0]), r.value(sums[1]))
	}
	fmt.Fprintf(&b, "\n| incident | %s | %s | times |\n| --- | --- | --- | --- |\n", names[0], names[1])
	var rows []string
	times := map[string]int{}
	for k, x := range scores[0] {
		y := scores[1][k]
		if x.Result == y.Result {
			continue
		}
		row := fmt.Sprintf("| %s | %s: %s | %s: %s |", x.Truth.Case, x.Result, answer(x.diagnosis), y.Result, answer(y.diagnosis))
		if times[row]++; times[row] == 1 {
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	for _, row := range rows {
		fmt.Fprintf(&b, "%s %d |\n", row, times[row])
	}
	_, err := io.WriteString(w, b.String())
	return err
}
