// Package version tells which whylate this is.
package version

import "runtime/debug"

// String returns the version of the main module: a tag such as v0.1.0 for a
// released build, "devel" with the revision, if known, for others.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
