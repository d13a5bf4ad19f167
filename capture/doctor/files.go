package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// maxText bounds what is read of a text. /proc/PID/environ is the largest, up to
// a quarter of the stack limit: 2 MiB by default.
const maxText = 4 << 20

// files is a machine's file tree; names have no leading slash.
type files struct{ fs fs.FS }

// text returns a file's content. More than maxText bytes are an error, not a cut.
func (f files) text(name string) (string, error) {
	file, err := f.fs.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxText+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxText {
		return "", fmt.Errorf("/%s is larger than %d MiB", name, maxText>>20)
	}
	return string(b), nil
}

// value returns a file's content without white space around it, "" if it cannot
// be read.
func (f files) value(name string) string {
	s, err := f.text(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(s)
}

// number returns the number that a file consists of.
func (f files) number(name string) (int64, error) {
	s, err := f.text(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(s), 10, 64)
}

// link returns where a symbolic link points, "" if it cannot be read.
func (f files) link(name string) string {
	s, err := fs.ReadLink(f.fs, name)
	if err != nil {
		return ""
	}
	return s
}

// exists reports whether there is such a file.
func (f files) exists(name string) bool {
	_, err := fs.Stat(f.fs, name)
	return err == nil
}

// fields returns the lines of /proc/PID/status and the like as a table. Of a
// repeated key the first stands: the name of a process, which it may choose, comes
// first and cannot hold a line break.
func fields(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if _, seen := m[key]; ok && !seen {
			m[key] = strings.TrimSpace(value)
		}
	}
	return m
}

// option returns the chosen one of "always [madvise] never".
func option(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	chosen, _, ok := strings.Cut(rest, "]")
	if !ok {
		return ""
	}
	return chosen
}

// maxList bounds the CPUs and nodes that a list may name: the kernel's own bound
// of CPUs is 8,192 (CONFIG_NR_CPUS).
const maxList = 1 << 16

// listLen returns how many a list such as "0-3,8" names, 0 if it is none.
func listLen(list string) int {
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(to)
		}
		if err != nil || a < 0 || b < a || b >= maxList {
			return 0
		}
		n += b - a + 1
	}
	return min(n, maxList)
}

// distinct joins words, each once and in order.
func distinct(words []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(words))), ", ")
}

// because is a short reason for an error of reading.
func because(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "not permitted"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return "not there"
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
