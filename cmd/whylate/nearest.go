package main

import (
	"fmt"
	"slices"
	"strings"
)

// maxMeant is how many names are offered that begin with what was typed.
const maxMeant = 3

// didYouMean returns "; did you mean NAME?" with the name that a mistyped word is
// nearest to, or with those of which it is the beginning, "" if there are none or many.
func didYouMean(word string, names []string) string {
	word = strings.ToLower(word) // as all names are
	var meant []string
	if best := nearest(word, names); best != "" {
		meant = []string{best}
	} else {
		meant = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, word) })
	}
	if len(meant) == 0 || len(meant) > maxMeant {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", strings.Join(meant, " or "))
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
