// Command bundle makes a page's program and its style of TypeScript: bundle FROM TO.js, and
// TO.css beside it. Both are relative to the folder ui; the packages in package-lock.json
// must be installed there (npm ci).
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// notice stands in every page: what else is in it, and whose.
const notice = "/*! holds Preact, (c) 2015-present Jason Miller, and uPlot, (c) 2022 Leon Sorokin; MIT licence: https://opensource.org/license/mit */"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: bundle FROM.tsx TO.js")
		os.Exit(2)
	}
	r := api.Build(api.BuildOptions{
		EntryPoints: []string{os.Args[1]}, Outfile: os.Args[2], Bundle: true, Write: true,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		Format: api.FormatIIFE, Target: api.ES2022, Charset: api.CharsetASCII, LegalComments: api.LegalCommentsInline,
		JSX: api.JSXAutomatic, JSXImportSource: "preact", TreeShaking: api.TreeShakingTrue,
		Banner:   map[string]string{"js": notice, "css": notice},
		LogLevel: api.LogLevelWarning, LogLimit: 20,
	})
	if len(r.Errors) > 0 {
		os.Exit(1)
	}
	// A page of one file has no place for a path of the machine that made it.
	for _, f := range r.OutputFiles {
		if wd, err := os.Getwd(); err == nil && strings.Contains(string(f.Contents), filepath.Dir(wd)) {
			fmt.Fprintf(os.Stderr, "%s holds a path of this machine\n", f.Path)
			os.Exit(1)
		}
	}
}
