package redact

import (
	_ "embed"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/request"
)

// standardPackages are the import paths of the standard library of Go 1.22 to 1.26, those of
// its internal packages included.
var standardPackages = lines(standardText)

//go:embed std.txt
var standardText string

func lines(text string) map[string]bool {
	m := map[string]bool{}
	for l := range strings.Lines(text) {
		m[strings.TrimSpace(l)] = true
	}
	return m
}

// symbol returns the name of a function that may be given away. What tools and rules read
// from a name stays: that it is of main, what is a package, a receiver, a method, a type
// argument, a closure, and that it is exported.
func (r *redactor) symbol(s string) string {
	stays, ok := r.stays[s]
	if ok && stays {
		return r.keep(s)
	}
	out := r.renamed(s)
	if !ok && len(s) <= maxCached {
		if len(r.stays) >= maxSeen {
			clear(r.stays)
		}
		r.stays[strings.Clone(s)] = out == s
	}
	if out == s {
		return r.keep(s)
	}
	return out
}

// compilers are prefixes of functions that the compiler makes for a type.
var compilers = []string{"type:.eq.", "type:.hash.", "type..eq.", "type..hash."}

func (r *redactor) renamed(s string) string {
	if s == "" || s == notGo {
		return s
	}
	for _, p := range compilers {
		if rest, ok := strings.CutPrefix(s, p); ok {
			return p + r.identifiers(rest)
		}
	}
	pkg, rest := cutPackage(s)
	switch {
	case published(s, pkg):
		return r.arguments(s)
	case assembler[s]:
		return s
	case rest == "" && !strings.Contains(pkg, "/"): // of C
		return r.identifiers(s)
	case pkg == "main":
		return pkg + r.identifiers(rest)
	}
	first := ""
	if request.Standard(s) { // it stands where the standard library does, and is not of it
		if root, inner, ok := strings.Cut(pkg, "/"); ok {
			first, pkg = root+"/", inner
		}
	}
	return first + r.path(pkg) + r.identifiers(rest)
}

// assembler are functions of the standard library that have no package. Source: the assembler
// of Go 1.26.
var assembler = set(`aeshashbody callRet cmpbody countbody crosscall1 crosscall2 debugCall gogo gosave_systemstack_switch indexbody
	indexbytebody memeqbody setg_gcc spillArgs unspillArgs _rt0_amd64 _rt0_amd64_linux _rt0_arm64_linux _cgo_topofstack`)

// notGo is what kernel events have in the place of functions that are not Go's.
const notGo = "[not Go]"

// cutPackage cuts the name of a function behind its import path.
func cutPackage(s string) (pkg, rest string) {
	head := s
	if i := strings.IndexAny(s, "[("); i >= 0 {
		head = s[:i]
	}
	slash := strings.LastIndexByte(head, '/') + 1
	if dot := strings.IndexByte(s[slash:], '.'); dot >= 0 {
		return s[:slash+dot], s[slash+dot:]
	}
	return s, ""
}

// published reports whether a function is of the standard library or of a library that a
// table of the analysis names.
func published(s, pkg string) bool {
	if request.Standard(s) {
		return standardPackage(pkg)
	}
	return tabled(s)
}

func tabled(s string) bool {
	return request.Published(s) || blame.Known(s) || cause.CallsDependency(s)
}

// standardPackage reports whether an import path is of the standard library; packages below
// internal ones may be of a later version.
func standardPackage(pkg string) bool {
	if standardPackages[pkg] || strings.HasPrefix(pkg, "internal/") || strings.HasPrefix(pkg, "vendor/golang.org/") {
		return true
	}
	before, _, ok := strings.Cut(pkg+"/", "/internal/")
	return ok && standardPackages[before]
}

// arguments returns a name that stays, without its type arguments.
func (r *redactor) arguments(s string) string {
	i := strings.IndexByte(s, '[')
	if i < 0 {
		return s
	}
	n := closing(s[i:])
	if s[i+1:i+n] == "..." {
		return s[:i+n] + r.arguments(s[i+n:])
	}
	return s[:i] + "[" + r.name(s[i+1:i+n]) + r.arguments(s[i+n:])
}

// identifiers hashes the identifiers in the name of a function behind its import path, and type
// arguments as a whole.
func (r *redactor) identifiers(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] == '[' {
			end := closing(s[i:])
			if inner := s[i+1 : i+end]; inner == "..." {
				b.WriteString("[...]")
			} else {
				b.WriteString("[" + r.name(inner) + "]")
			}
			i = min(i+end+1, len(s))
			continue
		}
		n := run(s[i:])
		if n == 0 {
			b.WriteByte(s[i])
			i++
			continue
		}
		word := s[i : i+n]
		switch c, called := strings.CutPrefix(word, "_Cfunc_"); {
		case called:
			b.WriteString("_Cfunc_" + r.name(c))
		case strings.HasPrefix(word, "_C2func_"):
			b.WriteString("_C2func_" + r.name(word[len("_C2func_"):]))
		case structural(word), word == "fm" && i > 0 && s[i-1] == '-':
			b.WriteString(word)
		default:
			b.WriteString(r.name(word))
		}
		i += n
	}
	return b.String()
}

