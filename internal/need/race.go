//go:build race

package need

// Raced says that tests run under the race detector, which makes reading and diagnosing twenty
// times as slow. Tests in which nothing is concurrent then take some of their inputs: `make test`
// runs them without it, too, on all.
const Raced = true
