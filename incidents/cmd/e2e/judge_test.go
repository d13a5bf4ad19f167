package main

import (
	"encoding/json"
	"testing"
)

func TestJudge(t *testing.T) {
	steady := trial{verdict: "healthy"}
	slow := trial{verdict: "cause", causes: []string{"b", "c"}, also: []string{"h"}}
	blind := trial{verdict: "cause", causes: []string{"b"}, also: []string{"h"}, noHost: true}
	for _, c := range []struct {
		name  string
		trial trial
		json  string
		right bool
	}{
		{"healthy where nothing was planted", steady, `{"verdict":"healthy"}`, true},
		{"a cause where nothing was planted", steady, `{"verdict":"cause","findings":[{"cause":"b"}]}`, false},
		{"look-alikes where nothing was planted", steady, `{"verdict":"inconclusive","consistent_with":[{"causes":["b"]}]}`, false},
		{"inconclusive where nothing was planted", steady, `{"verdict":"inconclusive","reason":"unexplained"}`, false},
		{"the planted cause", slow, `{"verdict":"cause","findings":[{"cause":"b"}]}`, true},
		{"the other planted cause", slow, `{"verdict":"cause","findings":[{"cause":"c"}]}`, true},
		{"the planted cause before contention", slow, `{"verdict":"cause","findings":[{"cause":"b"},{"cause":"h"}]}`, true},
		{"contention before the planted cause", slow, `{"verdict":"cause","findings":[{"cause":"h"},{"cause":"b"}]}`, false},
		{"another cause after the planted one", slow, `{"verdict":"cause","findings":[{"cause":"b"},{"cause":"x"}]}`, false},
		{"another cause", slow, `{"verdict":"cause","findings":[{"cause":"x"}]}`, false},
		{"the planted cause with the wrong verdict", slow, `{"verdict":"healthy","findings":[{"cause":"b"}]}`, false},
		{"look-alikes of the planted cause", slow, `{"verdict":"inconclusive","consistent_with":[{"causes":["h","b"]}]}`, true},
		{"look-alikes with another name", slow, `{"verdict":"inconclusive","consistent_with":[{"causes":["x","b"]}]}`, false},
		{"look-alikes without the planted cause", slow, `{"verdict":"inconclusive","consistent_with":[{"causes":["h"]}]}`, false},
		{"healthy where something was planted", slow, `{"verdict":"healthy"}`, false},
		{"the planted cause without host evidence", blind, `{"verdict":"cause","findings":[{"cause":"b"}]}`, true},
		{"another cause without host evidence", blind, `{"verdict":"cause","findings":[{"cause":"x"}]}`, false},
		{"another cause first without host evidence", blind, `{"verdict":"inconclusive","findings":[{"cause":"x"}],"consistent_with":[{"causes":["b"]}]}`, false},
		{"look-alikes of any name without host evidence", blind, `{"verdict":"inconclusive","consistent_with":[{"causes":["x","b"]},{"causes":["y"]}]}`, true},
		{"look-alikes without the planted cause and host evidence", blind, `{"verdict":"inconclusive","consistent_with":[{"causes":["x"]},{"causes":["b"]}]}`, false},
		{"no answer without host evidence", blind, `{"verdict":"inconclusive","reason":"unexplained"}`, true},
		{"healthy without host evidence", blind, `{"verdict":"healthy"}`, false},
		{"inconclusive where something was planted", slow, `{"verdict":"inconclusive","reason":"unexplained"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d diagnosis
			if err := json.Unmarshal([]byte(c.json), &d); err != nil {
				t.Fatal(err)
			}
			if wrong := c.trial.judge(&d); (wrong == "") != c.right {
				t.Errorf("judge: %q, want right %v", wrong, c.right)
			}
		})
	}
}
