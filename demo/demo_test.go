package demo

import (
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/internal/need"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(VictimEnv); name != "" {
		os.Exit(Victim(name, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func start(t *testing.T, s Scenario, o RunOptions) *Running {
	t.Helper()
	r, err := Run(t.Context(), s, o)
	if errors.Is(err, ErrNotPossible) && !need.Required("demo-"+s.Name) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", url, resp.Status, err)
	}
	return string(body)
}

func TestEveryScenarioServesItsLoadAndItsProfiles(t *testing.T) {
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()     // each takes a second, most of it waiting
			if s.Quota > 0 { // the race detector makes requests several times as costly
				s.Quota = max(s.Quota, 0.5)
			}
			r := start(t, s, RunOptions{Duration: 500 * time.Millisecond, Seed: 1})
			if cmdline := get(t, r.PprofURL+"/debug/pprof/cmdline"); strings.Contains(cmdline, s.Name) {
				t.Errorf("the command line %q tells the answer", cmdline)
			}
			get(t, r.PprofURL+"/debug/pprof/trace?seconds=0.1")
			res, err := r.Load()
			if err != nil {
				t.Fatal(err)
			}
			if res.Responses == 0 || res.Responses != res.Offered {
				t.Errorf("%d responses to %d requests, errors %v", res.Responses, res.Offered, res.Errors)
			}
			statuses := map[string]map[int]int{} // by path: of two kinds of clients one may be rare
			for _, e := range res.Endpoints {
				if statuses[e.Name] == nil {
					statuses[e.Name] = map[int]int{}
				}
				for status, n := range e.Status {
					statuses[e.Name][status] += n
				}
			}
			for path, status := range statuses {
				if len(status) != 1 || status[http.StatusOK] == 0 {
					t.Errorf("%s: status %v", path, status)
				}
			}
		})
	}
}

// A name that says what is wrong would let a diagnosis guess. The scenarios'
// own names stay out of stacks, so only what a stack can show is looked at.
func TestNoNameInAStackTellsTheCause(t *testing.T) {
	telling := regexp.MustCompile(`(?i)lock|mutex|hog|slow|fault|leak|holder|victim|convoy|flood|starv|stall|block|busy|delay|assist|quota|thrash|forced|fsync|handoff|cold|contention|evict|pause|retr|storm`)
	declared := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type )(\w+)`)
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		src, err := os.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		names := []string{strings.TrimSuffix(e.Name(), ".go")}
		for _, m := range declared.FindAllStringSubmatch(string(src), -1) {
			names = append(names, m[1])
		}
		for _, name := range names {
			// Victim is on the stack of every child's main goroutine alike.
			if name != "Victim" && name != "Default" && telling.MatchString(name) {
				t.Errorf("%s: %s", e.Name(), name)
			}
		}
	}
}

func TestEveryPlaceIsAFunctionOfThisPackage(t *testing.T) {
	var src strings.Builder
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") {
			b, err := os.ReadFile(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			src.Write(b)
		}
	}
	place := regexp.MustCompile(`^(?:\(?(\*?)(\w+)\)?\.)?(\w+)$`)
	for _, s := range All() {
		if s.Place == "" {
			continue
		}
		m := place.FindStringSubmatch(strings.TrimPrefix(s.Place, symbol))
		if m == nil {
			t.Errorf("%s: place %q", s.Name, s.Place)
			continue
		}
		decl := regexp.MustCompile(`func ` + m[3] + `\(`)
		if m[2] != "" {
			decl = regexp.MustCompile(`func \((?:\w+ )?` + regexp.QuoteMeta(m[1]+m[2]) + `\) ` + m[3] + `\(`)
		}
		if !decl.MatchString(src.String()) {
			t.Errorf("%s: no function %q", s.Name, s.Place)
		}
	}
}

func TestTheTableIsConsistent(t *testing.T) {
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
		if s.Title == "" || len(s.Verdicts) == 0 || len(s.Endpoints) == 0 || s.New == nil || s.Rate <= 0 {
			t.Errorf("%s is incomplete", s.Name)
		}
		if !slices.Contains([]string{"tail", "level", "before"}, s.Contrast) {
			t.Errorf("%s: contrast %q", s.Name, s.Contrast)
		}
		if (s.Cause != "") != (s.Verdicts[0] == "cause") && s.Name != "hung" {
			t.Errorf("%s: cause %q with verdicts %v", s.Name, s.Cause, s.Verdicts)
		}
		if got, ok := Lookup(s.Name); !ok || got.Name != s.Name {
			t.Errorf("Lookup(%q) finds %q", s.Name, got.Name)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(All()) {
		t.Errorf("names are not unique: %v", names)
	}
	if Default().Name != "lock-held-across-wait" {
		t.Errorf("the default is %q", Default().Name)
	}
	if _, ok := Lookup("none"); ok {
		t.Error("Lookup finds a scenario that does not exist")
	}
}

func TestAFailedStartSaysWhy(t *testing.T) {
	_, err := Run(t.Context(), Scenario{Name: "none"}, RunOptions{})
	if err == nil || !strings.Contains(err.Error(), "no such scenario") {
		t.Errorf("got %v", err)
	}
}
