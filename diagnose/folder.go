package diagnose

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
)

// Service is what several recordings tell of a service.
type Service struct {
	// Name is that of the program, of its main module or its URL's host; "" for bare traces, which
	// name none and are taken for those of one service.
	Name string
	// Diagnosis is that of the worst recording: of those with enough requests to tell, and rather one that is not healthy, the one in
	// which slow requests took the most time together. Its Windows are all of them, with what is
	// known of the worst window of a long one.
	Diagnosis *report.Diagnosis
}

// Recordings returns the files that are meant by paths: those themselves, and of folders what has
// the name of a recording, in the order of names. A file that is meant twice is there once.
func Recordings(paths []string) ([]string, error) {
	var files []string
	known := map[string]bool{}
	add := func(path string) {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			real, err = filepath.Abs(real)
		}
		if err != nil {
			real = path // whoever opens it will say why
		}
		if !known[real] {
			known[real] = true
			files = append(files, path)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			add(path)
			continue
		}
		list, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		none := true
		for _, e := range list {
			if name := e.Name(); recordingNames[filepath.Ext(name)] && name[0] != '.' && !e.IsDir() {
				add(filepath.Join(path, name))
				none = false
			}
		}
		if none {
			return nil, &fs.PathError{Op: "find recordings in", Path: path, Err: fmt.Errorf("no file is named *.whylate, *.trace or *.out")}
		}
	}
	return files, nil
}

var recordingNames = map[string]bool{".whylate": true, ".trace": true, ".out": true}

// Files diagnoses recordings one after the other, in the memory of one, and sums them up by
// service, in the order of their first recordings. Of each it calls done with its diagnosis, or
// with why there is none.
func Files(files []string, o AnalyseOptions, done func(file string, d *report.Diagnosis, err error)) []*Service {
	type group struct {
		windows
		first   time.Time
		started []time.Time
	}
	by := map[string]*group{}
	var names []string
	for _, file := range files {
		d, name, err := oneOf(file, o)
		if err != nil {
			done(file, nil, err)
			continue
		}
		g := by[name]
		if g == nil {
			g = &group{first: d.Started}
			by[name] = g
			names = append(names, name)
		}
		if !d.Started.IsZero() && (g.first.IsZero() || d.Started.Before(g.first)) {
			g.first = d.Started
		}
		g.started = append(g.started, d.Started)
		g.add(d, file, 0, d.DurationNS)
		done(file, d, nil)
	}
	var out []*Service
	for _, name := range names {
		g := by[name]
		for i := range g.list {
			if at := g.started[i]; !at.IsZero() && !g.first.IsZero() {
				g.list[i].FromNS += int64(at.Sub(g.first))
				g.list[i].ToNS += int64(at.Sub(g.first))
			}
		}
		d, worst := g.worst, g.list[g.at].File
		if n := len(g.list); n > 1 {
			d.Windows = g.marked()
			d.Sentence = fmt.Sprintf("In the worst of %d recordings (%s)%s: %s", n, filepath.Base(worst), g.others(), d.Sentence)
		}
		if len(names) > 1 && name != "" {
			d.Service, d.Sentence = name, name+": "+d.Sentence
		}
		out = append(out, &Service{Name: name, Diagnosis: d})
	}
	return out
}

// oneOf diagnoses one of several files.
func oneOf(file string, o AnalyseOptions) (d *report.Diagnosis, service string, err error) {
	in, err := evidence.Open(file, evidence.Options{MaxTrace: MaxTrace})
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	t := &in.Manifest.Target
	if t.File == "" && t.URL == "" {
		t.Kind, t.File = "file", file
	}
	if d, err = Analyse(in, o); err != nil {
		return nil, "", &fs.PathError{Op: "diagnose", Path: file, Err: err}
	}
	host := ""
	if u, err := url.Parse(t.URL); err == nil {
		host = u.Host
	}
	return d, cmp.Or(t.Program, t.Main, host), nil
}
