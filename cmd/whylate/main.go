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
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/demo"
	"github.com/whylate/whylate/diagnose"
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
	ctx, stop := signal.NotifyContext(context.Background(), cutShort()...)
	defer stop()
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGHUP) // who closes a terminal sends more than one
		stop()                        // the second signal of the others ends what the first one only cut short
	})
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// heedSignals has a signal end the process at once: nothing is recorded that it could cut short, and
// an analysis leaves nothing behind.
func heedSignals() { signal.Reset(cutShort()...) }

// cutShort are the signals that end a recording early, and keep what there is: the last one comes when a terminal is closed, or a
// connection to it lost, unless the command was started so as to outlive that.
func cutShort() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
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
		if cmd.Name() == "help" {
			cmd = root
		}
		complain(stderr, usage.Error()+"\n"+cmd.CommandPath()+" --help")
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
	wantCommand(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return noneEmpty(cmd) }
	root.SetHelpCommand(newHelp())
	root.AddCommand(newDiagnose(), newRecord(), newShow(), newExport(), newCompare(), newRedact(), newCauses(), newDoctor(), newTop(), newDemo(), newVersion(), newMan())
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		wantCommand(c)
		for _, shell := range c.Commands() {
			shell.Args = args(0)
		}
	}
	return root
}

// wantCommand makes a command that only has others show them, and a word that is none of them a
// usage error.
func wantCommand(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, a []string) error {
		if len(a) > 0 {
			return usageError{noCommand(cmd, a[0])}
		}
		return cmd.Help()
	}
}

// noCommand says that there is no command of a name, and which one may have been meant: what is
// a target is to be diagnosed.
func noCommand(of *cobra.Command, name string) error {
	if !of.HasParent() && (liveTarget.MatchString(name) || diagnose.IsFile(name)) {
		return fmt.Errorf("there is no command %q\nwhylate diagnose %s", clean(name), pprofhttp.Shell(clean(name)))
	}
	var names []string
	for _, c := range of.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("there is no command %q%s", name, didYouMean(name, names))
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		ValidArgsFunction: func(cmd *cobra.Command, a []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if of, rest, err := cmd.Root().Find(a); err == nil && len(rest) == 0 {
				for _, c := range of.Commands() {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, a []string) error {
			of, rest, err := cmd.Root().Find(a)
			if err == nil && len(rest) > 0 {
				err = noCommand(of, rest[0])
			}
			if err != nil {
				return usageError{err}
			}
			of.InitDefaultHelpFlag() // else it is not among its flags
			return of.Help()
		},
	}
}

// flagError says in our words what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var without *pflag.ValueRequiredError
	switch {
	case errors.As(err, &invalid):
		hint := ""
		if strings.Contains(err.Error(), "missing unit in duration") {
			hint = "; did you mean " + invalid.GetValue() + "s?"
		}
		return fmt.Errorf("--%s wants %s, not %q%s", invalid.GetFlag().Name, wanted(invalid.GetFlag()), invalid.GetValue(), hint)
	case errors.As(err, &without):
		return fmt.Errorf("--%s wants %s, and there is none", without.GetFlag().Name, wanted(without.GetFlag()))
	case !errors.As(err, &unknown):
		return err
	}
	name := "--" + unknown.GetSpecifiedName()
	if given := unknown.GetSpecifiedShortnames(); given != "" {
		return fmt.Errorf("there is no flag -%.1s (in -%s)", given, given)
	}
	if name == "--json" && cmd.Flags().Lookup("output") != nil {
		return fmt.Errorf("there is no flag %s; JSON is -o json", name)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return fmt.Errorf("there is no flag %s%s", name, didYouMean(name, names))
}

// noneEmpty returns a usage error if a flag was given without what it is for, as by a variable of
// a shell that is not set: to go on without the flag would answer another question.
func noneEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values, ok := f.Value.(pflag.SliceValue)
		if f.Value.Type() == "string" && f.Value.String() == "" || ok && slices.Contains(values.GetSlice(), "") {
			err = usageError{fmt.Errorf("--%s wants %s, and there is none", f.Name, wanted(f))}
		}
	})
	return err
}

// wanted describes the value of a flag.
func wanted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "int":
		return "a whole number such as " + f.DefValue
	case "duration":
		return "a time such as 10s"
	case "size":
		return "a size such as 64MiB"
	}
	name, usage := pflag.UnquoteUsage(f)
	if name == "string" { // the usage says what it may be
		name = usage
	}
	return "a value (" + name + ")"
}

// args checks that each argument is there, and no more: those of names, of which the first least
// have to be. A mistake is a usage error.
func args(least int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, a []string) error {
		switch i := slices.Index(a, ""); {
		case i >= 0:
			return usageError{fmt.Errorf("%s: argument %d is empty", cmd.Use, i+1)}
		case len(a) < least:
			missing := names[len(a):least]
			verb := " is missing"
			if len(missing) > 1 {
				verb = " are missing"
			}
			return usageError{fmt.Errorf("%s: %s\n%s", cmd.Use, strings.Join(missing, " and ")+verb, command(cmd, slices.Concat(a, missing), ""))}
		case len(a) > len(names) && !strings.HasSuffix(cmd.Use, "..."):
			return usageError{fmt.Errorf("%s: %q is too much\n%s", cmd.Use, clean(a[len(names)]), command(cmd, a[:len(names)], ""))}
		}
		return nil
	}
}

// verdictExit is the exit code of a diagnosis.
func verdictExit(d *report.Diagnosis) error {
	exit := exitOf(d.Verdict)
	for _, w := range d.Windows {
		if e := exitOf(w.Verdict); w.File != "" && (exit == nil || e == exitError(exitCause)) { // it is a recording of its own
			exit = e
		}
	}
	return exit
}

func exitOf(verdict string) error {
	switch verdict {
	case report.VerdictHealthy:
		return nil
	case report.VerdictCause:
		return exitError(exitCause)
	}
	return exitError(exitInconclusive)
}
