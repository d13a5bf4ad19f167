//go:build !go1.25

package pace

import "runtime"

// setDefault sets what the runtime had chosen, which it does once.
func setDefault(base int) { runtime.GOMAXPROCS(base) }
