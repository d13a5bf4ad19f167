package main

import (
	"strings"
	"testing"
)

func TestTheTallyIsHonest(t *testing.T) {
	const good = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	for _, c := range []struct {
		name, in string
		ok       bool
		want     string
	}{
		{"all good", good, true, "ok  \tp\t0.1s\n1 passed, 0 failed, 0 skipped\n"},
		{"a failed test shows what it said", good + `{"Action":"output","Package":"q","Test":"TestB","Output":"    why\n"}
{"Action":"fail","Package":"q","Test":"TestB"}
{"Action":"fail","Package":"q"}
`, false, "ok  \tp\t0.1s\n    why\n1 passed, 1 failed, 0 skipped\n"},
		{"a skipped test shows why", good + `{"Action":"output","Package":"q","Test":"TestB","Output":"    no CAP_BPF\n"}
{"Action":"skip","Package":"q","Test":"TestB"}
{"Action":"pass","Package":"q"}
`, true, "ok  \tp\t0.1s\n    no CAP_BPF\n1 passed, 0 failed, 1 skipped\n"},
		{"a package that does not build fails", good + `{"ImportPath":"q","Action":"build-output","Output":"q.go:1: undefined: x\n"}
{"ImportPath":"q","Action":"build-fail"}
{"Action":"output","Package":"q","Output":"FAIL\tq [build failed]\n"}
{"Action":"fail","Package":"q","FailedBuild":"q"}
`, false, "ok  \tp\t0.1s\nq.go:1: undefined: x\nFAIL\tq [build failed]\n1 passed, 1 failed, 0 skipped\n"},
		{"a failed build of no package fails, too", good + `{"ImportPath":"q","Action":"build-fail"}
`, false, "ok  \tp\t0.1s\n1 passed, 1 failed, 0 skipped\n"},
		{"a package that fails without a test fails", good + `{"Action":"output","Package":"q","Output":"panic: init\n"}
{"Action":"fail","Package":"q"}
`, false, "ok  \tp\t0.1s\npanic: init\n1 passed, 1 failed, 0 skipped\n"},
		{"a test that never ends fails", `{"Action":"output","Package":"q","Test":"TestB","Output":"half\n"}
`, false, "TestB of q did not end:\nhalf\n0 passed, 1 failed, 0 skipped\n"},
		{"no test at all fails", "", false, "0 passed, 0 failed, 0 skipped\n"},
		{"complaints of the go command are shown", "go: no such module\n", false, "go: no such module\n0 passed, 0 failed, 0 skipped\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := tally(strings.NewReader(c.in), &out)
			if (ok && err == nil) != c.ok || out.String() != c.want {
				t.Errorf("ok %v, error %v, output %q; want ok %v, output %q", ok, err, out.String(), c.ok, c.want)
			}
		})
	}
}
