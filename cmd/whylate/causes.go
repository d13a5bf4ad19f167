package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/whylate/whylate/cause"
	_ "github.com/whylate/whylate/cause/all" // the catalogue
	"github.com/whylate/whylate/report"
)

func newCauses() *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use:   "causes [ID]",
		Short: "List the catalogue of causes, or explain one",
		Args:  args(0, "ID"),
		ValidArgsFunction: func(_ *cobra.Command, a []string, _ string) (ids []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, e := range cause.Entries() {
				if len(a) == 0 {
					ids = append(ids, cobra.CompletionWithDesc(e.ID, e.Title))
				}
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, a []string) error {
			if markdown {
				if len(a) > 0 {
					return usageError{errors.New("--markdown writes the whole catalogue: leave the ID out")}
				}
				return causesMarkdown(cmd.OutOrStdout())
			}
			if len(a) == 0 {
				var list strings.Builder
				for _, e := range cause.Entries() {
					fmt.Fprintf(&list, "%-22s %s\n", e.ID, firstSentence(e.What))
				}
				_, err := io.WriteString(cmd.OutOrStdout(), list.String())
				return err
			}
			e := cause.Lookup(a[0])
			if e == nil {
				return usageError{noCause(a[0])}
			}
			_, err := io.WriteString(cmd.OutOrStdout(), explained(e))
			return err
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write the whole catalogue as a Markdown document")
	return cmd
}

// noCause says why there is no cause with an id.
func noCause(id string) error {
	if report.Suspects(id) {
		return fmt.Errorf("the cause %q is planned: this whylate cannot name it yet, and reports its time as unnamed", id)
	}
	var ids []string
	for _, e := range cause.Entries() {
		ids = append(ids, e.ID)
	}
	return fmt.Errorf("there is no cause %q%s\nwhylate causes    # lists them", id, didYouMean(id, ids))
}

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i > 0 {
		return s[:i+1]
	}
	return s
}

func explained(e *cause.Entry) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s: %s\n\n%s\n\nmust hold      %s\nmust not hold  %s\nlook-alikes    %s\n\nfix\n", e.ID, e.Title, e.What, e.MustHold, e.MustNot, strings.Join(e.LookAlikes, ", "))
	for _, f := range e.Fix {
		fmt.Fprintf(&w, "  - %s\n", f)
	}
	fmt.Fprintf(&w, "\nverify\n  %s\n", e.Verify)
	return w.String()
}
