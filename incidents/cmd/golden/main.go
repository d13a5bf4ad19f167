// Command golden turns a recording into test data: it keeps the members that a
// diagnosis uses, refuses what is too large or is not diagnosed as it should be,
// and writes the expected diagnosis beside it.
//
//	go run ./cmd/golden -cause slow-disk -name etcd recording.whylate
//
// writes ../cause/slow-disk/testdata/etcd.whylate and etcd.want.json. The target
// must have been built with -trimpath, and lie outside of home and temporary
// folders: test data holds no paths of machines (internal/house checks it).
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/evidence"
)

// maxSize bounds one incident in bytes: every go install downloads it.
const maxSize = 300_000

// kept are the members that a diagnosis uses.
var kept = []string{evidence.MemberTrace, evidence.MemberAllocsBefore, evidence.MemberAllocsAfter, evidence.MemberHost, evidence.MemberDependency}

func main() {
	log.SetFlags(0)
	log.SetPrefix("golden: ")
	cause := flag.String("cause", "", "the true cause; empty for a control")
	name := flag.String("name", "", "name of the incident")
	where := flag.String("where", "", "end of the name of the function to blame; default: the one that is blamed")
	root := flag.String("root", "..", "the repository")
	flag.Parse()
	if flag.NArg() != 1 || *name == "" {
		log.Fatal("usage: golden [-cause ID] -name NAME [-where FUNCTION] FILE")
	}
	dir := filepath.Join(*root, "diagnose", "testdata")
	if *cause != "" {
		dir = filepath.Join(*root, "cause", *cause, "testdata")
	}
	if err := run(flag.Arg(0), dir, *name, *cause, *where); err != nil {
		log.Fatal(err)
	}
}

func run(file, dir, name, truth, where string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	out := filepath.Join(dir, name+".whylate")
	if err := keep(file, out); err != nil {
		return err
	}
	w, err := expect(out, truth, where)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".want.json"), w, 0o644)
	}
	if err != nil {
		return fmt.Errorf("%w (removed: %v)", err, os.Remove(out))
	}
	return nil
}

// keep copies the members that matter.
func keep(from, to string) error {
	in, err := evidence.Open(from, evidence.Options{})
	if err != nil {
		return err
	}
	defer in.Close()
	w, err := evidence.Create(to)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, member := range kept {
		if !in.Has(member) {
			continue
		}
		if err := copyMember(w, in, member); err != nil {
			return err
		}
	}
	m := in.Manifest
	m.Recorded, m.Target.Modules, m.Target.ModulesFrom = nil, nil, ""
	w.Edit(func(x *evidence.Manifest) {
		m.Recorded = x.Recorded
		*x = m
	})
	if err := w.Close(); err != nil {
		return err
	}
	st, err := os.Stat(to)
	if err != nil {
		return err
	}
	if st.Size() > maxSize {
		return fmt.Errorf("%s has %d bytes, more than %d (removed: %v): record shorter or with less load", to, st.Size(), maxSize, os.Remove(to))
	}
	return nil
}

func copyMember(w *evidence.Writer, in *evidence.Incident, name string) error {
	r, err := in.Member(name)
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := w.Member(name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(m, r); err != nil {
		return err
	}
	return m.Close()
}

// expect diagnoses the incident and returns what it expects, if it is the truth.
func expect(file, truth, where string) ([]byte, error) {
	in, err := evidence.Open(file, evidence.Options{})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	d, err := diagnose.Analyse(in, diagnose.AnalyseOptions{Check: true})
	if err != nil {
		return nil, err
	}
	want := struct {
		Verdict    string   `json:"verdict"`
		Finding    string   `json:"finding"`
		Contrast   string   `json:"contrast"`
		Where      string   `json:"where"`
		Consistent []string `json:"consistent,omitempty"`
	}{Verdict: d.Verdict, Finding: truth, Where: where}
	switch {
	case truth == "" && d.Verdict == "cause":
		return nil, fmt.Errorf("a control is blamed: %s", d.Sentence)
	case truth == "":
	case len(d.Findings) > 0 && d.Findings[0].Cause == truth:
		want.Contrast = d.Findings[0].Contrast
		if p := d.Findings[0].Where; p != nil && where == "" {
			want.Where = p.Function[strings.LastIndex(p.Function, ".")+1:]
		}
	case len(d.Findings) == 0 && len(d.ConsistentWith) > 0 && strings.Contains(" "+strings.Join(d.ConsistentWith[0].Causes, " ")+" ", " "+truth+" "):
		want.Contrast, want.Consistent = d.ConsistentWith[0].Contrast, d.ConsistentWith[0].Causes
	default:
		return nil, fmt.Errorf("not diagnosed as %s: %s", truth, d.Sentence)
	}
	b, err := json.MarshalIndent(want, "", " ")
	return append(b, '\n'), err
}
