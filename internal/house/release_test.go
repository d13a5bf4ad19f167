package house

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/internal/unpack"
)

// archives are what a release has, by the system they are for.
var archives = map[string]string{
	"linux/amd64":   "whylate_" + released[1:] + "_linux_amd64",
	"linux/arm64":   "whylate_" + released[1:] + "_linux_arm64",
	"darwin/arm64":  "whylate_" + released[1:] + "_darwin_arm64",
	"windows/amd64": "whylate_" + released[1:] + "_windows_amd64",
}

// A release of this commit, as `make release` would publish it: archives with one static
// program each and what belongs to it, their sums, and what the programs are made of. Unless
// releases are required it is made for one system: for each, all that is imported would have to
// be compiled, and `make cross` sees that it can be.
func TestAReleaseIsWhole(t *testing.T) {
	if !need.Required("release") {
		need.Feature(t, "release", errors.New("it takes minutes; WHYLATE_REQUIRE=release makes one"))
	}
	systems := archives
	if !need.Required("releases") {
		systems = map[string]string{"linux/amd64": archives["linux/amd64"]}
	}
	dist := filepath.Join(tagged(t, slices.Sorted(maps.Keys(systems))), "dist")
	cmd := exec.Command("make", "dist")
	cmd.Dir = filepath.Dir(dist)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkSums(t, dist, systems)
	for system, name := range systems {
		t.Run(system, func(t *testing.T) {
			program := "whylate"
			var files map[string][]byte
			var err error
			if strings.HasPrefix(system, "windows/") {
				program = "whylate.exe"
				files, err = unpack.Zip(filepath.Join(dist, name+".zip"))
			} else {
				var f *os.File
				if f, err = os.Open(filepath.Join(dist, name+".tar.gz")); err == nil {
					files, err = unpack.TarGz(f)
					f.Close()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range []string{program, "LICENSE", "README.md", "docs/start.md", "completions/whylate.bash", "completions/whylate.zsh", "completions/whylate.fish", "man/whylate.1", "man/whylate-diagnose.1"} {
				if len(files[name+"/"+f]) == 0 {
					t.Errorf("the archive has no %s", f)
				}
			}
			info, err := buildinfo.Read(bytes.NewReader(files[name+"/"+program]))
			if err != nil {
				t.Fatal(err)
			}
			setting := map[string]string{}
			for _, s := range info.Settings {
				setting[s.Key] = s.Value
			}
			if got := setting["GOOS"] + "/" + setting["GOARCH"]; got != system || info.Main.Version != released || setting["CGO_ENABLED"] != "0" || setting["-trimpath"] != "true" {
				t.Errorf("the program is %s, version %s, settings %v", got, info.Main.Version, setting)
			}
			var modules []string
			for _, m := range info.Deps {
				modules = append(modules, m.Path+" "+m.Version)
			}
			if got := components(t, filepath.Join(dist, name+".cdx.json")); !slices.Equal(got, sorted(modules)) {
				t.Errorf("the list of components has\n%q\nthe program is made of\n%q", got, modules)
			}
			if system == "linux/amd64" {
				runsAlone(t, files[name+"/"+program], released)
			}
		})
	}
}

// tagged returns a clone of this commit, for a release of some of the systems, that has its tag.
func tagged(t *testing.T, systems []string) string {
	t.Helper()
	root, _ := commit(t)
	dir := t.TempDir()
	bundle, clone := filepath.Join(dir, "bundle"), filepath.Join(dir, "whylate")
	// Not a clone of the checkout: it may belong to somebody else.
	for _, args := range [][]string{
		{"bundle", "create", "-q", bundle, "HEAD"},
		{"clone", "-q", bundle, clone},
	} {
		if _, err := git(root, args...); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(clone, ".goreleaser.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	all := "targets: [linux_amd64, linux_arm64, darwin_arm64, windows_amd64]"
	if bytes.Count(text, []byte(all)) != 1 {
		t.Fatalf("%s has no %q", config, all)
	}
	if len(systems) < len(archives) {
		some := "targets: [" + strings.ReplaceAll(strings.Join(systems, ", "), "/", "_") + "]"
		if err := os.WriteFile(config, bytes.Replace(text, []byte(all), []byte(some), 1), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := git(clone, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "-a", "-m", "Release some systems"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := git(clone, "tag", released); err != nil {
		t.Fatal(err)
	}
	return clone
}

// checkSums compares each file of a release with its sum, and asks that each has one.
func checkSums(t *testing.T, dist string, archives map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	summed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		b, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			t.Error(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != sum {
			t.Errorf("%s has the sum %s, listed is %s", name, got, sum)
		}
		summed[name] = true
	}
	for system, name := range archives {
		if !summed[name+".tar.gz"] && !summed[name+".zip"] || !summed[name+".cdx.json"] {
			t.Errorf("%s has no sum: %v", system, summed)
		}
	}
}

// components reads the modules of a bill of materials (CycloneDX).
func components(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(b, &bill); err != nil || bill.BOMFormat != "CycloneDX" {
		t.Fatalf("%s: %v, format %q", file, err, bill.BOMFormat)
	}
	var out []string
	for _, c := range bill.Components {
		if c.Name != "std" {
			out = append(out, c.Name+" "+c.Version)
		}
	}
	return sorted(out)
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// runsAlone asks that a program needs no other file, and that it runs and says its version,
// or any if that is "".
func runsAlone(t *testing.T, program []byte, version string) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: %v", p.Type)
		}
	}
	file := filepath.Join(t.TempDir(), "whylate")
	if err := os.WriteFile(file, program, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := output(exec.Command(file, "version"))
	first, _, _ := strings.Cut(out, "\n")
	if got, ok := strings.CutPrefix(first, "whylate "); err != nil || !ok || version != "" && got != version {
		t.Errorf("version says %q, %v", out, err)
	}
}

// The container image, on nothing: the program in it needs no file of a base.
func TestAnImageHoldsTheProgram(t *testing.T) {
	_, err := exec.LookPath("buildah")
	need.Feature(t, "buildah", err)
	store, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	buildah := []string{"buildah", "--storage-driver", "vfs", "--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run")}
	cmd := exec.Command("make", "image", "IMAGE=localhost/whylate", "BUILDER="+strings.Join(buildah, " "), "BUILDFLAGS=--isolation chroot --build-arg BASE=scratch")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "MAKEFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := output(exec.Command(buildah[0], append(buildah[1:], "push", "-q", "localhost/whylate", "oci:"+image)...)); err != nil {
		t.Fatal(err)
	}
	blob := func(digest string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(image, "blobs", filepath.FromSlash(strings.Replace(digest, ":", "/", 1))))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// https://github.com/opencontainers/image-spec/blob/v1.1.0/spec.md
	type descriptor struct{ Digest string }
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct{ Config struct{ Entrypoint []string } }
	text, err := os.ReadFile(filepath.Join(image, "index.json"))
	if err == nil {
		err = json.Unmarshal(text, &index)
	}
	if err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%v, index %s", err, text)
	}
	if err := json.Unmarshal(blob(index.Manifests[0].Digest), &manifest); err != nil || len(manifest.Layers) != 1 {
		t.Fatalf("%v, manifest %+v", err, manifest)
	}
	if err := json.Unmarshal(blob(manifest.Config.Digest), &config); err != nil || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/whylate"}) {
		t.Fatalf("%v, config %+v", err, config)
	}
	files, err := unpack.TarGz(bytes.NewReader(blob(manifest.Layers[0].Digest)))
	if err != nil {
		t.Fatal(err)
	}
	runsAlone(t, files["usr/bin/whylate"], "")
}
