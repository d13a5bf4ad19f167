package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
)

// Options say how to record and analyse. The zero value is a useful default.
type Options struct {
	Analyse AnalyseOptions
	RecordOptions
	// Save is where the incident is kept; "" means nowhere.
	Save string
	// Fixed says that the recording's duration is the user's choice: it is not
	// prolonged when it holds too few requests.
	Fixed bool
	// Analysing, if not nil, is called when recording is over.
	Analysing func()
}

// The length of a recording that the user left to us.
const (
	// EnoughRequests and EnoughP99 are what a recording should hold: so many
	// requests, and so many times the p99.
	EnoughRequests, EnoughP99 = 200, 20
	// MaxFor bounds a prolonged recording.
	MaxFor = 60 * time.Second
)

// MaxTrace bounds the traces that are analysed, in bytes after decompression: what is
// beyond would take longer than ten minutes.
const MaxTrace = 2 << 30

// Run diagnoses a target: the URL of a service with net/http/pprof, the id of a
// local process, or a file (an incident or a bare trace). A live recording without a fixed duration that turns
// out too short is made again, longer, once.
func Run(ctx context.Context, target string, o Options) (*report.Diagnosis, error) {
	if IsFile(target) {
		in, err := evidence.Open(target, evidence.Options{MaxTrace: MaxTrace})
		if err != nil {
			return nil, err
		}
		defer in.Close()
		if in.Manifest.Target.File == "" && in.Manifest.Target.URL == "" {
			in.Manifest.Target.Kind, in.Manifest.Target.File = "file", target
		}
		return Analyse(in, o.Analyse)
	}
	path := o.Save
	if path == "" {
		dir, err := os.MkdirTemp("", "whylate-")
		if err != nil {
			return nil, fmt.Errorf("make room for the recording: %w", err)
		}
		defer os.RemoveAll(dir)
		path = dir + "/incident.whylate"
	}
	d, err := record(ctx, target, path, o)
	if err != nil || o.Fixed || ctx.Err() != nil {
		return d, err
	}
	if longer := enough(d, o.Capture.For); longer > 0 {
		return prolong(ctx, target, path, longer, d, o), nil
	}
	return d, nil
}

// prolong records again, for longer, and returns the diagnosis of that, whose recording is at path then; if
// fewer requests are in it, that of the first one, which is there already.
func prolong(ctx context.Context, target, path string, longer time.Duration, first *report.Diagnosis, o Options) *report.Diagnosis {
	o.Capture.For, o.Capture.NoProbe = longer, false
	second := path + ".longer"
	d, err := record(ctx, target, second, o)
	switch {
	case err != nil:
		_ = os.Remove(second) // there is one if it holds more than the trace
		first.Notes = append(first.Notes, fmt.Sprintf("A longer recording failed: %v", err))
		return first
	case d.Requests.Count < first.Requests.Count:
		_ = os.Remove(second)
		first.Notes = append(first.Notes, fmt.Sprintf("A longer recording, of %s, holds fewer requests: %d. %s This is the first one.", longer, d.Requests.Count, d.Sentence))
		return first
	}
	if err := os.Rename(second, path); err != nil {
		first.Notes = append(first.Notes, fmt.Sprintf("A longer recording could not be kept: %v", err))
		return first
	}
	d.Notes = append(d.Notes, fmt.Sprintf("The first recording held only %d requests with a p99 of %.0f ms; this one was made for %s.", first.Requests.Count, float64(first.Requests.P99NS)/1e6, longer))
	return d
}

// enough returns how long to record again, or 0 if the recording suffices.
func enough(d *report.Diagnosis, asked time.Duration) time.Duration {
	took := time.Duration(d.DurationNS)
	if took <= 0 || took < asked/2 || d.Requests.Count == 0 || len(d.Windows) > 1 {
		return 0 // cut short, or nothing to wait for
	}
	need := max(time.Duration(float64(took)*EnoughRequests/float64(d.Requests.Count)), time.Duration(EnoughP99*d.Requests.P99NS))
	need = min(need, MaxFor)
	if float64(need) < 1.2*float64(took) {
		return 0
	}
	return need.Round(time.Second)
}

func record(ctx context.Context, target, path string, o Options) (*report.Diagnosis, error) {
	result, err := Record(ctx, target, path, o.RecordOptions)
	if err != nil {
		return nil, err
	}
	if o.Analysing != nil {
		o.Analysing()
	}
	in, err := evidence.Open(path, evidence.Options{MaxTrace: MaxTrace})
	if err != nil {
		return nil, fmt.Errorf("read back the recording: %w", err)
	}
	defer in.Close()
	d, err := Analyse(in, o.Analyse)
	if d != nil && result != nil {
		d.Lost.Advice = result.Advice
	}
	return d, err
}

// IsFile reports whether a target names a file rather than an endpoint: it exists,
// or it is written as only files are.
func IsFile(target string) bool {
	if strings.Contains(target, "://") {
		return false
	}
	if _, err := os.Stat(target); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if filepath.IsAbs(target) || strings.HasPrefix(target, "./") || strings.HasPrefix(target, "../") {
		return true
	}
	switch filepath.Ext(target) {
	case ".whylate", ".out", ".trace", ".gz":
		return true
	}
	return false
}
