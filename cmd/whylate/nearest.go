package main

import "fmt"

// didYouMean returns "; did you mean NAME?" with the name that a mistyped word is
// nearest to, "" if none is near.
func didYouMean(word string, names []string) string {
	if best := nearest(word, names); best != "" {
		return fmt.Sprintf("; did you mean %s?", best)
	}
	return ""
}

// nearest returns the name that a word is nearest to, "" if none is near: at most a
// third of the word's letters are wrong.
func nearest(word string, names []string) (best string) {
	least := len(word)/3 + 1
	for _, n := range names {
		if d := distance(word, n); d < least {
			best, least = n, d
		}
	}
	return best
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
