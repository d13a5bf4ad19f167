package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/timeline"
)

// windows are the diagnoses of the parts of a trace, or of recordings. Of all but the worst only
// the numbers are kept.
type windows struct {
	list  []window
	worst *report.Diagnosis
	at    int     // of the worst
	most  float64 // the time that slow requests took together there
	told  bool    // there were enough of them to say why
	fine  bool    // it is a recording of its own, and healthy: one that is not is worse
	// few is the most that slow requests took in a window with too few requests to say why; counted
	// are the requests of the others.
	few     float64
	counted int
}

// mostCounted is the part of all requests that must be in windows with enough of them.
const mostCounted = 0.8

// thin reports whether windows are so short that not the worst, but one with enough requests was
// diagnosed, or that requests are open at the end of one that another has the end of.
func (w *windows) thin() bool {
	all, open := 0, false
	for i, x := range w.list {
		all += x.Requests
		open = open || i < len(w.list)-1 && x.hang > 0
	}
	return len(w.list) > 1 && (!w.told || w.few > w.most || float64(w.counted) < mostCounted*float64(all) || open)
}

// window is one of them.
type window struct {
	report.Window
	episodes int // of its tail
	hang     int // requests
}

// add adds a diagnosis, of the time between two instants in nanoseconds.
func (w *windows) add(d *report.Diagnosis, file string, from, to int64) {
	r := &d.Requests
	x := report.Window{File: file, FromNS: from, ToNS: to, Requests: r.Count, P50NS: r.P50NS, P99NS: r.P99NS, MaxNS: r.MaxNS, Verdict: d.Verdict}
	if len(d.Findings) > 0 {
		x.Cause, x.Share = d.Findings[0].Cause, d.Findings[0].Share
	}
	w.list = append(w.list, window{x, r.Tail.Episodes, r.InFlight})
	told := d.Reason != "few-requests" && d.Reason != "no-requests" && d.Reason != "no-trace" && d.Reason != "lost"
	one := windows{worst: d, at: len(w.list) - 1, most: float64(r.Tail.Count) * float64(r.Tail.MeanNS), told: told, fine: file != "" && d.Verdict == report.VerdictHealthy}
	if told {
		one.counted = r.Count
	} else {
		one.few = one.most
	}
	w.better(&one)
}

// better takes over the worst window of others if it is worse, and adds their numbers.
func (w *windows) better(o *windows) {
	w.few, w.counted = max(w.few, o.few), w.counted+o.counted
	worse := o.told && !w.told
	if o.told == w.told {
		worse = w.fine && !o.fine || w.fine == o.fine && o.most > w.most
	}
	if w.worst == nil || worse {
		w.worst, w.at, w.most, w.told, w.fine = o.worst, o.at, o.most, o.told, o.fine
	}
}

// marked returns the windows in order of time.
func (w *windows) marked() []report.Window {
	var out []report.Window
	for i, x := range w.list {
		x.Worst = i == w.at
		out = append(out, x.Window)
	}
	slices.SortStableFunc(out, func(a, b report.Window) int { return cmp.Compare(a.FromNS, b.FromNS) })
	return out
}

// others says in how many windows, beside the worst one, the cause that its sentence states is named
// first, "" if in none or if it states none. What is an incident in the worst one is a pattern if all of them have episodes enough, those of a
// trace without one for each that follows another: an episode may go on there.
func (w *windows) others() string {
	if len(w.worst.Findings) == 0 {
		return ""
	}
	f, n, episodes := &w.worst.Findings[0], -1, 0
	for i := range w.list {
		if w.list[i].Cause != f.Cause {
			continue
		}
		n++
		episodes += w.list[i].episodes
		if i > 0 && w.list[i].File == "" && w.list[i-1].Cause == f.Cause {
			episodes--
		}
	}
	if n > 0 && episodes >= cause.Pattern {
		f.Repeats()
	}
	stated := w.worst.Verdict == report.VerdictCause || w.worst.Reason == "level" && f.Contrast == cause.LevelContrast
	switch {
	case n == 0, !stated:
		return ""
	case n == 1:
		return ", as in another one"
	}
	return fmt.Sprintf(", as in %d others", n)
}

// traceWindows are the windows of a trace.
type traceWindows struct {
	windows
	origin timeline.Time
	bytes  int64                 // of the trace
	lost   *gotrace.CorruptError // the first damage
	check  report.Check
}

func (w *traceWindows) add(d *report.Diagnosis, t *timeline.Timeline) {
	w.bytes += t.Bytes
	if d.Check != nil {
		w.checked(d.Check)
	}
	w.windows.add(d, "", int64(t.Start-w.origin), int64(t.Until-w.origin))
}

func (w *traceWindows) checked(c *report.Check) {
	w.check.Requests += c.Requests
	w.check.WorstNS, w.check.MaxDepth = max(w.check.WorstNS, c.WorstNS), max(w.check.MaxDepth, c.MaxDepth)
}

// join adds the windows of a section, which come behind.
func (w *traceWindows) join(s *traceWindows) {
	if w.lost == nil {
		w.lost = s.lost
	}
	if s.worst == nil {
		return
	}
	s.at += len(w.list)
	w.list = append(w.list, s.list...)
	w.better(&s.windows)
	w.bytes += s.bytes
	w.checked(&s.check)
}

// overall is the diagnosis of the trace: that of the worst window, with what is known of the
// others beside it.
func (w *traceWindows) overall() *report.Diagnosis {
	d := w.worst
	n := len(w.list)
	if n == 1 {
		return d
	}
	worst := w.list[w.at]
	if d.Check != nil {
		d.Check = &w.check
	}
	d.Windows = w.marked()
	d.DurationNS = d.Windows[n-1].ToNS
	d.Sentence = fmt.Sprintf("In the worst of %d windows (%.1f to %.1f s of %.1f)%s: %s", n, float64(worst.FromNS)/1e9, float64(worst.ToNS)/1e9, float64(d.DurationNS)/1e9, w.others(), d.Sentence)
	return d
}
