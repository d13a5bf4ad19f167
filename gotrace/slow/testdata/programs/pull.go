//go:build go1.23

package main

import "iter"

func init() { programs["coroutines"] = coroutines }

// coroutines switches to and fro, to the end and not.
func coroutines() {
	for n := range 40 {
		next, stop := iter.Pull(func(yield func(int) bool) {
			for i := range 20 {
				if !yield(i) {
					return
				}
			}
		})
		for range n {
			if _, ok := next(); !ok {
				break
			}
		}
		stop()
	}
}
