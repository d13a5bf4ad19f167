package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/report/redact"
)

func newRedact() *cobra.Command {
	var output, salt, table string
	cmd := &cobra.Command{
		Use:   "redact FILE",
		Short: "Write a copy of a recording that can be given to strangers",
		Long: `Write a copy of FILE, an incident (*.whylate) or a Go execution trace, in which names
that are your own are hashes: functions, packages, files, modules, tasks, regions,
labels, log lines, statements, addresses and paths. The copy is diagnosed like the
original. Names of the standard library and of well-known libraries stay, since the
rules go by them; so do times, numbers and lines. What becomes of each part stands in
docs/privacy.md.

The hashes have a random key each time, unless --salt gives one: who knows it can try
names. --map keeps the names for yourself, to read what strangers answer.`,
		Args: args(1, "FILE"),
		RunE: func(cmd *cobra.Command, a []string) error {
			if err := wantFile(cmd, a[0]); err != nil {
				return err
			}
			if output == "" {
				output = redactedName(a[0])
			}
			if err := apart(a[0], output, table); err != nil {
				return usageError{err}
			}
			in, err := evidence.Open(a[0], evidence.Options{MaxTrace: diagnose.MaxTrace})
			if err != nil {
				return err
			}
			defer in.Close()
			r, err := writeRedacted(in, output, table, redact.Options{Salt: salt})
			if err != nil {
				return err
			}
			printRedacted(cmd.OutOrStdout(), r, output)
			if table != "" && r.Unlisted > 0 {
				complain(cmd.ErrOrStderr(), fmt.Sprintf("%d strings more were hashed than %s lists", r.Unlisted, table))
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&output, "output", "o", "", "the `file` to write; default FILE.redacted.whylate")
	fs.StringVar(&salt, "salt", "", "the key of the hashes, a long `secret`: with it the same names get the same hashes in several incidents")
	fs.StringVar(&table, "map", "", "write to this `file` which hash stands for which name; keep it")
	return cmd
}

// redactedName is the name of a copy if none was given.
func redactedName(name string) string {
	for _, ext := range []string{".whylate", ".gz", ".trace", ".out"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name + ".redacted.whylate"
}

// apart makes sure that no file is written over another one of the same command.
func apart(input, output, table string) error {
	same := func(a, b string) bool {
		x, err1 := os.Stat(a)
		y, err2 := os.Stat(b)
		return err1 == nil && err2 == nil && os.SameFile(x, y) || filepath.Clean(a) == filepath.Clean(b)
	}
	switch {
	case output == "-":
		return errors.New("a copy is a file, nothing for standard output: -o FILE")
	case same(input, output):
		return fmt.Errorf("%s would be written over itself: -o FILE", input)
	case table == "":
		return nil
	case same(input, table), same(output, table):
		return fmt.Errorf("--map %s is the recording or its copy", table)
	}
	if st, err := os.Stat(table); err == nil && !st.Mode().IsRegular() {
		return fmt.Errorf("--map %s is there, and no regular file", table)
	}
	return nil
}

// writeRedacted writes the copy and, if it has a name, the table of the names: both or none.
func writeRedacted(in *evidence.Incident, output, table string, o redact.Options) (r *redact.Result, err error) {
	w, err := evidence.Create(output)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	if r, err = redact.Incident(in, w, o); err != nil {
		return nil, err
	}
	if table == "" {
		return r, w.Close()
	}
	f, err := os.CreateTemp(filepath.Dir(table), ".whylate-*") // for its owner alone
	if err != nil {
		var file *fs.PathError // it has a name that nobody asked for
		if errors.As(err, &file) {
			file.Op, file.Path = "create", table
		}
		return nil, err
	}
	defer os.Remove(f.Name()) // it has another name by then, if all went well
	e := json.NewEncoder(f)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := errors.Join(e.Encode(r.Names), f.Close()); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := os.Rename(f.Name(), table); err != nil {
		return nil, errors.Join(err, os.Remove(output)) // nobody could read an answer to it
	}
	return r, nil
}

// printRedacted says what was hashed, and what is not in the copy.
func printRedacted(w io.Writer, r *redact.Result, output string) {
	for _, m := range r.Members {
		fmt.Fprintf(w, "%-20s %6d names hashed, %6d kept\n", m.Name, m.Hashed, m.Kept)
	}
	for _, d := range r.Dropped {
		fmt.Fprintf(w, "left out: %s: %s\n", report.Quote(d.What), report.Quote(d.Why))
	}
	fmt.Fprintf(w, "%s\nwhylate diagnose %s\n", report.Quote(output), pprofhttp.Shell(report.Quote(output)))
}
