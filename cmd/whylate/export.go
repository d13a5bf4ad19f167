package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/internal/output"
	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/report/detail"
	"github.com/whylate/whylate/report/export"
)

func newExport() *cobra.Command {
	var to, file string
	var slowest int
	var flags analyseFlags
	var names, about []string
	for _, f := range export.Formats() {
		names = append(names, f.Name)
		about = append(about, fmt.Sprintf("  %-11s %s", f.Name, f.About))
	}
	cmd := &cobra.Command{
		Use:   "export FILE --to FORMAT",
		Short: "Write what is known of each request for another tool",
		Long: `Analyse FILE, an incident (*.whylate) or a Go execution trace, and write what is
known of each request in a format of another tool:

` + strings.Join(about, "\n") + `

Times of requests are those of the diagnosis: they add up to how long each request took. Of a trace
that is diagnosed in windows, because it is long or damaged, it is the worst window's requests; of
goroutines it is the whole trace.`,
		Args: args(1, "FILE"),
		RunE: func(cmd *cobra.Command, a []string) error {
			f, ok := export.Find(to)
			switch {
			case to == "":
				return usageError{fmt.Errorf("--to is missing: one of %s\n%s", strings.Join(names, ", "), again(cmd, "", "--to csv"))}
			case !ok:
				return usageError{fmt.Errorf("--to: there is no format %q%s; there are %s", to, didYouMean(to, names), strings.Join(names, ", "))}
			case slowest < 1 || slowest > detail.MaxPaths:
				return usageError{fmt.Errorf("--slowest must lie between 1 and %d, not %d", detail.MaxPaths, slowest)}
			}
			if err := wantFile(cmd, a[0]); err != nil {
				return err
			}
			o, err := flags.options()
			if err != nil {
				return err
			}
			o.Detail = &detail.Options{Paths: slowest}
			if file == "-" && f.Binary && isTerminal(cmd.OutOrStdout()) {
				return usageError{fmt.Errorf("%s is nothing for a terminal: -o FILE", f.Name)}
			}
			in, err := evidence.Open(a[0], evidence.Options{MaxTrace: diagnose.MaxTrace})
			if err != nil {
				return err
			}
			defer in.Close()
			write := func(do func(io.Writer) error) error {
				if file == "-" {
					return do(cmd.OutOrStdout())
				}
				return output.File(file, do)
			}
			if f.Goroutines() {
				return write(func(w io.Writer) error { return exportGoroutines(cmd, w, f, in, o) })
			}
			d, err := diagnose.Analyse(in, o)
			if err != nil {
				return err
			}
			if d.Lost.Bytes > 0 || d.Lost.Detail != "" {
				complain(cmd.ErrOrStderr(), lost(cmd, d))
			}
			worstOnly(cmd, d)
			r := d.Detail
			if r == nil {
				return diagnose.ErrNoTrace
			}
			if len(r.Requests) == 0 {
				return errors.New("no requests were found in the recording: there is nothing to export\nwhylate diagnose " + report.Quote(a[0]))
			}
			return write(func(w io.Writer) error { return f.Write(w, r) })
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&to, "to", "", "the `format`: "+strings.Join(names, ", "))
	fs.StringVarP(&file, "output", "o", "-", "the `file` to write; - is standard output")
	fs.IntVar(&slowest, "slowest", 20, "of how many of the slowest requests every wait is followed (speedscope, perfetto)")
	flags.register(fs, asForDiagnose)
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// exportGoroutines writes what the whole trace says of goroutines.
func exportGoroutines(cmd *cobra.Command, w io.Writer, f export.Format, in *evidence.Incident, o diagnose.AnalyseOptions) error {
	c := f.Columns(w)
	lost, err := diagnose.Timelines(in, o, c.Add)
	if err != nil {
		return err
	}
	if lost != nil {
		complain(cmd.ErrOrStderr(), "a part of the recording is lost: "+lost.Error()+"\n"+diagnose.CopyAgain(in.Path))
	}
	return c.Close()
}

// isTerminal tells whether what is written to w is seen by a person at once.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
