package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/report"
)

// getNewer is how to get a whylate that reads newer recordings.
const getNewer = "go install github.com/whylate/whylate/cmd/whylate@latest"

// recordOne is how to get a recording of a target whose URL is known, or "".
func recordOne(url, flags string) string {
	return "whylate record " + cmp.Or(url, "http://HOST:PORT") + flags + " --save FILE.whylate"
}

// failure is the text of an error of a command for a person: one line of cause and, where
// something can be done about it, a line to paste; most often one, never more than three.
func failure(cmd *cobra.Command, err error) string {
	if advice := remedy(cmd, err); advice != "" {
		return happened(err) + "\n" + advice
	}
	return happened(err)
}

// happened is the first line of an error.
func happened(err error) string {
	var e *pprofhttp.Error
	if errors.As(err, &e) {
		return e.Cause
	}
	return err.Error()
}

func remedy(cmd *cobra.Command, err error) string {
	var e *pprofhttp.Error
	var damaged *gotrace.CorruptError
	var at *fs.PathError
	path := ""
	if errors.As(err, &at) {
		path = at.Path
	} else if cmd != nil {
		path = cmd.Flags().Arg(0)
	}
	switch {
	case errors.Is(err, pprofhttp.ErrTracing):
		return again(cmd, "", "")
	case errors.As(err, &e) && e.Target != "":
		return again(cmd, e.Target, "")
	case errors.Is(err, diagnose.ErrTooEarly) && (e == nil || e.Advice == ""):
		return again(cmd, "", "")
	case errors.As(err, &e):
		return addition(cmd, e.Advice)

	case errors.Is(err, context.Canceled):
		return again(cmd, "", "")
	case errors.Is(err, host.ErrNoProcess):
		return "pgrep -a NAME    # the ids of the processes of a program"
	case errors.Is(err, diagnose.ErrNotGo):
		return "pgrep -a -P " + cmd.Flags().Arg(0) + "    # its children: is the service one of them?"

	case errors.Is(err, evidence.ErrOld):
		return "GOTOOLCHAIN=go1.26.0 go build ./...    # build the target with Go 1.22 or newer"
	case errors.Is(err, evidence.ErrVersion), errors.Is(err, gotrace.ErrNewer):
		return getNewer
	case errors.Is(err, evidence.ErrMalformed):
		return diagnose.CopyAgain(path)
	case errors.Is(err, evidence.ErrNotIncident), errors.Is(err, diagnose.ErrNoTrace), errors.Is(err, gotrace.ErrFormat), errors.As(err, &damaged):
		return recordOne("", "")

	case at != nil && at.Op == "stat" && errors.Is(err, fs.ErrNotExist):
		return "ls *.whylate    # or make one: " + recordOne("", "")
	case at != nil && at.Op == "create" && errors.Is(err, fs.ErrNotExist):
		return "mkdir -p " + pprofhttp.Shell(filepath.Dir(path))
	case errors.Is(err, syscall.EISDIR):
		return elsewhere(cmd, filepath.Join(path, "FILE"))
	case errors.Is(err, evidence.ErrSpecial):
		return elsewhere(cmd, "FILE.whylate")
	case errors.Is(err, syscall.ENOSPC) && at != nil:
		return "df -h " + pprofhttp.Shell(filepath.Dir(path)) + "    # and write elsewhere"
	case errors.Is(err, fs.ErrPermission) && at != nil:
		return "ls -ld " + pprofhttp.Shell(filepath.Dir(path)) + " " + pprofhttp.Shell(path)
	case errors.Is(err, fs.ErrPermission):
		return "whylate diagnose http://HOST:PORT    # of its net/http/pprof"
	}
	return ""
}

// elsewhere is the command once more, with another file to write.
func elsewhere(cmd *cobra.Command, file string) string {
	flag := "--save"
	if cmd.Flags().Lookup("save") == nil {
		flag = "--output"
	}
	return again(cmd, "", flag+" "+pprofhttp.Shell(file))
}

// addition is the line to paste of an advice: one that begins with -- is added to the command.
func addition(cmd *cobra.Command, advice string) string {
	if strings.HasPrefix(advice, "--") {
		return again(cmd, "", advice)
	}
	return advice
}

// withRest adds to the error of a recording that ended too early what of it stays in a file.
func withRest(err error, file string) error {
	var e *pprofhttp.Error
	if !errors.Is(err, diagnose.ErrTooEarly) || !errors.As(err, &e) {
		return err
	}
	in, open := evidence.Open(file, evidence.Options{})
	if open != nil {
		return err
	}
	defer in.Close()
	rest := slices.DeleteFunc(in.Members(), func(name string) bool {
		return name == evidence.MemberManifest || name == evidence.MemberTrace
	})
	e.Cause += fmt.Sprintf("; what was recorded beside it stays in %s: %s", file, strings.Join(rest, ", "))
	return err
}

// lost says what of a recording is lost, and what to do about it.
func lost(cmd *cobra.Command, d *report.Diagnosis) string {
	return strings.TrimSuffix("a part of the recording is lost: "+d.Lost.Detail+"\n"+addition(cmd, d.Lost.Advice), "\n")
}

// next is the command that answers where this diagnosis did not, "" if it is not one, or stands
// with what was not recorded and with the causes that look alike.
func next(cmd *cobra.Command, d *report.Diagnosis) string {
	isFile := diagnose.IsFile(cmd.Flags().Arg(0))
	longer := func() string {
		if isFile {
			url := strings.TrimSuffix(evidence.CleanURL(d.Target.URL), "/debug/pprof") // a file's: it may say anything
			return recordOne(pprofhttp.Shell(url), " --for 60s")
		}
		return again(cmd, "", "--for 60s")
	}
	if d.Requests.HealthChecks {
		return longer() + "    # while others than health checks come"
	}
	if d.Verdict != report.VerdictInconclusive {
		return ""
	}
	switch d.Reason {
	case "few-requests":
		return longer()
	case "no-requests":
		return again(cmd, "", "--request 'func=REGEXP'")
	case "unexplained", "unresolved":
		if isFile {
			return "whylate show " + pprofhttp.Shell(cmd.Flags().Arg(0))
		}
		return again(cmd, "", "--save FILE.whylate") + " && whylate show FILE.whylate"
	case "level":
		return again(cmd, "", "--slo 10ms")
	}
	return ""
}

// secret are the flags whose values are not repeated: terminals and logs keep what is printed.
var secret = []string{"header", "postgres", "redis"}

// again is the command once more, with another target unless it is "", and with flags added,
// which replace those that were given. It holds no credentials.
func again(cmd *cobra.Command, target, flags string) string {
	if target == "" {
		target = cmd.Flags().Arg(0)
		if strings.ContainsAny(target, "@?") && !diagnose.IsFile(target) { // a password, or a token
			target = cmp.Or(evidence.CleanURL(target), "URL")
		}
	}
	words := []string{cmd.CommandPath(), pprofhttp.Shell(target)}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(secret, f.Name) || strings.HasPrefix(flags, "--"+f.Name+" ") {
			return
		}
		if values, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range values.GetSlice() {
				words = append(words, "--"+f.Name, pprofhttp.Shell(v))
			}
			return
		}
		words = append(words, "--"+f.Name+"="+pprofhttp.Shell(f.Value.String()))
	})
	if flags != "" {
		words = append(words, flags)
	}
	return strings.Join(words, " ")
}
