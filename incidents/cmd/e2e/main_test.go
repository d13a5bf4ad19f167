package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecordingsStayAndAreNumberedOn(t *testing.T) {
	s := &settings{keep: t.TempDir()}
	for _, want := range []string{"case-1.whylate", "case-2.whylate", "case-3.whylate"} {
		file, err := s.free("case")
		if err != nil || filepath.Base(file) != want {
			t.Fatalf("%s, %v, want %s", file, err, want)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCasesAreChosenByTheirNames(t *testing.T) {
	for _, c := range []struct {
		args string
		want string // the first case, or what the error says
	}{
		{"-run gateway-log$", "gateway-log"},
		{"-run gateway-log$ -without", "gateway-log-without"},
		{"-run traefik-users", "add -held-out"},
		{"-run gateway-log -held-out", "leave -held-out out"},
		{"-run traefik-users -held-out", "traefik-users"},
		{"-run nothing", "no case"},
		{"-run gateway-steady -pairs 3", "no case"},
		{"-for 0s", "between 1s and 5m"},
		{"-pairs 3 -without", "leave -without out"},
	} {
		s, err := parse(append([]string{"-bin", "b", "-hosts", "h", "-whylate", "w"}, strings.Fields(c.args)...))
		var some []trial
		if err == nil {
			some, err = s.chosen()
		}
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		case err == nil && (len(some) == 0 || some[0].name != c.want):
			t.Errorf("%s: %v, want %s", c.args, some, c.want)
		}
	}
}
