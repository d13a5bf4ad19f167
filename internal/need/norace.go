//go:build !race

package need

// Raced says that tests run under the race detector.
const Raced = false
