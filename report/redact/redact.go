// Package redact makes a copy of an incident that may be given to strangers: names that are
// the user's own are replaced by hashes, and the copy is diagnosed like the original.
//
// What stays is a rule or a list, what is hashed is everything else: a name stays if it is of
// the standard library or of a published library that a table of the analysis names (the
// rules go by these names), or if it is in the vocabulary of the runtime or of whylate itself.
// Members are read as what they are and written anew, so that nothing passes which this
// version does not understand; a member of an unknown kind is left out. docs/privacy.md lists
// member by member what becomes of it.
//
// The package stands among the reports, as package export does: it writes an incident for
// somebody else, and needs the tables of packages request, blame and cause to know which names
// the analysis goes by.
package redact

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
)

// Options say how names are hashed.
type Options struct {
	// Salt is the key of the hashes: the same salt gives the same name the same hash, in any
	// incident. Who knows it can try names, so it has to be long and is nobody else's. Empty
	// means a random one that nobody knows.
	Salt string
}

// Result says what was done.
type Result struct {
	// Members are those that were written, in the order of the incident.
	Members []Member
	// Dropped are the members, and the parts of members, that are not in the copy.
	Dropped []Dropped
	// Names are the names that were hashed, by their hashes: for the owner of the incident.
	Names map[string]string
	// Unlisted is how many hashed strings are not in Names, because there were too many of them.
	Unlisted int64
}

// Member says what became of a member.
type Member struct {
	Name string
	// Hashed is how many different names were hashed in it, Kept how many different ones stay.
	Hashed, Kept int64
}

// Dropped is what is not in the copy, and why.
type Dropped struct{ What, Why string }

// redactor is the state of one redaction. It is for one goroutine.
type redactor struct {
	*names
	in     *evidence.Incident
	result Result
}

// Incident writes the copy of in to w, all but its end: the caller closes or aborts w, and
// closes in. It reads each member once, the trace twice. Errors are those of reading in, of
// writing w, and [gotrace.CorruptError] for a trace that is damaged.
func Incident(in *evidence.Incident, w *evidence.Writer, o Options) (*Result, error) {
	names, err := newNames(o.Salt)
	if err != nil {
		return nil, err
	}
	r := &redactor{names: names, in: in}
	sizes := map[string]int64{}
	for _, name := range in.Members() {
		if name == evidence.MemberManifest {
			continue
		}
		size, err := r.member(w, name)
		if err != nil {
			return nil, fmt.Errorf("redact member %s: %w", name, err)
		}
		if size > 0 {
			sizes[name] = size
		}
	}
	for range in.Unknown {
		r.drop("a member of an unknown name", "this version does not know what is in it")
	}
	r.begin()
	m := r.manifest(&in.Manifest, sizes)
	r.end(evidence.MemberManifest)
	w.Edit(func(to *evidence.Manifest) { *to = m })
	r.result.Names, r.result.Unlisted = r.byHash, r.unlisted
	return &r.result, nil
}

func (r *redactor) begin() { r.count, r.kept = 0, 0; r.round++ }

func (r *redactor) end(name string) {
	r.result.Members = append(r.result.Members, Member{Name: name, Hashed: r.count, Kept: r.kept})
}

func (r *redactor) drop(what, why string) {
	r.result.Dropped = append(r.result.Dropped, Dropped{what, why})
}

// unread is why members stay behind that nobody needs or nobody can hash.
var unread = map[string]string{
	evidence.MemberDiagnosis: "its sentences are made of names; whylate diagnose makes it anew",
	evidence.MemberMetrics:   "this version does not know what is in it",
	evidence.MemberWire:      "this version does not know what is in it",
}

// member writes one member and returns its size; 0 if it was left out.
func (r *redactor) member(w *evidence.Writer, name string) (int64, error) {
	if why := unread[name]; why != "" {
		r.drop(name, why)
		return 0, nil
	}
	r.begin()
	if name == evidence.MemberTrace {
		return r.trace(w)
	}
	source, err := r.in.Member(name)
	if unreadable(err) {
		return 0, err
	}
	if err != nil {
		r.drop(name, "it cannot be read: "+r.reason(err))
		return 0, nil
	}
	defer source.Close()
	read := &tracked{r: source}
	var out bytes.Buffer
	var bad error
	switch name {
	case evidence.MemberHost:
		bad = r.host(&out, read)
	case evidence.MemberKernel:
		bad = r.kernel(&out, read)
	case evidence.MemberDependency:
		bad = r.dependency(&out, read)
	case evidence.MemberAppLog:
		bad = r.log(&out, read)
	default:
		bad = r.profile(&out, read)
	}
	if bad == nil || read.err == nil { // to its end, where its sum is checked
		_, _ = io.Copy(io.Discard, read)
	}
	switch {
	case unreadable(read.err):
		return 0, read.err
	case read.err != nil: // as for one that makes no sense: the trace alone is worth a copy
		r.drop(name, "it cannot be read: "+r.reason(read.err))
		return 0, nil
	case bad != nil:
		r.drop(name, "it cannot be read: "+r.reason(bad))
		return 0, nil
	case out.Len() == 0:
		return 0, nil
	}
	size := int64(out.Len())
	if err := put(w, name, func(to io.Writer) error { _, err := out.WriteTo(to); return err }); err != nil {
		return 0, err
	}
	r.end(name)
	return size, nil
}

