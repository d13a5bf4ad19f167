package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
	"github.com/whylate/whylate/report"
)

func TestJudge(t *testing.T) {
	steady := trial{program: caddy{}}
	slow := trial{program: caddy{}, planted: one(score.Planted{Cause: "slow-disk", Accept: []string{"page-faults"}}, nil), beside: contention}
	blind := slow
	blind.noHost = true
	for _, c := range []struct {
		name  string
		trial trial
		json  string
		good  bool
	}{
		{"healthy where nothing was planted", steady, `{"verdict":"healthy"}`, true},
		{"a cause where nothing was planted", steady, `{"verdict":"cause","findings":[{"cause":"slow-disk"}]}`, false},
		{"look-alikes where nothing was planted", steady, `{"verdict":"inconclusive","consistent_with":[{"causes":["slow-disk"]}]}`, false},
		{"inconclusive where nothing was planted", steady, `{"verdict":"inconclusive","reason":"unexplained"}`, false},
		{"the planted cause", slow, `{"verdict":"cause","findings":[{"cause":"slow-disk"}]}`, true},
		{"another cause", slow, `{"verdict":"cause","findings":[{"cause":"cpu-hog"}]}`, false},
		{"another cause after the planted one", slow, `{"verdict":"cause","findings":[{"cause":"slow-disk"},{"cause":"cpu-hog"}]}`, false},
		{"look-alikes of the planted cause", slow, `{"verdict":"inconclusive","consistent_with":[{"causes":["slow-cgo","slow-disk"]}]}`, true},
		{"look-alikes without the planted cause", slow, `{"verdict":"inconclusive","consistent_with":[{"causes":["slow-cgo"]}]}`, false},
		{"healthy where something was planted", slow, `{"verdict":"healthy"}`, false},
		{"inconclusive where something was planted", slow, `{"verdict":"inconclusive","reason":"unexplained"}`, false},
		{"the planted cause without host evidence", blind, `{"verdict":"cause","findings":[{"cause":"slow-disk"}]}`, true},
		{"another cause without host evidence", blind, `{"verdict":"cause","findings":[{"cause":"cpu-hog"}]}`, false},
		{"no answer without host evidence", blind, `{"verdict":"inconclusive","reason":"unexplained"}`, true},
		{"healthy without host evidence", blind, `{"verdict":"healthy"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d report.Diagnosis
			if err := json.Unmarshal([]byte(c.json), &d); err != nil {
				t.Fatal(err)
			}
			if r, good := c.trial.judge(&d); good != c.good {
				t.Errorf("judge: %v, good %v; want %v", r, good, c.good)
			}
		})
	}
}

func TestTheTableIsConsistent(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range all {
		t.Run(x.name, func(t *testing.T) {
			if seen[x.name] {
				t.Error("the name is taken")
			}
			seen[x.name] = true
			if !strings.HasPrefix(x.name, x.source().name()+"-") {
				t.Errorf("the name does not begin with the host's, %q", x.source().name())
			}
			if err := x.truth().Check(x.name); err != nil {
				t.Error(err)
			}
			if x.rate <= 0 || x.lag <= 0 {
				t.Error("no rate, or no bound on how late the clients may be")
			}
			if len(x.planted) == 0 {
				if x.rise != 0 || x.felt != 0 {
					t.Error("a control that something is felt in")
				}
				return
			}
			if !slices.Contains(severities, x.rise) {
				t.Errorf("the 99th percentile rises to %v times", x.rise)
			}
			before := x
			for i := range x.planted {
				if less := x.less(i); same(less, x) {
					t.Errorf("without %s the situation is the same", x.planted[i].Cause)
				}
			}
			if calm := x.calm(); len(calm.planted) != 0 || same(calm, x) {
				t.Error("the control is the same situation")
			}
			if !same(before, x) {
				t.Error("the removal changed the trial itself")
			}
		})
	}
}

// same reports whether two trials are one situation.
func same(x, y trial) bool {
	for _, t := range []*trial{&x, &y} {
		t.name, t.planted, t.felt, t.rise, t.beside = "", nil, 0, 0, nil
	}
	return reflect.DeepEqual(x, y)
}

func TestTheTallyFailsBelowThePartThatMustBeGood(t *testing.T) {
	c := tally{results: map[score.Result]int{score.Right: 7, score.Wrong: 3}, bad: 3, void: 1}
	for least, fails := range map[float64]bool{0.7: false, 0.71: true, 1: true} {
		if err := c.err(least); (err != nil) != fails {
			t.Errorf("at least %v: %v", least, err)
		}
	}
	c = tally{results: map[score.Result]int{score.Honest: 1}, void: 1}
	if c.err(1) == nil || c.err(0.9) != nil {
		t.Error("a run that does not count must fail only where all diagnoses must be good")
	}
}

// Rules and tables know the standard library and published libraries, and nothing of
// the programs that they are tried on.
func TestNoRuleNamesAProgramOfAnIncident(t *testing.T) {
	programs := map[string]string{} // by the path of their module
	for _, x := range all {
		folder := x.source().folder
		b, err := os.ReadFile(filepath.Join("../../hosts", folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Fields(string(b)) {
			// host/owner/repository, or host/repository
			if part := strings.Split(word, "/"); len(part) > 1 && strings.Contains(part[0], ".") && word != "github.com/prometheus/client_golang" &&
				strings.Contains(strings.ToLower(strings.Join(part[1:min(3, len(part))], "/")), strings.TrimSuffix(folder, "d")) {
				programs[word] = folder
			}
		}
		if x.planted != nil && x.planted[0].Place != "" && !strings.HasPrefix(x.planted[0].Place, "main.") {
			place := x.planted[0].Place
			end := strings.LastIndexByte(place, '/')
			programs[place[:end+1+strings.IndexByte(place[end+1:], '.')]] = folder
		}
	}
	if len(programs) < len(all)/8 {
		t.Fatalf("only %v", programs)
	}
	root := "../../.."
	for _, part := range []string{"request", "blame", "cause"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			for program, folder := range programs {
				if strings.Contains(string(b), program) {
					t.Errorf("%s has %s, of the program %s", path, program, folder)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestVoidRuns(t *testing.T) {
	planted := trial{program: caddy{}, planted: one(score.Planted{Cause: "slow-disk"}, nil), lag: time.Hour, felt: 20 * time.Millisecond}
	control := trial{program: caddy{}, lag: time.Hour}
	for _, c := range []struct {
		name   string
		trial  trial
		taken  float64 // of the machine
		others float64
		client latencies
		want   string
	}{
		{"calm", planted, 0.01, 0, latencies{p99: 40e6, stolen: 0.5}, ""},
		{"stolen at other times", planted, 0.1, 0, latencies{p99: 40e6, stolen: 0.05}, ""},
		{"stolen from the slowest", planted, 0.1, 0, latencies{p99: 40e6, stolen: 0.2}, "busy"},
		{"not felt", planted, 0.01, 0, latencies{p99: 10e6}, "mild"},
		{"a calm control", control, 0.01, 0.04, latencies{p99: 2e6, stolen: 0.5}, ""},
		{"a control that is stolen from", control, 0.1, 0, latencies{p99: 2e6}, "busy"},
		{"others compute, of whom the clients feel nothing", planted, 0.01, 0.3, latencies{p99: 40e6}, "busy"},
		{"a control beside which others compute", control, 0.01, 0.3, latencies{p99: 2e6}, "busy"},
	} {
		o := &outcome{client: c.client, seen: load.Result{Offered: 1, Endpoints: []load.EndpointResult{{Status: map[int]int{200: 1}}}}}
		o.StolenShare, o.others = c.taken, c.others
		if got, err := c.trial.void(&service{}, o); got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}
