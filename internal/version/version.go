// Package version tells which whylate this is.
package version

import (
	"runtime"
	"runtime/debug"
)

// Build is what is known of how this program was built.
type Build struct {
	// Version is that of the main module: a tag such as v0.1.0 for a released build, "devel"
	// with the revision, if known, for others.
	Version string `json:"version"`
	// Go and Platform are those that it was built with and for, linux/amd64 for example.
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Revision and Time are those of the commit, "" if they are not known; Modified says that
	// there were changes beside it.
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	// Cgo says that it needs the C library.
	Cgo bool `json:"cgo"`
}

// Info returns what is known of this program.
func Info() Build {
	b := Build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "CGO_ENABLED":
			b.Cgo = s.Value == "1"
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	} else if len(b.Revision) >= 12 {
		b.Version = "devel-" + b.Revision[:12]
	}
	return b
}

// String returns Build.Version of this program.
func String() string { return Info().Version }
