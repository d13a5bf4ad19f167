package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatDoesNotCompileForASystemIsTold(t *testing.T) {
	sound := map[string]string{
		"go.mod":     "module m\n\ngo 1.25\n",
		"a.go":       "package m\n\nimport \"io\"\n\nvar A io.Reader\n\nfunc f() int { return g() }\n",
		"a_linux.go": "package m\n\nimport \"syscall\"\n\nfunc g() int { return int(syscall.SIGUSR1) }\n",
		"a_other.go": "//go:build !linux\n\npackage m\n\nfunc g() int { return 0 }\n",
		"a_test.go":  "package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { t.Log(f()) }\n",
		"b_test.go":  "package m_test\n\nimport (\n\t\"testing\"\n\n\t\"m\"\n)\n\nfunc TestA(t *testing.T) { t.Log(m.A) }\n",
	}
	for _, c := range []struct{ name, file, text, windows, linux string }{
		{name: "sound"},
		{"a name of one system only", "a.go", "package m\n\nimport (\n\t\"io\"\n\t\"syscall\"\n)\n\nvar A io.Reader\n\nfunc f() int { return g() + int(syscall.SIGUSR1) }\n", "a.go:10:41: undefined: syscall.SIGUSR1", ""},
		{"a file of one system", "a_windows.go", "package m\n\nfunc h() string { return 1 }\n", "a_windows.go:3:26: cannot use 1", ""},
		{"a test of one system", "a_windows_test.go", "package m\n\nvar _ = f() + \"\"\n", "a_windows_test.go:3:", ""},
		{"a test from outside", "b_linux_test.go", "package m_test\n\nimport \"m\"\n\nvar _ = m.B\n", "", "b_linux_test.go:5:11: undefined: m.B"},
		{"no Go", "a_linux.go", "package m\n\nfunc g( {\n", "", "a_linux.go:3:"},
		{"an import that is not used", "a_windows.go", "package m\n\nimport \"os\"\n", "a_windows.go:3:8: \"os\" imported and not used", ""},
		{"an import that is not there", "a_windows.go", "package m\n\nimport _ \"m/none\"\n", "m/none", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				file := filepath.Join(dir, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range sound {
				write(name, text)
			}
			if c.file != "" {
				write(c.file, c.text)
			}
			for system, want := range map[string]string{"windows/amd64": c.windows, "linux/arm64": c.linux} {
				err := check(dir, system, []string{"./..."})
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s: %v, want %q", system, err, want)
				}
			}
		})
	}
	if err := check(t.TempDir(), "windows", nil); err == nil || !strings.Contains(err.Error(), `no system "windows"`) {
		t.Error(err)
	}
}
