package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/internal/output"
	"github.com/whylate/whylate/report"
)

func newShow() *cobra.Command {
	var file string
	var flags analyseFlags
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Open the report of a recording in a browser",
		Long: `Analyse FILE, an incident (*.whylate) or a Go execution trace, and open its report in
a browser: shares, causes, latency, what happened when, every wait of the slowest
requests beside a typical one, and a flame graph of lateness. The page is one file that
needs no network and asks none; -o keeps it.

BROWSER, if it is set, is the command that opens it.`,
		Args: args(1, "FILE"),
		RunE: func(cmd *cobra.Command, a []string) error {
			if err := wantFile(cmd, a[0]); err != nil {
				return err
			}
			switch file {
			case "text", "json", "html":
				return usageError{fmt.Errorf("-o names the file of the page here; a format goes with diagnose\n%s", command(cmd, a, "--output FILE.html"))}
			}
			if file == "-" && isTerminal(cmd.OutOrStdout()) {
				return usageError{errors.New("a page is nothing for a terminal: -o FILE.html")}
			}
			o, err := flags.options()
			if err != nil {
				return err
			}
			o.Detail = &report.PageDetail
			d, err := diagnose.Run(cmd.Context(), a[0], diagnose.Options{Analyse: o})
			if err != nil {
				return err
			}
			if d.Lost.Bytes > 0 || d.Lost.Detail != "" {
				complain(cmd.ErrOrStderr(), lost(cmd, d))
			}
			worstOnly(cmd, d)
			write := func(w io.Writer) error { return report.HTML(w, d) }
			if file == "-" {
				return write(cmd.OutOrStdout())
			}
			if file != "" {
				return output.File(file, write)
			}
			page, err := pageFile(a[0], write)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), page)
			if err := openPage(page); err != nil {
				complain(cmd.ErrOrStderr(), fmt.Sprintf("no browser can be opened here: %v\n%s", err, command(cmd, a, "--output FILE.html")))
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&file, "output", "o", "", "write the page to this `file`, - for standard output, and open nothing")
	flags.register(fs, asForDiagnose)
	return cmd
}

// notInName are characters that make a file's name hard to open somewhere.
var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// pageFile writes the page of a recording to a folder of its own that only the user reads.
// It stays there: the browser opens it when this process has ended.
func pageFile(of string, write func(io.Writer) error) (string, error) {
	dir, err := os.MkdirTemp("", "whylate-")
	if err != nil {
		return "", fmt.Errorf("make room for the page: %w", err)
	}
	name := strings.TrimSuffix(filepath.Base(of), ".whylate")
	page := filepath.Join(dir, "whylate-"+notInName.ReplaceAllString(name, "_")+".html")
	if err := output.File(page, write); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return page, nil
}

// openPage has a browser show a file.
func openPage(page string) error {
	var words []string
	switch {
	case os.Getenv("BROWSER") != "":
		words = strings.Fields(os.Getenv("BROWSER"))
	case runtime.GOOS == "darwin":
		words = []string{"open"}
	case runtime.GOOS == "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return errors.New("there is no screen (neither DISPLAY nor WAYLAND_DISPLAY is set)")
	default:
		words = []string{"xdg-open"}
	}
	if len(words) == 0 {
		return errors.New("BROWSER is empty")
	}
	c := exec.Command(words[0], append(words[1:], page)...)
	if err := c.Start(); errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no program %s", words[0])
	} else if err != nil {
		return err
	}
	return c.Process.Release() // it is the user's now
}
