package diagnose

import (
	"context"
	"errors"
	"io"

	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
)

// askDependencies asks the dependencies of a target while it is recorded. The
// function that it returns asks for the second time and enters everything in the
// incident: it has to be called when recording is over. What fails is noted there: a
// trace without a dependency's word is worth keeping.
func askDependencies(ctx context.Context, w *evidence.Writer, targets []dependency.Target) (stop func()) {
	if len(targets) == 0 {
		return func() {}
	}
	r := dependency.Start(ctx, targets)
	return func() {
		var to io.Writer = io.Discard
		mem, err := w.Member(evidence.MemberDependency)
		if err == nil {
			to = mem
		}
		said, stopErr := r.Stop(to)
		if err == nil {
			err = errors.Join(stopErr, mem.Close())
		}
		if err != nil {
			notRecorded(w, "dependencies", err.Error(), "")
		}
		w.Edit(func(m *evidence.Manifest) {
			for i := range said {
				s := &said[i]
				if s.Asked > 0 {
					m.Cost.Asked = append(m.Cost.Asked, evidence.Asked{What: s.Name(), Commands: s.Asked, NS: s.AskedNS})
				}
				for _, x := range s.Missing {
					m.NotRecorded = append(m.NotRecorded, evidence.NotRecorded{What: s.Name(), Why: x.What + ": " + x.Why, Command: x.Command})
				}
			}
		})
	}
}

// dependencies returns what dependencies said of themselves, nil if none was asked.
func dependencies(in *evidence.Incident) ([]dependency.Server, error) {
	if !in.Has(evidence.MemberDependency) {
		return nil, nil
	}
	r, err := in.Member(evidence.MemberDependency)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return dependency.Read(r)
}

// asked is what asking them cost.
func asked(m *evidence.Manifest) []report.Asked {
	var out []report.Asked
	for _, a := range m.Cost.Asked {
		out = append(out, report.Asked{What: a.What, Commands: a.Commands, NS: a.NS})
	}
	return out
}
