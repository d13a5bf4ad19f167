package diagnose

import (
	"fmt"

	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/timeline"
)

// windows are the diagnoses of the parts of a trace. Of all but the worst only the numbers are kept.
type windows struct {
	n     int
	bytes int64 // of the trace
	list  []report.Window
	worst *report.Diagnosis
	at    int     // of the worst
	most  float64 // the time that slow requests took together there
}

func (w *windows) add(d *report.Diagnosis, t *timeline.Timeline, origin timeline.Time) {
	r := &d.Requests
	x := report.Window{
		FromNS: int64(t.Start - origin), ToNS: int64(t.End - origin),
		Requests: r.Count, P50NS: r.P50NS, P99NS: r.P99NS, MaxNS: r.MaxNS, Verdict: d.Verdict,
	}
	if len(d.Findings) > 0 {
		x.Cause, x.Share = d.Findings[0].Cause, d.Findings[0].Share
	}
	w.n++
	w.bytes += t.Bytes
	w.list = append(w.list, x)
	if most := float64(r.Tail.Count) * float64(r.Tail.MeanNS); w.worst == nil || most > w.most {
		w.worst, w.at, w.most = d, w.n-1, most
	}
}

// overall is the diagnosis of the trace: that of the worst window, with what is known of the
// others beside it.
func (w *windows) overall() *report.Diagnosis {
	d := w.worst
	if w.n == 1 {
		return d
	}
	w.list[w.at].Worst = true
	d.Windows = w.list
	worst, last := &w.list[w.at], &w.list[w.n-1]
	d.DurationNS = last.ToNS
	d.Sentence = fmt.Sprintf("In the worst of %d windows (%.1f to %.1f s of %.1f): %s", w.n, float64(worst.FromNS)/1e9, float64(worst.ToNS)/1e9, float64(last.ToNS)/1e9, d.Sentence)
	return d
}
