package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/whylate/whylate/internal/version"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages",
		Long: `Write a manual page for each command into DIRECTORY, which is made if it is not
there: whylate.1, whylate-diagnose.1 and so on.

  whylate man ~/.local/share/man/man1 && man whylate-diagnose`,
		Args: args(1, "DIRECTORY"),
		RunE: func(cmd *cobra.Command, a []string) error {
			if err := os.MkdirAll(a[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // a line with the day of today
			h := doc.GenManHeader{Section: "1", Source: "whylate " + version.String(), Manual: "Why was this Go request late?"}
			if t, err := time.Parse(time.RFC3339, version.Info().Time); err == nil { // else they have the month of today
				h.Date = &t
			}
			if err := doc.GenManTree(root, &h, a[0]); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return nil
		},
	}
}
