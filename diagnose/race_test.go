//go:build race

package diagnose

// raced says that the tests run under the race detector.
const raced = true
