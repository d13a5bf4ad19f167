package diagnose

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/report"
)

// folder returns a folder with copies of golden incidents under other names.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, from := range files {
		data := []byte("no recording")
		if from != "" {
			var err error
			if data, err = os.ReadFile(from); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAFolderIsDiagnosedByService(t *testing.T) {
	dir := folder(t, map[string]string{
		"b.whylate":     "../cause/timer-wait/testdata/gateway.whylate",
		"a.whylate":     "../cause/rwmutex-writer/testdata/gateway.whylate",
		"c.whylate":     "../cause/goroutine-flood/testdata/goroutine-flood.whylate",
		"broken.trace":  "",
		"notes.txt":     "",
		".hidden.trace": "",
	})
	files, err := Recordings([]string{dir})
	if err != nil || len(files) != 4 {
		t.Fatalf("%q, %v", files, err)
	}
	alone := map[string]*report.Diagnosis{}
	var failed []string
	services := Files(files, AnalyseOptions{}, func(file string, d *report.Diagnosis, err error) {
		if err != nil {
			failed = append(failed, file)
			return
		}
		c := *d
		alone[filepath.Base(file)] = &c
	})
	if len(failed) != 1 || filepath.Base(failed[0]) != "broken.trace" {
		t.Errorf("no diagnosis of %q", failed)
	}
	if len(services) != 2 || len(alone) != 3 {
		t.Fatalf("%d services of %d recordings", len(services), len(alone))
	}
	gateway := services[0].Diagnosis
	if services[0].Name == services[1].Name || services[1].Diagnosis.Windows != nil {
		t.Errorf("services %q and %q", services[0].Name, services[1].Name)
	}
	if len(gateway.Windows) != 2 || gateway.Findings[0].Cause != "timer-wait" || !strings.HasPrefix(gateway.Sentence, services[0].Name+": In the worst of 2 recordings (b.whylate): ") {
		t.Fatalf("%s\n%+v", gateway.Sentence, gateway.Windows)
	}
	for i, w := range gateway.Windows {
		d := alone[filepath.Base(w.File)]
		if w.Cause != d.Findings[0].Cause || w.Share != d.Findings[0].Share || w.Requests != d.Requests.Count || w.ToNS-w.FromNS != d.DurationNS {
			t.Errorf("%+v, alone %+v", w, d)
		}
		if w.Worst != (filepath.Base(w.File) == "b.whylate") || i > 0 && w.FromNS <= gateway.Windows[i-1].FromNS {
			t.Errorf("%+v", gateway.Windows)
		}
	}
	if s := services[0]; s.Diagnosis.Service != s.Name || !strings.HasPrefix(services[1].Diagnosis.Sentence, services[1].Name+": ") {
		t.Errorf("whose is it? %q, %q", s.Diagnosis.Service, services[1].Diagnosis.Sentence)
	}
	if again, err := Recordings([]string{files[0], dir, dir + "/../" + filepath.Base(dir)}); err != nil || len(again) != len(files) {
		t.Errorf("twice: %q, %v", again, err)
	}
	if _, err := Recordings([]string{t.TempDir()}); err == nil {
		t.Error("a folder without recordings is taken")
	}
	if got, err := Recordings([]string{files[2], files[0]}); err != nil || !slices.Equal(got, []string{files[2], files[0]}) {
		t.Errorf("%q, %v", got, err)
	}
}
