package redact

import (
	"compress/gzip"
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"github.com/whylate/whylate/evidence"
)

// maxProfile bounds a profile in bytes when it is unpacked, as the diagnosis does.
const maxProfile = 32 << 20

// profile copies a profile of pprof: its numbers, addresses of code and lines stay.
func (r *redactor) profile(w io.Writer, from io.Reader) error {
	z, err := gzip.NewReader(from) // not left to the parser: it unpacks without bound
	if err != nil {
		return fmt.Errorf("unpack: %w: %w", evidence.ErrMalformed, err)
	}
	data, err := io.ReadAll(io.LimitReader(z, maxProfile+1))
	if err != nil {
		return fmt.Errorf("unpack: %w: %w", evidence.ErrMalformed, err)
	}
	if len(data) > maxProfile {
		return fmt.Errorf("more than %d bytes: %w", maxProfile, evidence.ErrTooLarge)
	}
	p, err := profile.ParseUncompressed(data)
	if err != nil {
		return fmt.Errorf("parse: %w: %w", evidence.ErrMalformed, err)
	}
	for _, t := range append(p.SampleType, p.PeriodType) {
		if t != nil {
			t.Type, t.Unit = r.measure(t.Type), r.measure(t.Unit)
		}
	}
	p.DefaultSampleType = r.measure(p.DefaultSampleType)
	p.Comments, p.DocURL, p.DropFrames, p.KeepFrames = nil, "", "", ""
	for _, m := range p.Mapping {
		m.File, m.BuildID, m.KernelRelocationSymbol = r.file(m.File), r.name(m.BuildID), r.name(m.KernelRelocationSymbol)
	}
	for _, f := range p.Function {
		f.Name, f.SystemName, f.Filename = r.symbol(f.Name), r.symbol(f.SystemName), r.file(f.Filename)
	}
	for _, s := range p.Sample {
		r.labels(s)
	}
	return p.Write(w)
}

// measure keeps the names that profiles of Go have for what they measure.
func (r *redactor) measure(s string) string {
	return r.known(s, "cpu", "samples", "count", "nanoseconds", "bytes", "alloc_objects", "alloc_space", "inuse_objects", "inuse_space",
		"objects", "space", "contentions", "delay", "goroutine", "threadcreate", "wall", "seconds")
}

// labels hashes keys and values of labels; those of the runtime, of sizes, are numbers.
func (r *redactor) labels(s *profile.Sample) {
	labels := make(map[string][]string, len(s.Label))
	for k, values := range s.Label {
		for i, v := range values {
			values[i] = r.name(v)
		}
		labels[r.name(k)] = values
	}
	numbers, units := make(map[string][]int64, len(s.NumLabel)), make(map[string][]string, len(s.NumUnit))
	for k, values := range s.NumLabel {
		numbers[r.measure(k)] = values
	}
	for k, values := range s.NumUnit {
		for i, v := range values {
			values[i] = r.measure(v)
		}
		units[r.measure(k)] = values
	}
	s.Label, s.NumLabel, s.NumUnit = labels, numbers, units
}
