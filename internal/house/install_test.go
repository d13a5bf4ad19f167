package house

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	modmodule "golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"github.com/whylate/whylate/internal/need"
)

// released is the version that tests give the commit they are run on.
const released = "v0.1.0"

// commit returns the folder of the repository, and its commit, which is what the
// tests of this file install: changes that are not committed are not in it.
func commit(t *testing.T) (root, revision string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out, err := git(root, "rev-parse", "HEAD")
	need.Feature(t, "git", err)
	return root, strings.TrimSpace(out)
}

// git runs git in a folder, whoever owns it.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = trusting(os.Environ())
	return output(cmd)
}

// trusting returns an environment in which git reads a checkout of somebody else.
func trusting(env []string) []string {
	return append(env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
}

// output returns what a command prints; its error has what it printed as an error.
func output(cmd *exec.Cmd) (string, error) {
	b, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, exit.Stderr)
	}
	return string(b), err
}

// serve makes a module proxy of files (https://go.dev/ref/mod#goproxy-protocol) for one
// version of a module, of what the commit has in a folder of the repository. It returns
// the names in the module's archive.
func serve(t *testing.T, proxy, path, root, revision, folder string) []string {
	t.Helper()
	dir := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, released+".zip")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	// As module proxies do it: of git archive, without nested modules.
	if err := modzip.CreateFromVCS(f, modmodule.Version{Path: path, Version: released}, root, revision, folder); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var names []string
	var mod []byte
	for _, e := range z.File {
		name := strings.TrimPrefix(e.Name, path+"@"+released+"/")
		names = append(names, name)
		if name == "go.mod" {
			r, err := e.Open()
			if err != nil {
				t.Fatal(err)
			}
			if mod, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
			r.Close()
		}
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{released, time.Now().UTC()})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		released + ".info": info,
		released + ".mod":  mod,
		"list":             []byte(released + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// The line of the README that installs whylate, from a proxy that has this commit: what is
// embedded is in the module, nothing that belongs to other modules is, and no directive of
// go.mod stands in the way.
func TestGoInstallOfThisCommitDiagnoses(t *testing.T) {
	root, revision := commit(t)
	proxy := t.TempDir()
	names := serve(t, proxy, module, root, revision, "")
	for _, n := range names {
		for _, other := range []string{"sdk/", "incidents/", "ui/"} {
			if strings.HasPrefix(n, other) {
				t.Errorf("the module has %s, which belongs to another one", n)
			}
		}
	}
	const most = 32 << 20 // what everybody who installs it downloads
	if info, err := os.Stat(filepath.Join(proxy, filepath.FromSlash(module), "@v", released+".zip")); err != nil || info.Size() > most {
		t.Errorf("the module's archive: %v, %v, want at most %d bytes", info.Size(), err, most)
	}

	readme := read(t, "README.md")
	line := "go install " + module + "/cmd/whylate@latest"
	if !strings.Contains(readme, line) {
		t.Fatalf("the README does not say %q", line)
	}
	bin := t.TempDir()
	cmd := exec.Command("go", strings.Fields(line)[1:]...)
	cmd.Dir = bin // no go.mod here
	cmd.Env = append(os.Environ(), proxied(t, proxy)...)
	cmd.Env = append(cmd.Env, "GOBIN="+bin, "CGO_ENABLED=0")
	if _, err := output(cmd); err != nil {
		t.Fatal(err)
	}

	whylate := filepath.Join(bin, "whylate")
	out, err := output(exec.Command(whylate, "version", "-o", "json"))
	if err != nil {
		t.Fatal(err)
	}
	var about struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal([]byte(out), &about); err != nil || about.Version != released {
		t.Errorf("version -o json says %q, %v, want %s", about.Version, err, released)
	}

	page := filepath.Join(t.TempDir(), "a.html")
	incident := filepath.Join(root, "cause", "lock-held-across-wait", "testdata", "lock-held-across-wait.whylate")
	out, err = output(exec.Command(whylate, "diagnose", incident, "-o", "json"))
	if code := (*exec.ExitError)(nil); !errors.As(err, &code) || code.ExitCode() != 3 || !strings.Contains(out, `"lock-held-across-wait"`) {
		t.Errorf("diagnose of a golden incident: %v\n%.500s", err, out)
	}
	if _, err := output(exec.Command(whylate, "show", incident, "-o", page)); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(page); err != nil || info.Size() < 50_000 {
		t.Errorf("the page: %v, %v", info, err)
	}
}

// proxied returns the environment in which go finds modules of ours in a proxy of files, and
// all others where this machine has them already or gets them. What is downloaded goes to a
// folder that the test removes.
func proxied(t *testing.T, proxy string) []string {
	t.Helper()
	out, err := output(exec.Command("go", "env", "GOMODCACHE", "GOPROXY"))
	if err != nil {
		t.Fatal(err)
	}
	cache, others, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return []string{
		"GOPROXY=" + fileURL(proxy) + "," + fileURL(filepath.Join(cache, "cache", "download")) + "," + others,
		"GONOSUMDB=" + module, "GOMODCACHE=" + t.TempDir(), "GOWORK=off",
		// -trimpath: what is compiled does not depend on that folder.
		"GOFLAGS=-trimpath -modcacherw",
	}
}

// fileURL is the URL of a folder; on Windows its path begins with a drive.
func fileURL(dir string) string {
	return "file:///" + strings.TrimPrefix(filepath.ToSlash(dir), "/")
}
