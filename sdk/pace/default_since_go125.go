//go:build go1.25

package pace

import "runtime"

// setDefault lets the runtime choose GOMAXPROCS, now and when the quota changes.
func setDefault(int) { runtime.SetDefaultGOMAXPROCS() }
