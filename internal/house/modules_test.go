package house

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// A directive is one line of a go.mod or go.work, with the verb of its block.
type directive struct{ verb, rest string }

// directives reads the line grammar shared by go.mod and go.work
// (https://go.dev/ref/mod#go-mod-file-grammar).
func directives(file string) []directive {
	var out []directive
	block := ""
	for line := range strings.Lines(file) {
		line, _, _ = strings.Cut(line, "//")
		f := strings.Fields(strings.ReplaceAll(line, "(", " ( "))
		switch {
		case len(f) == 0:
		case block != "" && f[0] == ")":
			block = ""
		case block != "":
			out = append(out, directive{block, strings.Join(f, " ")})
		case len(f) > 1 && f[1] == "(":
			block = f[0]
		default:
			out = append(out, directive{f[0], strings.Join(f[1:], " ")})
		}
	}
	return out
}

func values(ds []directive, verb string) []string {
	var out []string
	for _, d := range ds {
		if d.verb == verb {
			out = append(out, d.rest)
		}
	}
	return out
}

// installable returns what is wrong with the three files that decide whether
// `go install` and users of the sdk get what we tested.
func installable(root, sdk, work string) []string {
	var wrong []string
	check := func(ok bool, s string) {
		if !ok {
			wrong = append(wrong, s)
		}
	}
	r, s, w := directives(root), directives(sdk), directives(work)
	check(len(values(r, "replace")) == 0, "go.mod: replace: go install of a version refuses it")
	check(len(values(s, "replace")) == 0, "sdk/go.mod: replace: users' builds ignore it")
	check(len(values(w, "replace")) == 0, "go.work: replace: it hides what users get")
	check(len(values(s, "require")) == 0, "sdk/go.mod: require: the sdk is standard library only")
	check(len(values(r, "toolchain"))+len(values(s, "toolchain")) == 0, "toolchain: it would make users download one")
	check(slices.Equal(values(r, "module"), []string{module}), "go.mod: module")
	check(slices.Equal(values(s, "module"), []string{module + "/sdk"}), "sdk/go.mod: module")
	check(len(values(r, "go")) == 1 && strings.HasPrefix(values(r, "go")[0]+".", "1.25."), "go.mod: the go line is not 1.25")
	check(slices.Equal(values(s, "go"), []string{"1.22"}), "sdk/go.mod: the go line is not 1.22: a higher one changes users' GODEBUG defaults")
	check(slices.Equal(values(w, "use"), []string{".", "./sdk"}), "go.work: it uses the root and the sdk, nothing else")
	for _, d := range values(r, "require") {
		name, _, _ := strings.Cut(d, " ")
		check(name != module+"/sdk" && !strings.HasPrefix(name, module+"/incidents"), "go.mod: require "+name)
	}
	return wrong
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(path.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheModulesCanBeInstalledAsTheyAre(t *testing.T) {
	for _, w := range installable(read(t, "go.mod"), read(t, "sdk/go.mod"), read(t, "go.work")) {
		t.Error(w)
	}
}

func TestTheModuleCheckSeesWhatItShould(t *testing.T) {
	const (
		root = "module " + module + "\n\ngo 1.25.0\nrequire example.org/a v1.0.0 // indirect\n"
		sdk  = "module " + module + "/sdk\ngo 1.22\n"
		work = "go 1.25.0\nuse (\n\t.\n\t./sdk\n)\n"
	)
	for _, c := range []struct{ name, root, sdk, work, want string }{
		{"good ones", root, sdk, work, ""},
		{"a comment is no directive", root + "// replace a => b\n", sdk, work, ""},
		{"replace on a line", root + "replace a => ../a\n", sdk, work, "go.mod: replace"},
		{"replace in a block", root + "replace (\n\ta => ../a\n)\n", sdk, work, "go.mod: replace"},
		{"replace in a block without a space", root + "replace(\n\ta => ../a\n)\n", sdk, work, "go.mod: replace"},
		{"replace in the sdk", root, sdk + "replace a => ../a\n", work, "sdk/go.mod: replace"},
		{"replace in the workspace", root, sdk, work + "replace a => ../a\n", "go.work: replace"},
		{"a requirement of the sdk", root, sdk + "require (\n\texample.org/a v1.0.0\n)\n", work, "sdk/go.mod: require"},
		{"the root requires the sdk", root + "require " + module + "/sdk v0.1.0\n", sdk, work, "go.mod: require " + module + "/sdk"},
		{"a higher go line in the sdk", root, strings.Replace(sdk, "1.22", "1.25", 1), work, "sdk/go.mod: the go line"},
		{"a toolchain line", root + "toolchain go1.26.8\n", sdk, work, "toolchain"},
		{"another module in the workspace", root, sdk, strings.Replace(work, "./sdk\n", "./sdk\n\t./incidents\n", 1), "go.work: it uses"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong := installable(c.root, c.sdk, c.work)
			switch {
			case c.want == "" && len(wrong) > 0:
				t.Errorf("reported: %q", wrong)
			case c.want != "" && (len(wrong) != 1 || !strings.HasPrefix(wrong[0], c.want)):
				t.Errorf("got %q, want one that begins with %q", wrong, c.want)
			}
		})
	}
}

// The sdk's users get its dependencies, too: there are none.
func TestTheSDKImportsTheStandardLibraryOnly(t *testing.T) {
	files := 0
	err := imports(os.DirFS("../../sdk"), func(file string, paths []string) {
		files++
		for _, p := range paths {
			first, _, _ := strings.Cut(p, "/")
			if strings.Contains(first, ".") && p != module+"/sdk" && !strings.HasPrefix(p, module+"/sdk/") {
				t.Errorf("sdk/%s imports %s", file, p)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Error("no file was looked at")
	}
}
