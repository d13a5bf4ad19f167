package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/whylate/whylate/monitor/top"
)

// clearScreen moves to the first line and clears what follows (ECMA-48, 8.3.21 and 8.3.39).
const clearScreen = "\x1b[H\x1b[2J"

func newTop() *cobra.Command {
	var every time.Duration
	var moments int
	cmd := &cobra.Command{
		Use:   "top PID",
		Short: "Show what the kernel tells about a Go process, live",
		Long: `Shows, each second, what probes in the kernel tell about a process: how long its
threads waited for a CPU, for a quota, blocked in a system call and for pages, what its calls
into C take, how often the garbage collector runs, and how long goroutines are
runnable before they run; and how often it read the clock by a system call in the
first second. Nothing is stored. It takes root, or CAP_BPF and CAP_PERFMON; the
process needs no change. Each set of probes in functions of the process is removed
when it takes more than 1 % of its CPU time.`,
		Args: args(1, "PID"),
		RunE: func(cmd *cobra.Command, a []string) error {
			pid, err := strconv.ParseInt(a[0], 10, 32)
			if err != nil || pid <= 0 {
				return usageError{fmt.Errorf("%q is no process id", a[0])}
			}
			if every < 100*time.Millisecond || every > time.Minute {
				return usageError{fmt.Errorf("--every must lie between 100ms and 1m, not %s", every)}
			}
			if moments < 0 {
				return usageError{fmt.Errorf("--pages must not be negative")}
			}
			o := top.Options{Every: every, Moments: moments, Terminal: terminalOptions(cmd.OutOrStdout())}
			if o.Terminal.Width > 0 {
				o.Clear = clearScreen
			}
			return top.Run(cmd.Context(), cmd.OutOrStdout(), int(pid), o)
		},
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "how long a page counts")
	cmd.Flags().IntVarP(&moments, "pages", "n", 0, "end after so many `pages`; 0 means never")
	return cmd
}
