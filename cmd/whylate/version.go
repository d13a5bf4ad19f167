package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/internal/version"
	"github.com/whylate/whylate/report"
)

// about is what `version -o json` prints.
type about struct {
	version.Build
	// Schemas are the formats that it writes, and reads up to.
	Schemas []string `json:"schemas"`
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and how it was built",
		Args:  args(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output, "text", "json"); err != nil {
				return err
			}
			return printVersion(cmd.OutOrStdout(), about{version.Info(), []string{evidence.Schema, events.Schema, report.Schema}}, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func printVersion(w io.Writer, a about, output string) error {
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(a)
	}
	fmt.Fprintf(w, "whylate %s\n", a.Version)
	cgo := "without cgo"
	if a.Cgo {
		cgo = "with cgo"
	}
	fmt.Fprintf(w, "built with %s for %s, %s\n", a.Go, a.Platform, cgo)
	if a.Revision != "" {
		state := ""
		if a.Modified {
			state = ", modified"
		}
		fmt.Fprintf(w, "revision %s of %s%s\n", a.Revision, a.Time, state)
	}
	_, err := fmt.Fprintf(w, "formats %s, %s, %s\n", a.Schemas[0], a.Schemas[1], a.Schemas[2])
	return err
}
