package main

import (
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/experiment"
	"github.com/whylate/whylate/report/detail"
)

func newCompare() *cobra.Command {
	var output string
	var flags analyseFlags
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Say what became worse between two recordings, and what differs",
		Long: `Diagnose A and B, two recordings of a service (*.whylate, or Go execution traces):
before and after, a good pod and a bad one, the old version and the new. Say which
causes appeared in B, grew, shrank or went, by their part of what slow requests take
longer, and what else differs: quota, CPUs, settings, Go, modules, the build, the load,
its endpoints, clock and kernel, and what was recorded.

Exit codes: 3 a cause appeared in B or grew, 0 none did, 4 that is not clear. If one did
and another one went or shrank (mixed): 3 if B's p99 is higher by more than a tenth, else 0.`,
		Args: args(2, "A", "B"),
		RunE: func(cmd *cobra.Command, a []string) error {
			heedSignals()
			if err := checkOutput(output, "text", "json"); err != nil {
				return err
			}
			o, err := flags.options()
			if err != nil {
				return err
			}
			o.Detail = &detail.Options{}
			var both [2]experiment.Incident
			for i, name := range a {
				if err := wantFile(cmd, name); err != nil {
					return err
				}
				in, err := examined(name, o)
				if err != nil {
					return err
				}
				both[i] = in
			}
			c := experiment.Compare(both[0], both[1])
			write := c.Text
			if output == "json" {
				write = c.JSON
			}
			if err := write(cmd.OutOrStdout()); err != nil {
				return err
			}
			switch {
			case c.Verdict == experiment.VerdictWorse, c.Verdict == experiment.VerdictMixed && c.Later():
				return exitError(exitCause)
			case c.Verdict == experiment.VerdictUnclear:
				return exitError(exitInconclusive)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&output, "output", "o", "text", "text or json")
	flags.register(fs, asForDiagnose)
	return cmd
}

// examined opens a recording and diagnoses it.
func examined(name string, o diagnose.AnalyseOptions) (experiment.Incident, error) {
	in, err := evidence.Open(name, evidence.Options{MaxTrace: diagnose.MaxTrace})
	if err != nil {
		return experiment.Incident{}, err
	}
	defer in.Close()
	d, err := diagnose.Analyse(in, o)
	if err != nil {
		return experiment.Incident{}, &fs.PathError{Op: "diagnose", Path: name, Err: err}
	}
	return experiment.Incident{Name: name, Manifest: &in.Manifest, Diagnosis: d}, nil
}
