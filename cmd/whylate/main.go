// Command whylate answers why a Go request was late.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/whylate/whylate/demo"
	"github.com/whylate/whylate/internal/version"
	"github.com/whylate/whylate/report"
)

// Exit codes.
const (
	exitOK           = 0
	exitFailure      = 1
	exitUsage        = 2
	exitCause        = 3
	exitInconclusive = 4
)

func main() {
	if name := os.Getenv(demo.VictimEnv); name != "" {
		os.Exit(demo.Victim(name, os.Args[1:]))
	}
	if os.Getenv("GOGC") == "" {
		// Most of an analysis is one large timeline, without pointers: to collect four times as often
		// as is usual costs a sixteenth more CPU and saves more than a quarter of the memory.
		debug.SetGCPercent(25)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// exitError carries an exit code that is no failure: the verdict's.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// usageError marks mistakes of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run executes a command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var code exitError
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		complain(stderr, usage.Error()+"\nSee "+cmd.CommandPath()+" --help.")
		return exitUsage
	}
	complain(stderr, failure(cmd, err))
	return exitFailure
}

// complain prints a text, line by line: a target may have had its say in it.
func complain(w io.Writer, text string) {
	prefix := "whylate: "
	for line := range strings.Lines(text) {
		fmt.Fprintf(w, "%s%s\n", prefix, report.Quote(line))
		prefix = ""
	}
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "whylate",
		Short: "Why was this Go request late?",
		Long: `whylate records a running Go service for a few seconds, takes every slow request
apart, follows each wait to whoever caused it, and names the cause.

Exit codes: 0 healthy or done, 1 failure, 2 usage, 3 a cause was named, 4 inconclusive.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.Version = version.String()
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{flagError(cmd, err)} })
	root.Args = cobra.ArbitraryArgs // else an unknown command is no usage error
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			var names []string
			for _, c := range cmd.Commands() {
				names = append(names, c.Name())
			}
			return usageError{fmt.Errorf("unknown command %q%s", args[0], didYouMean(args[0], names))}
		}
		return cmd.Help()
	}
	root.AddCommand(newDiagnose(), newRecord(), newShow(), newExport(), newCompare(), newRedact(), newCauses(), newDoctor(), newTop(), newDemo(), newVersion(), newMan())
	return root
}

// flagError adds to the mistake of an unknown flag which one may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && strings.Contains(err.Error(), "missing unit in duration") {
		return fmt.Errorf("%w; %[2]ss are %[2]s seconds", err, invalid.GetValue())
	}
	if !errors.As(err, &unknown) {
		return err
	}
	if name := unknown.GetSpecifiedName(); name == "json" && cmd.Flags().Lookup("output") != nil {
		return fmt.Errorf("%w; JSON is -o json", err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return fmt.Errorf("%w%s", err, didYouMean("--"+unknown.GetSpecifiedName(), names))
}

// args checks the number of arguments; a mistake is a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, a []string) error {
		if err := check(cmd, a); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// verdictExit is the exit code of a diagnosis.
func verdictExit(d *report.Diagnosis) error {
	switch d.Verdict {
	case report.VerdictHealthy:
		return nil
	case report.VerdictCause:
		return exitError(exitCause)
	}
	return exitError(exitInconclusive)
}
