// Package need lets tests depend on what a machine may not have.
package need

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Feature skips a test loudly if something is not here, err, unless WHYLATE_REQUIRE, a list
// with commas, has its name: then the test fails. Without an error it does nothing.
func Feature(t testing.TB, name string, err error) {
	t.Helper()
	switch {
	case err == nil:
	case Required(name):
		t.Fatalf("WHYLATE_REQUIRE lists %s: %v", name, err)
	default:
		fmt.Fprintf(os.Stderr, "SKIPPED-%s %s: %v\n", strings.ToUpper(name), t.Name(), err)
		t.Skip(err)
	}
}

// Required tells whether WHYLATE_REQUIRE lists a name.
func Required(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("WHYLATE_REQUIRE"), ","), name)
}
