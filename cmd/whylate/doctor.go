package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/whylate/whylate/capture/doctor"
	"github.com/whylate/whylate/report"
)

func newDoctor() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "doctor [PID]",
		Short: "Say what can be recorded here, and check clock, quota and host settings",
		Long: `Look at this machine, and at process PID if one is given, without recording and
without changing anything: what this user may record, whether reading the clock
is a system call, whether GOMAXPROCS fits the CPU quota, and the settings of the
host that make requests late.

Without PID, the quota is that of this shell's cgroup, and GOMAXPROCS what a Go
program started here would choose. Linux only.

Exit codes: 0 done, whatever was found; 1 PID cannot be examined; 2 usage.`,
		Args: args(0, "PID"),
		RunE: func(cmd *cobra.Command, a []string) error {
			if err := checkOutput(output, "text", "json"); err != nil {
				return err
			}
			pid := 0
			if len(a) > 0 {
				n, err := strconv.ParseInt(a[0], 10, 32)
				if err != nil || n <= 0 {
					return usageError{fmt.Errorf("%q is no process id", a[0])}
				}
				pid = int(n)
			}
			r, err := doctor.Examine(pid)
			if err != nil {
				return err
			}
			problem := r.Target != nil && r.Target.Problem != ""
			if problem {
				complain(cmd.ErrOrStderr(), r.Target.Problem+"\n"+findProcess)
			}
			if err := printDoctor(cmd.OutOrStdout(), r, output); err != nil {
				return err
			}
			if problem {
				return exitError(exitFailure)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func printDoctor(w io.Writer, r *doctor.Report, output string) error {
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	var b strings.Builder
	who := "of a Go program started here"
	if t := r.Target; t != nil {
		who = fmt.Sprintf("of process %d", t.PID)
		if what := t.Main + " " + t.Go; t.Problem == "" { // a problem stands on stderr, once
			fmt.Fprintf(&b, "process %d  %s\n", t.PID, report.Quote(what))
		}
		for _, l := range t.Limits {
			fmt.Fprintf(&b, "  %s\n", report.Quote(l))
		}
		if t.Problem == "" || len(t.Limits) > 0 {
			fmt.Fprintln(&b)
		}
	}
	rows(&b, "What can be recorded here", r.Record)
	rows(&b, "Clock", r.Clock.Rows)
	rows(&b, "CPU quota and GOMAXPROCS "+who, r.Procs.Rows)
	rows(&b, "Host settings", r.Host)
	_, err := io.WriteString(w, b.String())
	return err
}

// rows prints a part of the report, if there is anything in it: what was found, and below it what to do.
func rows(w io.Writer, title string, list []doctor.Row) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, title)
	for _, r := range list {
		text := r.Value
		switch {
		case r.State == doctor.Absent:
			text = "not on this machine"
			if r.Why != "" {
				text += ": " + r.Why
			}
		case text == "":
			text = r.Why
		case r.Why != "":
			text += ": " + r.Why
		}
		fmt.Fprintf(w, "  %-7s  %-15s %s\n", r.State, r.ID, report.Quote(text))
		if r.Advice != "" {
			fmt.Fprintf(w, "  %-7s  %-15s → %s\n", "", "", report.Quote(r.Advice))
		}
	}
	fmt.Fprintln(w)
}
