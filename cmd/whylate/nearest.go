package main

import "fmt"

// didYouMean returns "; did you mean NAME?" with the name that a mistyped word is
// nearest to, "" if none is near: at most a third of its letters are wrong.
func didYouMean(word string, names []string) string {
	best, least := "", len(word)/3+1
	for _, n := range names {
		if d := distance(word, n); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance is the number of bytes to insert, remove or replace that turn a into b
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
