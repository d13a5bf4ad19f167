package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
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

// findProcess is how to find the id of a process.
const findProcess = "pgrep -a NAME    # the ids of the processes of a program"

// recordOne is how to get a recording of a target whose URL is known, or "".
func recordOne(url, flags string) string {
	return "whylate record " + cmp.Or(url, "http://HOST:PORT") + flags + " --save FILE.whylate"
}

// liveTarget matches what is meant for a live target: a URL, host:port with or without a path,
// the id of a process.
var liveTarget = regexp.MustCompile(`://|^[^/]*:[0-9]+(/|$)|^[0-9]+$`)

// wantFile returns an error if what was given for a recording is no file.
func wantFile(cmd *cobra.Command, arg string) error {
	if !diagnose.IsFile(arg) && liveTarget.MatchString(arg) {
		return usageError{fmt.Errorf("%s is no file; %s wants a recording\n%s", clean(arg), cmd.Name(), recordOne(pprofhttp.Shell(clean(arg)), ""))}
	}
	info, err := os.Stat(arg)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder; %s wants one recording\nls %s/*.whylate", arg, cmd.Name(), pprofhttp.Shell(filepath.Clean(arg)))
	}
	return err // names the operation and the path
}

// clean is a target without credentials.
func clean(target string) string {
	if strings.ContainsAny(target, "@?") && !diagnose.IsFile(target) { // a password, or a token
		return cmp.Or(evidence.CleanURL(target), "URL")
	}
	return target
}

// list shows the recordings beside one that is not there, and which of them, mistyped or without
// its end, may have been meant.
func list(path string) string {
	return cmp.Or(meant(path), listCommand(path)+"or make one: "+recordOne("", ""))
}

// meant is that command if a file beside path may have been meant, else "".
func meant(path string) string {
	folder, word := filepath.Split(path)
	var names []string
	files, _ := os.ReadDir(cmp.Or(folder, ".")) // the command will say why, if there are none
	for _, f := range files {
		names = append(names, f.Name())
	}
	if near := cmp.Or(nearest(word, names), nearest(word+".whylate", names)); near != "" {
		return listCommand(path) + "did you mean " + folder + near + "?"
	}
	return ""
}

func listCommand(path string) string {
	folder, _ := filepath.Split(path)
	return "ls " + pprofhttp.Shell(folder) + "*.whylate    # "
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
	var dns *net.DNSError
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
	case errors.Is(err, diagnose.ErrTooEarly) && e == nil: // and that was another time
		return recordOne("", "")
	case errors.Is(err, diagnose.ErrTooEarly) && e.Advice == "":
		return again(cmd, "", "")
	case errors.As(err, &dns) && cmd.Name() == "diagnose" && !liveTarget.MatchString(path) && meant(path) != "":
		return meant(path) // what is no file is taken for a host
	case errors.As(err, &e):
		return addition(cmd, e.Advice)

	case errors.Is(err, context.Canceled):
		return again(cmd, "", "")
	case errors.Is(err, host.ErrNoProcess), errors.Is(err, syscall.ESRCH):
		return findProcess
	case errors.Is(err, diagnose.ErrNotGo):
		return "pgrep -a -P " + cmd.Flags().Arg(0) + "    # its children: is the service one of them?"

	case errors.Is(err, evidence.ErrOld):
		return "GOTOOLCHAIN=go1.26.0 go build ./...    # build the target with Go 1.22 or newer"
	case errors.Is(err, evidence.ErrVersion), errors.Is(err, gotrace.ErrNewer):
		return getNewer
	case errors.Is(err, evidence.ErrMalformed), errors.As(err, &damaged):
		return diagnose.CopyAgain(path)
	case errors.Is(err, evidence.ErrNotIncident), errors.Is(err, diagnose.ErrNoTrace), errors.Is(err, gotrace.ErrFormat):
		return recordOne("", "")

	case at != nil && at.Op == "find recordings in":
		return recordOne("", "")
	case at != nil && at.Op == "stat" && errors.Is(err, fs.ErrNotExist):
		return list(path)
	case at != nil && at.Op == "open" && errors.Is(err, fs.ErrNotExist):
		return "ls -l " + pprofhttp.Shell(filepath.Dir(path))
	case at != nil && at.Op == "create" && errors.Is(err, fs.ErrNotExist) && !isThere(filepath.Dir(path)):
		return "mkdir -p " + pprofhttp.Shell(filepath.Dir(path))
	case at != nil && at.Op == "mkdir":
		return command(cmd, []string{filepath.Join(os.TempDir(), filepath.Base(path))}, "")
	case errors.Is(err, syscall.EISDIR):
		return elsewhere(cmd, path, filepath.Join(path, "FILE"))
	case errors.Is(err, evidence.ErrSpecial):
		return elsewhere(cmd, path, "FILE.whylate")
	case errors.Is(err, syscall.ENOSPC) && at != nil:
		return "df -h " + pprofhttp.Shell(filepath.Dir(path)) + "    # and write elsewhere"
	case at != nil && at.Op == "create": // not by this user, or by nobody, as in /proc
		return elsewhere(cmd, path, filepath.Join(os.TempDir(), filepath.Base(path)))
	case errors.Is(err, fs.ErrPermission) && at != nil:
		return "ls -ld " + pprofhttp.Shell(filepath.Dir(path)) + " " + pprofhttp.Shell(path)
	case errors.Is(err, fs.ErrPermission) && cmd.Name() == "top":
		return "sudo " + again(cmd, "", "")
	case errors.Is(err, fs.ErrPermission):
		return "whylate diagnose http://HOST:PORT    # of its net/http/pprof"
	}
	return ""
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// elsewhere is the command once more, with another file to write instead of path.
func elsewhere(cmd *cobra.Command, path, file string) string {
	flag := "save"
	if cmd.Flags().Lookup(flag) == nil {
		flag = "output"
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() == path {
			flag = f.Name
		}
	})
	return again(cmd, "", "--"+flag+" "+pprofhttp.Shell(file))
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
	in, none := evidence.Open(file, evidence.Options{})
	if none != nil {
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

// worstOnly says that what is written of requests is of a part of the trace, if it is.
func worstOnly(cmd *cobra.Command, d *report.Diagnosis) {
	for _, w := range d.Windows {
		if w.Worst {
			complain(cmd.ErrOrStderr(), fmt.Sprintf("the trace has %d windows: this is of the worst one, %.1f to %.1f s of %.1f", len(d.Windows), float64(w.FromNS)/1e9, float64(w.ToNS)/1e9, float64(d.DurationNS)/1e9))
		}
	}
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
	case "few-requests", "lost":
		return longer()
	case "no-requests":
		if f := d.Requests.Perhaps; f != "" {
			return again(cmd, "", "--request "+pprofhttp.Shell("func=^"+regexp.QuoteMeta(f)+"$"))
		}
		return again(cmd, "", "--request 'func=REGEXP'")
	case "unexplained", "unresolved":
		if isFile {
			return "whylate show " + pprofhttp.Shell(cmd.Flags().Arg(0))
		}
		if f := cmd.Flags().Lookup("save"); f != nil && f.Changed {
			return "whylate show " + pprofhttp.Shell(f.Value.String())
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
	}
	return command(cmd, []string{target}, flags)
}

// command is a command with arguments, the flags that were given, and more flags as for again.
func command(cmd *cobra.Command, args []string, flags string) string {
	words := []string{cmd.CommandPath()}
	for _, a := range args {
		words = append(words, pprofhttp.Shell(clean(a)))
	}
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