// closing returns where the bracket is closed that s begins with, or its length.
func closing(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(s)
}

// run returns the length of the identifier or number that s begins with. What is no ASCII may
// be a letter.
func run(s string) int {
	n := 0
	for n < len(s) {
		c, size := utf8.DecodeRuneInString(s[n:])
		if c != '_' && c < utf8.RuneSelf && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			break
		}
		n += size
	}
	return n
}

// structural reports whether an identifier is the compiler's, or one that rules go by: methods
// that serve HTTP, and those that write below a logger.
func structural(word string) bool {
	switch word {
	case "ServeHTTP", "Write", "init", "main", "glob":
		return true
	}
	for _, p := range []string{"", "func", "gowrap", "deferwrap", "range"} {
		if n, ok := strings.CutPrefix(word, p); ok && n != "" && len(n) <= 4 && strings.Trim(n, "0123456789") == "" {
			return true
		}
	}
	return false
}

// suffix is the end of a function's name that rules go by, if it has one.
func suffix(s string) string {
	for _, end := range []string{".ServeHTTP", ".ServeHTTP-fm", ").Write", "-fm"} {
		if strings.HasSuffix(s, end) {
			return end
		}
	}
	return ""
}

// path hashes the elements of an import path or of a path of files.
func (r *redactor) path(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexAny(s, `/\`)
		if i < 0 {
			b.WriteString(r.element(s))
			break
		}
		b.WriteString(r.element(s[:i]))
		b.WriteByte(s[i])
		s = s[i+1:]
	}
	return b.String()
}

func (r *redactor) element(s string) string {
	switch {
	case s == "" || s == "." || s == "..", len(s) == 2 && s[1] == ':', len(s) < 4 && s[0] == 'v' && structural(s[1:]):
		return s
	case s == "vendor": // rules tell a program's own files from those of its modules
		return s
	}
	if module, version, ok := strings.Cut(s, "@v"); ok && version != "" && version[0] >= '0' && version[0] <= '9' {
		return r.element(module) + "@v0"
	}
	return r.name(s)
}

// sources are the endings of files that stay.
var sources = map[string]bool{".go": true, ".s": true, ".c": true, ".h": true, ".cc": true, ".cpp": true, ".so": true}

// file returns the name of a file of source that may be given away: those of the standard
// library and of known libraries from their import path on.
func (r *redactor) file(s string) string {
	if s == "" || s == "<autogenerated>" || s == "[vdso]" || s == "[vsyscall]" || s == "??" {
		return r.keep(s)
	}
	if dir, _ := path.Split(s); standardPackages[strings.TrimSuffix(dir, "/")] {
		return r.keep(s) // built with -trimpath
	}
	if i := strings.LastIndex(s, "/src/"); i >= 0 && toolchain(path.Base(s[:i])) {
		if dir, _ := path.Split(s[i+len("/src/"):]); standardPackages[strings.TrimSuffix(dir, "/")] {
			return r.path(s[:i]) + r.keep(s[i:])
		}
	}
	at := 0
	for _, mark := range []string{"/pkg/mod/", "/vendor/"} {
		if i := strings.LastIndex(s, mark); i >= 0 {
			at = i + len(mark)
		}
	}
	if library(s[at:]) {
		return r.path(s[:at]) + r.keep(s[at:])
	}
	base := s[strings.LastIndexAny(s, `/\`)+1:]
	ext := path.Ext(base)
	if !sources[ext] {
		return r.path(s)
	}
	return r.path(strings.TrimSuffix(s, base)) + r.element(strings.TrimSuffix(base, ext)) + ext
}

// toolchain reports whether a folder may hold a toolchain of Go.
func toolchain(base string) bool {
	return base == "go" || strings.HasPrefix(base, "go1.") || strings.HasPrefix(base, "go-1.") || strings.HasPrefix(base, "toolchain@") || base == "x64"
}

// library reports whether a file, from its import path on, is of a library that tables name.
func library(s string) bool {
	dir, _ := path.Split(s)
	var b strings.Builder
	for i, e := range strings.Split(strings.TrimSuffix(dir, "/"), "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		e, _, _ = strings.Cut(e, "@")
		b.WriteString(e)
	}
	return tabled(b.String() + ".x")
}
