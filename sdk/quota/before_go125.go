//go:build !go1.25

package quota

const builtIn = false
