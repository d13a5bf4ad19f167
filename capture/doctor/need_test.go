package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// need skips a test, loudly, where a feature is missing, and fails it if the
// feature is listed in WHYLATE_REQUIRE.
func need(t *testing.T, feature string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("WHYLATE_REQUIRE"), ","), feature) {
		t.Fatalf("%s is required and missing: %v", feature, err)
	}
	t.Skipf("NOT TESTED: needs %s: %v", feature, err)
}

// row returns a row by its id; nil if there is none.
func row(rows []Row, id string) *Row {
	for i := range rows {
		if rows[i].ID == id {
			return &rows[i]
		}
	}
	return nil
}
