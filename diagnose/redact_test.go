package diagnose

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/internal/unpack"
	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/report/redact"
	"github.com/whylate/whylate/request"
)

// copied is the redacted copy of an incident.
func copied(t *testing.T, path string) (string, *redact.Result) {
	t.Helper()
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := filepath.Join(t.TempDir(), "copy.whylate")
	w, err := evidence.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	r, err := redact.Incident(in, w, redact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out, r
}

// Whoever reads a copy, and its owner, can follow the advice in it.
func TestAdviceIsTheSameInACopy(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	_, err := pprofhttp.Connect(t.Context(), pprofhttp.Target{URL: closed.URL}, pprofhttp.Options{})
	var gone *pprofhttp.Error
	if !errors.As(err, &gone) {
		t.Fatal(err)
	}
	advice := []string{AddEndpoint, gone.Advice}
	for _, err := range []error{host.ErrNotLocal, errNoCommandLine, host.ErrOtherProcess, host.ErrNoProcess, os.ErrPermission} {
		advice = append(advice, hostCommand(err, 12345))
	}
	path := filepath.Join(t.TempDir(), "a.whylate")
	w, err := evidence.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range advice {
		notRecorded(w, HostEvidence, "nobody asked", a)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, _ := copied(t, path)
	in, err := evidence.Open(out, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for i, a := range advice {
		if got := in.Manifest.NotRecorded[i].Command; got != a {
			t.Errorf("%q: %q", a, got)
		}
	}
}

// named are the fields of a diagnosis that hold names, or sentences with names in them.
var named = regexp.MustCompile(`^(sentence|summary|evidence|fix|verify|because|leaf|endpoint|asks|class|where|why|command|what|notes|target|found_by|cost|record|kernel|lost)$`)

// unnamed returns a diagnosis without names, and how many numbers and words are left to compare.
func unnamed(t *testing.T, d *report.Diagnosis) (any, int) {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	n := 0
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if named.MatchString(k) {
					delete(v, k)
				} else {
					strip(x)
				}
			}
		case []any:
			for _, x := range v {
				strip(x)
			}
		default:
			n++
		}
	}
	strip(v)
	return v, n
}

func TestACopyWithoutNamesGetsTheSameDiagnosis(t *testing.T) {
	gs := some(t)
	if len(gs) == 0 {
		t.Fatal("there are no golden incidents")
	}
	for i, g := range gs {
		t.Run(filepath.Base(g.path), func(t *testing.T) {
			t.Parallel()
			path, r := copied(t, g.path)
			before, after := diagnosed(t, g.path), diagnoseFile(t, path)
			want, n := unnamed(t, before)
			got, _ := unnamed(t, after)
			if a, b := fmt.Sprint(want), fmt.Sprint(got); a != b || n < 50 {
				t.Errorf("of %d values some differ:\n%s\n%s", n, a, b)
			}
			places(t, before, after, r)
			if !need.Raced || i%4 == 0 {
				survivors(t, g.path, path, r)
			}
		})
	}
}

// places compares where the causes are: the owner finds the function by the table of names.
func places(t *testing.T, before, after *report.Diagnosis, r *redact.Result) {
	t.Helper()
	for i := range min(len(before.Findings), len(after.Findings)) {
		a, b := before.Findings[i].Where, after.Findings[i].Where
		if (a == nil) != (b == nil) {
			t.Errorf("%s: a place %v, %v before", before.Findings[i].Cause, b, a)
		}
		if a == nil || b == nil {
			continue
		}
		name := hashes.ReplaceAllStringFunc(b.Function, func(h string) string {
			if name, ok := r.Names[h]; ok {
				return name
			}
			return h
		})
		if name != a.Function || b.Line != a.Line {
			t.Errorf("%s: in %s:%d, %s:%d before", before.Findings[i].Cause, name, b.Line, a.Function, a.Line)
		}
	}
}

// hashes are what stands for names.
var hashes = regexp.MustCompile(`\b[xX][a-z2-7]{9}\b`)

// parts are what names are made of.
var parts = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]{2,}`)

// survivors looks for names of the original in the bytes of each member of the copy.
func survivors(t *testing.T, original, path string, r *redact.Result) {
	t.Helper()
	ours, err := os.ReadFile("../report/redact/words.txt") // those of whylate's messages, and of the keys of JSON
	if err != nil {
		t.Fatal(err)
	}
	// What may stand there: words in what is published, and in what whylate itself writes.
	public, own := map[string]bool{}, map[string]bool{}
	functions(t, original, func(fn, file string) {
		assembler := strings.HasSuffix(file, ".s") // its functions have no package
		if assembler || nobodys.MatchString(fn) || request.Standard(fn) || request.Published(fn) || blame.Known(fn) || cause.CallsDependency(fn) {
			for _, w := range parts.FindAllString(fn+" "+file, -1) {
				public[w] = true
			}
			return
		}
		own[fn] = true
		if !strings.HasPrefix(file, "<") && !request.Standard(file) {
			own[file] = true
		}
	})
	if len(own) < 2 {
		t.Errorf("only %d names are the program's own", len(own))
	}
	names := map[string]bool{}
	for _, name := range r.Names {
		if w := parts.FindString(name); w == name && !public[w] {
			names[w] = true
		} else if len(name) > 12 && w != name {
			own[name] = true
		}
	}
	for member, data := range members(t, path) {
		for name := range own {
			if bytes.Contains(data, []byte(name)) {
				t.Errorf("%s holds %q", member, name)
			}
		}
		for _, w := range parts.FindAll(data, -1) {
			if names[string(w)] && (strings.HasSuffix(member, ".gz") || member == evidence.MemberTrace || !strings.Contains(string(ours), "\n"+strings.ToLower(string(w))+"\n")) {
				t.Errorf("%s holds the word %q", member, w)
			}
		}
	}
}

// nobodys are functions that every program has, and closures in them.
var nobodys = regexp.MustCompile(`^(|main\.(main|init)(\.(func|gowrap|deferwrap)?[0-9]+)*)$`)

// functions calls do with each function in the trace and the profiles of an incident.
func functions(t *testing.T, path string, do func(fn, file string)) {
	t.Helper()
	all := members(t, path)
	r, err := gotrace.NewReader(bytes.NewReader(all[evidence.MemberTrace]))
	if err != nil {
		t.Fatal(err)
	}
	var ev gotrace.Event
	for err == nil {
		if err = r.Next(&ev); err == nil && ev.Kind != gotrace.KindTaskBegin && ev.Kind != gotrace.KindTaskEnd && ev.Kind != gotrace.KindRegionBegin && ev.Kind != gotrace.KindRegionEnd {
			do("", ev.Reason+" "+ev.Name) // words of the runtime
		}
	}
	for i := range r.Stacks().Len() {
		for _, f := range r.Stacks().Frames(gotrace.StackID(i)) {
			do(f.Func, f.File)
		}
	}
	for name, data := range all {
		if !strings.HasSuffix(name, ".pb.gz") {
			continue
		}
		p, err := profile.ParseUncompressed(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range p.Function {
			do(f.Name, f.Filename)
		}
	}
}

// members are those of an incident, unpacked to the last.
func members(t *testing.T, path string) map[string][]byte {
	t.Helper()
	out, err := unpack.Zip(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
