// Package spread finds numbers by which ids that follow each other are spread over a hash table:
// the upper bits of an id's product with such a number are its place.
package spread

import "math/rand/v2"

// Multiplier returns an odd number that spreads ids, another one each time: who makes a trace does
// not know it, and so cannot choose ids that meet.
func Multiplier() uint64 {
	for {
		if by := rand.Uint64() | 1; spreads(by) {
			return by
		}
	}
}

// spreads reports whether products of numbers that follow each other with by are apart. They are
// unless by, as a part of 1<<64, is close to a fraction with a small denominator: the products
// would pile up at as many places. The quotients of Euclid's algorithm say how close it ever is,
// up to denominators of 1<<32; about one odd number in five is never too close.
func spreads(by uint64) bool {
	for a, b := ^uint64(0), by; a > 1<<32; a, b = b, a%b {
		if b == 0 || a/b > 16 {
			return false
		}
	}
	return true
}
