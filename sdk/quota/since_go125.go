//go:build go1.25

package quota

// builtIn is whether the runtime can set GOMAXPROCS from the quota.
const builtIn = true