// unreadable reports whether it was not the content of a member that is damaged, but the file
// could not be read.
func unreadable(err error) bool {
	var file *fs.PathError
	return errors.As(err, &file)
}

// reason is the kind of an error: its text may quote the member.
func (r *redactor) reason(err error) string {
	for _, kind := range []error{evidence.ErrTooLarge, evidence.ErrVersion, evidence.ErrMalformed} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return "it is not what its name says"
}

func put(w *evidence.Writer, name string, write func(io.Writer) error) error {
	m, err := w.Member(name)
	if err != nil {
		return err
	}
	return errors.Join(write(m), m.Close())
}

// trace writes the trace.
func (r *redactor) trace(w *evidence.Writer) (size int64, err error) {
	var done gotrace.Rewritten
	err = put(w, evidence.MemberTrace, func(to io.Writer) error {
		out := &counting{w: to}
		done, err = gotrace.Rewrite(out, func() (io.ReadCloser, error) { return r.in.Member(evidence.MemberTrace) }, r.traced)
		size = out.n
		return err
	})
	if err != nil {
		return 0, err
	}
	if done.Cut > 0 {
		if r.in.Kind != evidence.KindIncident { // nobody knew when it was written
			return 0, &gotrace.CorruptError{Offset: size, Err: errors.New("the end is missing; copy the file again and compare the sizes")}
		}
		r.drop(fmt.Sprintf("the last %d bytes of the trace", done.Cut), "its recording ended within them")
	}
	if done.Dropped > 0 {
		r.drop(fmt.Sprintf("%d batches of experiments in the trace", done.Dropped), "they hold names of types")
	}
	r.end(evidence.MemberTrace)
	return size, nil
}

// traced gives the strings of the trace by what they are for; without a use they are none.
// A word of the runtime stays even if it is the name of a task, and does so in each generation:
// else the task would have two names.
func (r *redactor) traced(u gotrace.Use, s string) string {
	switch {
	case u == 0:
		return ""
	case u&gotrace.UseWord != 0 && isWord(s), runtimeWords[s]:
		return r.keep(s)
	case u&gotrace.UseFunc != 0:
		return r.bounded(r.symbol(s), s)
	case u&gotrace.UseFile != 0:
		return r.bounded(r.file(s), s)
	}
	return r.name(s)
}

// bounded keeps what has become too long for a trace apart from others: by a hash of all of
// it, with the last element behind it where rules may go by that.
func (r *redactor) bounded(out, s string) string {
	if len(out) <= gotrace.MaxString {
		return out
	}
	return r.name(s) + suffix(s)
}

// isWord reports whether a text can be the runtime's: a few words of ASCII.
func isWord(s string) bool {
	for _, c := range s {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return len(s) <= 64
}

// log hashes each line of the program's log: it stays visible how many there are, and which
// are equal.
func (r *redactor) log(w io.Writer, from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLogLine)
	for n := 1; lines.Scan(); n++ {
		if n > maxLogLines {
			return fmt.Errorf("more than %d lines: %w", maxLogLines, evidence.ErrTooLarge)
		}
		fmt.Fprintln(w, r.name(lines.Text()))
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read lines: %w: %w", evidence.ErrMalformed, err)
	}
	return nil
}

// maxLogLine bounds a line in bytes, and maxLogLines how many there are: a hash is longer than a
// short line, and every different one is kept.
const (
	maxLogLine  = 1 << 20
	maxLogLines = 500_000
)

// tracked keeps the first error of a reader that is not its end.
type tracked struct {
	r   io.Reader
	err error
}

func (t *tracked) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if err != nil && err != io.EOF && t.err == nil {
		t.err = err
	}
	return n, err
}

type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// known returns s if it is one of a list, and its hash if not.
func (r *redactor) known(s string, list ...string) string {
	if s == "" || slices.Contains(list, s) {
		return r.keep(s)
	}
	return r.name(s)
}
