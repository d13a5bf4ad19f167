package diagnose

import (
	"fmt"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/timeline"
)

// sameThreads is the part of the trace's threads that host evidence must know for
// both to be of one process: a local port may be kubectl's, ssh's or a proxy's.
// Threads that live shorter than a sample are missed.
const sameThreads = 0.9

// readHost returns the host samples of an incident; nil without any.
func readHost(in *evidence.Incident) (*host.Recording, error) {
	if !in.Has(evidence.MemberHost) {
		return nil, nil
	}
	r, err := in.Member(evidence.MemberHost)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return host.Read(r)
}

// ofProcess says why host samples are none of the process of a trace, or not of its time; nil
// if they are.
func ofProcess(rec *host.Recording, t *timeline.Timeline) error {
	known, most := map[int64]bool{}, 0
	for i := range rec.Samples {
		most = max(most, rec.Samples[i].NumThreads)
		for _, th := range rec.Samples[i].Threads {
			known[int64(th.Inner())] = true
		}
	}
	n := 0
	for _, id := range t.Threads {
		if known[int64(id)] {
			n++
		}
	}
	complete := most <= len(known) // of very many threads not all are looked at
	if complete && float64(n) < sameThreads*float64(len(t.Threads)) {
		return fmt.Errorf("only %d of the trace's %d threads belong to process %d: it only forwards the port", n, len(t.Threads), rec.Static.PID)
	}
	if s := rec.Span(); s.To <= int64(t.Start) || s.From >= int64(t.End) {
		return fmt.Errorf("the host samples were not taken while the trace ran")
	}
	return nil
}
