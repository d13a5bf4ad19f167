//go:build !race

package diagnose

const raced = false
