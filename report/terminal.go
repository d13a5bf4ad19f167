package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whylate/whylate/cause"
)

// TerminalOptions says what the terminal can show. The zero value is right for a
// pipe or a file: no colour, one line for the sentence.
type TerminalOptions struct {
	// Width is the number of columns of the terminal; lines are laid out for at
	// most 100 and at least 72 of them. 0 means that there is no terminal: lines
	// are laid out for 96 columns and the sentence stays on one line, so that
	// `head -1` prints the answer.
	Width int
	// Color turns on ANSI colours. The caller decides: standard output is a
	// terminal and NO_COLOR is unset.
	Color bool
	// Next, if not empty, is the command to run next.
	Next string
}

const (
	minWidth     = 72
	maxWidth     = 100
	defaultWidth = 96
)

// Bounds for what comes from the target, in columns: a report stays readable
// whatever a symbol table or an endpoint holds.
const (
	maxName     = 100 // a function, endpoint, leaf or cause
	maxFile     = 100
	maxSentence = 600 // the sentence, a summary, a line of evidence or advice
	maxCommand  = 400
	maxItems    = 12 // lines in one list
	maxFindings = 20
	maxRuledOut = 100 // the catalogue has about 50 entries
	maxWindows  = 20
)

// Terminal writes d for a person to read. The first line is the answer in one
// sentence; what follows says how requests were found and how long they took,
// where the excess went (adding up to 100 %), each cause with its evidence and
// its fix, what was ruled out, and what was not recorded. Nothing but the
// colours asked for leaves as a control character, whatever d contains. d is not
// changed; the error is w's.
func Terminal(w io.Writer, d *Diagnosis, opts TerminalOptions) error {
	p := &page{width: defaultWidth, color: opts.Color, next: opts.Next}
	if opts.Width > 0 {
		p.width = min(max(opts.Width, minWidth), maxWidth)
	}
	p.sentence(d, opts.Width > 0)
	p.recording(d)
	p.endpoints(d.Requests.Endpoints)
	for _, a := range accounts(d) {
		p.account(d, a)
	}
	for i, f := range d.Findings {
		if i == maxFindings {
			p.heading(fmt.Sprintf("… and %s more findings", count(int64(len(d.Findings)-i))))
			break
		}
		p.finding(i, f, d.Requests.P99NS)
	}
	for i, k := range d.ConsistentWith {
		if i == maxFindings {
			p.heading(fmt.Sprintf("… and %s more look-alikes", count(int64(len(d.ConsistentWith)-i))))
			break
		}
		p.consistent(k)
	}
	p.windows(d.Windows)
	p.kernel(d.Kernel)
	p.notes(d)
	p.ruledOut(d)
	p.notRecorded(d)
	p.footer(d)
	_, err := io.WriteString(w, p.b.String())
	return err
}

// A page is a report being laid out. Text is quoted before it comes here; style
// is added last, so that colours never count as columns.
type page struct {
	b     strings.Builder
	width int
	color bool
	next  string // command
}

// A style is an SGR parameter (ECMA-48, 8.3.117). Only the eight base colours:
// they follow the user's theme.
type style string

const (
	plain  style = ""
	strong style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

func (p *page) styled(s string, st style) string {
	if !p.color || st == plain || s == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

func (p *page) line(s string) {
	p.b.WriteString(strings.TrimRight(s, " "))
	p.b.WriteByte('\n')
}

func (p *page) heading(s string) {
	p.line("")
	for _, l := range wrap(s, p.width) {
		p.line(p.styled(l, strong))
	}
}

// field writes text behind a name, wrapped into its own column.
func (p *page) field(name, text string) { p.fieldStyled(name, text, plain) }

func (p *page) paragraph(text string) {
	for _, l := range wrap(text, p.width-2) {
		p.line("  " + l)
	}
}

// fieldColumn is where the text of fields begins.
const fieldColumn = 14

func (p *page) fieldStyled(name, text string, st style) {
	if text == "" {
		return
	}
	for _, l := range wrap(text, p.width-fieldColumn) {
		p.line("  " + p.styled(pad(name, fieldColumn-2), faint) + p.styled(l, st))
		name = ""
	}
}

// parts writes several short texts behind a name, as many on a line as fit.
func (p *page) parts(name string, parts []string) {
	line := ""
	for _, s := range parts {
		if line != "" && columns(line)+3+columns(s) > p.width-fieldColumn {
			p.field(name, line)
			name, line = "", ""
		}
		if line != "" {
			line += " · "
		}
		line += s
	}
	p.field(name, line)
}

// list writes items behind a name, each with a bullet.
func (p *page) list(name string, items []string) {
	for i, item := range items {
		if i == maxItems {
			p.field(name, fmt.Sprintf("  … and %s more", count(int64(len(items)-i))))
			return
		}
		bullet := "• "
		for _, l := range wrap(quote(item, maxSentence), p.width-fieldColumn-2) {
			p.line("  " + p.styled(pad(name, fieldColumn-2), faint) + bullet + l)
			name, bullet = "", "  "
		}
	}
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-columns(s)))
}

func padLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-columns(s))) + s
}

func (p *page) sentence(d *Diagnosis, terminal bool) {
	s := quote(d.Sentence, maxSentence)
	if s == "" {
		s = "No sentence was written for this diagnosis; its verdict is " + quote(d.Verdict, maxName) + "."
	}
	st := map[string]style{VerdictCause: red, VerdictHealthy: green, VerdictInconclusive: yellow}[d.Verdict]
	if st != plain {
		st = strong + ";" + st
	}
	lines := []string{s}
	if terminal {
		lines = wrap(s, p.width)
	}
	for _, l := range lines {
		p.line(p.styled(l, st))
	}
}

// reasons says what an inconclusive verdict means and what to do about it.
var reasons = map[string]string{
	"few-requests": "too few finished requests for a tail; record longer (--for) or under load",
	"lost":         "what is left of the recording is healthy, but most of it is lost; record again, to the end",
	"no-requests":  "no request was found; say which function is one: --request func=REGEXP",
	"no-trace":     "no execution trace was recorded; what to add to the program stands below",
	"level":        "every request waits alike; say whether that is too long: --slo 10ms, or --baseline FILE of a good time",
	"look-alikes":  "several causes fit; what to record to separate them stands below",
	"unexplained":  "the causes that hold explain too little of the excess; look at the slowest requests (whylate show)",
	"unresolved":   "too much of the excess could not be followed to anyone; look at the slowest requests (whylate show)",
}

// why says what an inconclusive verdict means: of most of an excess at one place, but for what a
// cause claims that is not certain to matter, or in stops of the process, that too.
func why(d *Diagnosis) string {
	if d.Reason == "unexplained" && strings.Contains(d.Sentence, cause.Suspended) {
		return "nothing in the program, and no cause of the catalogue; look for who stops it: docker pause, a checkpoint, a debugger, kill -STOP"
	}
	if d.Reason == "unexplained" && d.Level == nil {
		at := map[cause.Place]float64{}
		for _, u := range d.Unnamed {
			claimed := slices.ContainsFunc(cause.Entries(), func(e *cause.Entry) bool { return e.Title == u.Leaf })
			if u.Where == nil || u.Where.Function == "" || claimed {
				continue
			}
			if at[*u.Where] += u.Share; at[*u.Where] > cause.ExplainedShare {
				return fmt.Sprintf("what %s does fits no cause of the catalogue; look at its code for what it waits for, and at the slowest requests (whylate show)", quote(cause.ReadableName(u.Where.Function[strings.LastIndex(u.Where.Function, "/")+1:]), maxName))
			}
		}
	}
	return reasons[d.Reason]
}

// recording says what was recorded, how requests were found and how long they took.
func (p *page) recording(d *Diagnosis) {
	p.line("")
	verdict := quote(d.Verdict, maxName)
	if d.Verdict == VerdictCause && len(d.Findings) > 0 {
		verdict += ": " + quote(d.Findings[0].Cause, maxName)
	}
	if d.Reason != "" {
		verdict += " (" + quote(d.Reason, maxName) + ")"
		if why := why(d); why != "" {
			verdict += ": " + why
		}
	}
	p.field("verdict", verdict)
	if p.next != "" {
		p.line("  next" + strings.Repeat(" ", fieldColumn-len("  next")) + "$ " + quote(p.next, maxCommand)) // whole, to be pasted
	}
	p.fieldStyled("lost", lostPart(d.Lost), yellow)
	r := d.Requests
	if r.Count == 0 {
		p.field("requests", "none found")
	} else {
		p.parts("latency", latency(r))
		p.field("requests", requests(d))
		p.field("bands", bands(d))
	}
	if r.InFlight > 0 {
		p.field("in flight", fmt.Sprintf("%s at the end, the oldest since %s; latency and bands are of these, too", counted(r.InFlight, "more request"), duration(r.OldestNS)))
	}
	if r.ArrivalNS > 0 {
		p.field("arrival", fmt.Sprintf("tail requests had been waiting about %s before the first sign of them (an estimate, not part of the durations)", duration(r.ArrivalNS)))
	}
	if l := d.Level; l != nil {
		against := quote(l.Against, maxName)
		if against == "" {
			against = "zero"
		}
		p.field("level", fmt.Sprintf("the median request takes %s, %s of it not on its own CPU (compared with %s)", duration(l.MedianNS), percent(l.WaitShare), against))
	}
	p.parts("classes", classes(r.Classes))
	p.parts("left out", classes(r.Excluded))
	p.parts("target", target(d))
}

// endpoints is a table of how long the requests of each endpoint took.
func (p *page) endpoints(all []Endpoint) {
	if len(all) == 0 {
		return
	}
	p.heading("Endpoints, those with most of the slow requests first")
	presumed := 0
	for _, e := range all {
		presumed += e.Presumed
	}
	row := func(slow, requests, guessed string, times ...string) string {
		line := padLeft(quote(slow, 7), 8) + padLeft(quote(requests, 9), 10)
		if presumed > 0 {
			line += padLeft(quote(guessed, 9), 10)
		}
		for _, t := range times {
			line += padLeft(quote(t, 8), 9)
		}
		return line + "  "
	}
	p.line(p.styled(strings.TrimRight(row("slow", "requests", "presumed", "p50", "p99", "max"), " "), faint))
	for _, e := range all[:min(len(all), maxItems)] {
		r := row(count(int64(e.Slow)), count(int64(e.Count)), count(int64(e.Presumed)), duration(e.P50NS), duration(e.P99NS), duration(e.MaxNS))
		p.line(r + quoteEnd(e.Endpoint, p.width-columns(r)))
	}
	if n := len(all) - maxItems; n > 0 {
		p.line(fmt.Sprintf("  … and %s more (-o json has %d)", count(int64(n)), len(all)))
	}
	if presumed > 0 {
		p.paragraph(fmt.Sprintf("The endpoint of %s is presumed, from how long they took: the trace shows nothing that their handlers did, and they may be of any other that is as fast.", counted(presumed, "request")))
	}
}

// lostPart says what of the recording is missing, "" if nothing is.
func lostPart(l Lost) string {
	if l.Bytes == 0 && l.Detail == "" {
		return ""
	}
	s := "a part"
	if l.Bytes != 0 {
		s = size(l.Bytes)
	}
	s += " of the recording"
	if l.Detail != "" {
		s += ": " + quote(l.Detail, maxSentence)
	}
	return s
}

func latency(r Requests) []string {
	parts := []string{"p50 " + duration(r.P50NS), "p90 " + duration(r.P90NS), "p99 " + duration(r.P99NS)}
	if r.Count >= 1000 { // below, it is the maximum
		parts = append(parts, "p99.9 "+duration(r.P999NS))
	}
	return append(parts, "max "+duration(r.MaxNS))
}

func requests(d *Diagnosis) string {
	r := d.Requests
	s := count(int64(r.Count))
	if in := d.CountedNS(); in != d.DurationNS {
		s += " in the " + duration(in) + " of the worst window"
	}
	if r.FoundBy != "" {
		s += ", found by " + quote(r.FoundBy, maxName)
	}
	if r.Clock != "" {
		s += "; clock: " + quote(r.Clock, maxName)
	}
	return s
}

func bands(d *Diagnosis) string {
	t, m := d.Requests.Tail, d.Requests.Typical
	if t.Count == 0 {
		return ""
	}
	s := fmt.Sprintf("tail: the slowest %s, mean %s", count(int64(t.Count)), duration(t.MeanNS))
	if t.Episodes > 0 {
		s += ", in " + counted(t.Episodes, "episode")
	}
	return s + fmt.Sprintf("; typical: %s, mean %s; excess %s", count(int64(m.Count)), duration(m.MeanNS), duration(d.ExcessNS))
}

func classes(cs []Class) []string {
	var parts []string
	for i, c := range cs {
		if i == maxItems {
			parts = append(parts, fmt.Sprintf("… and %s more", count(int64(len(cs)-i))))
			break
		}
		s := quote(c.Class, maxName) + " " + count(int64(c.Count))
		if c.P99NS > 0 {
			s += " (p99 " + duration(c.P99NS) + ")"
		}
		parts = append(parts, s)
	}
	return parts
}

func target(d *Diagnosis) []string {
	t := d.Target
	var parts []string
	add := func(ok bool, s string) {
		if ok && s != "" {
			parts = append(parts, s)
		}
	}
	add(true, quote(t.URL, maxName))
	add(true, quoteEnd(t.File, maxFile))
	add(t.PID != 0, fmt.Sprintf("pid %d", t.PID))
	add(true, quote(t.Go, maxName))
	add(t.GOMAXPROCS != 0, fmt.Sprintf("GOMAXPROCS %d", t.GOMAXPROCS))
	add(d.DurationNS > 0, "recorded "+duration(d.DurationNS))
	add(!d.Started.IsZero(), "from "+d.Started.Format("2006-01-02 15:04:05 MST"))
	return parts
}

// account writes the table that adds up to 100 %.
func (p *page) account(d *Diagnosis, a account) {
	switch excess := excessOf(d, a.contrast); {
	case a.contrast == level:
		p.heading("Where every request's time goes")
	case excess > 0:
		p.heading("Where the extra " + duration(excess) + " of the slow requests go")
	default:
		p.heading("Where the slow requests' extra time goes")
	}
	bar := 8
	switch {
	case p.width >= 90:
		bar = 20
	case p.width >= 80:
		bar = 14
	}
	const share, excess, bounds = 9, 11, 14
	label := p.width - 2 - share - 2 - bar - 4 - excess - bounds
	p.line(p.styled("  "+padLeft("share", share)+strings.Repeat(" ", 2+bar+4+label)+padLeft("excess", excess)+padLeft("90 % interval", bounds), faint))
	for _, r := range a.rows {
		st := map[rowKind]style{rowNamed: red, rowConsistent: yellow, rowRest: faint}[r.kind]
		lines := wrap(r.label, label)
		if len(lines) == 0 {
			lines = []string{""}
		}
		if len(lines) > 3 {
			lines = append(lines[:2], quote(lines[2]+" …", label))
		}
		took := ""
		if r.excess != 0 {
			took = duration(r.excess)
		}
		p.line("  " + padLeft(tenths(r.tenths), share) + "  " + p.styled(pad(barOf(r, bar), bar), st) + "  " +
			p.styled(r.mark, st) + " " + p.labelled(lines[0], r.kind) + pad("", label-columns(lines[0])) + padLeft(took, excess) + padLeft(r.interval, bounds))
		for _, l := range lines[1:] {
			p.line(strings.Repeat(" ", 2+share+2+bar+4) + p.labelled(l, r.kind))
		}
	}
	p.line("  " + strings.Repeat("─", share))
	p.line("  " + padLeft(tenths(a.total), share))
	switch {
	case a.cut():
		p.fieldStyled("", "Shares beyond 1000 % are not written out: the slow requests take hardly longer than typical ones.", faint)
	case a.total != 1000:
		p.fieldStyled("", "These parts should add up to 100 %: a defect of whylate, please report it.", red)
	}
}

func (p *page) labelled(s string, k rowKind) string {
	if k == rowRest {
		return p.styled(s, faint)
	}
	return p.styled(s, strong)
}

// barOf draws a row's share in eighths of a column; the whole is width columns.
// What is printed as 0.0 % has no bar, what is printed as more has one.
func barOf(r row, width int) string {
	n := int(min(max(r.share, 0), 1)*float64(width)*8 + 0.5)
	if r.tenths <= 0 {
		n = 0
	} else {
		n = max(n, 1)
	}
	s := strings.Repeat("█", n/8)
	if n%8 > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[n%8-1])
	}
	return s
}

// markOf numbers findings, so that the table leads to the details.
func markOf(i int) string {
	if i > 8 {
		return "+"
	}
	return fmt.Sprint(i + 1)
}

func (p *page) finding(i int, f cause.Finding, p99 int64) {
	p.line("")
	p.title(markOf(i), quote(f.Cause, maxName), red)
	p.paragraph(quote(f.Summary, maxSentence))
	if f.P99WithoutNS > 0 {
		p.field("p99", duration(cmp.Or(f.P99NS, p99))+" → "+duration(f.P99WithoutNS)+" without it")
	}
	p.fieldStyled("where", place(f.Where), strong)
	p.field("via", joined(f.Via, " → "))
	p.list("evidence", f.Evidence)
	p.list("fix", f.Fix)
	p.field("verify", quote(f.Verify, maxSentence))
	p.field("confidence", confidence(f))
	p.field("examples", joined(f.Examples, ", "))
}

func (p *page) title(mark, name string, st style) {
	for _, l := range wrap(name, p.width-2) {
		p.line(p.styled(mark, st) + " " + p.styled(l, strong))
		mark = " "
	}
}

func confidence(f cause.Finding) string {
	var parts []string
	if f.Confidence != "" {
		parts = append(parts, quote(f.Confidence, maxName))
	}
	switch f.Pattern {
	case "":
	case "one-incident":
		parts = append(parts, "seen in fewer than five separate episodes: record longer to be sure")
	default:
		parts = append(parts, quote(f.Pattern, maxName))
	}
	if f.ShareLow == nil || f.ShareHigh == nil {
		parts = append(parts, "no interval: the recording is too short for one")
	}
	return strings.Join(parts, "; ")
}

// place writes function and file:line.
func place(w *cause.Place) string {
	if w == nil {
		return ""
	}
	s := quote(cause.ReadableName(w.Function), maxName)
	if w.File != "" {
		file := quoteEnd(w.File, maxFile)
		if w.Line > 0 {
			file += fmt.Sprintf(":%d", w.Line)
		}
		s += " at " + file
	}
	return s
}

func joined(names []string, between string) string {
	var parts []string
	for i, n := range names {
		if i == maxItems {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, quote(n, maxName))
	}
	return strings.Join(parts, between)
}

func (p *page) consistent(k cause.Consistent) {
	p.line("")
	p.title("?", alternatives(k), yellow)
	p.paragraph(quote(k.Summary, maxSentence))
	p.fieldStyled("where", place(k.Where), strong)
	p.list("evidence", k.Evidence)
	p.field("to decide", quote(k.Record, maxSentence))
}

func (p *page) notes(d *Diagnosis) {
	if len(d.Notes) == 0 {
		return
	}
	p.heading("Notes")
	for i, n := range d.Notes {
		if i == maxItems {
			p.line(fmt.Sprintf("  … and %s more", count(int64(len(d.Notes)-i))))
			break
		}
		bullet := "  • "
		for _, l := range wrap(quote(n, maxSentence), p.width-4) {
			p.line(bullet + l)
			bullet = "    "
		}
	}
}

// windows lists the parts of a trace that were diagnosed one by one, of very many only the worst.
func (p *page) windows(all []Window) {
	if len(all) == 0 {
		return
	}
	what := "Windows"
	if all[0].File != "" {
		what = "Recordings"
	}
	p.heading(fmt.Sprintf("%s (%s, by time; all above is of the one marked)", what, count(int64(len(all)))))
	show := make([]bool, len(all))
	by := make([]int, len(all))
	for i := range by {
		by[i] = i
	}
	slices.SortStableFunc(by, func(a, b int) int {
		switch {
		case all[a].Worst:
			return -1
		case all[b].Worst:
			return 1
		}
		return cmp.Compare(all[b].P99NS, all[a].P99NS)
	})
	for _, i := range by[:min(len(by), maxWindows)] {
		show[i] = true
	}
	for i, w := range all {
		if !show[i] {
			continue
		}
		name := fmt.Sprint(i + 1)
		if w.Worst {
			name += " ▶"
		}
		what := quote(w.Verdict, maxName)
		if w.Cause != "" {
			what = quote(w.Cause, maxName) + " " + percent(w.Share)
		}
		file := ""
		if w.File != "" {
			file = quoteEnd(filepath.Base(w.File), maxFile) + " · "
		}
		p.field(name, file+fmt.Sprintf("%.1f to %.1f s · %s · p50 %s · p99 %s · %s", float64(w.FromNS)/1e9, float64(w.ToNS)/1e9,
			counted(w.Requests, "request"), duration(w.P50NS), duration(w.P99NS), what))
	}
	if n := len(all) - maxWindows; n > 0 {
		p.line(fmt.Sprintf("  … and %s more with a smaller p99 (-o json has all)", count(int64(n))))
	}
}

// ruledOut writes the elimination table, and before it what only was not named.
func (p *page) ruledOut(d *Diagnosis) {
	var fits, out []cause.RuledOut
	for _, r := range eliminated(d.RuledOut) {
		if r.Fits {
			fits = append(fits, r)
		} else {
			out = append(out, r)
		}
	}
	p.suspects("Possible, but too small or too uncertain to be named", fits)
	p.suspects("Ruled out", out)
}

// folded replaces the entries of each group that nothing can be told of by one
// row, the group's last.
func folded(rs []cause.RuledOut) (out []cause.RuledOut) {
	for i := 0; i < len(rs); {
		group := suspectOf(rs[i].Cause).group
		var absent []string
		for ; i < len(rs) && suspectOf(rs[i].Cause).group == group; i++ {
			if rs[i].Absent {
				absent = append(absent, rs[i].Cause)
			} else {
				out = append(out, rs[i])
			}
		}
		if len(absent) > 0 {
			out = append(out, cause.RuledOut{Cause: absent[0], Because: strings.Join(absent, " · "), Absent: true})
		}
	}
	return out
}

func (p *page) suspects(heading string, rs []cause.RuledOut) {
	if len(rs) == 0 {
		return
	}
	p.heading(heading)
	rs = folded(rs)
	const group, name, value = 15, 23, 8
	because := p.width - 2 - group - name - value - 2
	last := ""
	for i, r := range rs {
		if i == maxRuledOut {
			p.line(fmt.Sprintf("  … and %s more", count(int64(len(rs)-i))))
			break
		}
		g := suspectOf(r.Cause).group
		if g == last {
			g = ""
		} else {
			last = g
		}
		if r.Absent {
			text := fmt.Sprintf("nothing, or below %.0f %% of the excess: %s", 100*cause.AbsentShare, r.Because)
			for _, l := range wrap(quote(text, maxSentence), p.width-2-group) {
				p.line("  " + p.styled(pad(g, group), faint) + p.styled(l, faint))
				g = ""
			}
			continue
		}
		lines := wrap(quote(r.Because, 3*because), because)
		if len(lines) == 0 {
			lines = []string{""}
		}
		p.line("  " + p.styled(pad(g, group), faint) + pad(quote(r.Cause, name-1), name) + padLeft(number(r.Number), value) + "  " + p.styled(lines[0], faint))
		for _, l := range lines[1:] {
			p.line(strings.Repeat(" ", p.width-because) + p.styled(l, faint))
		}
	}
}

func (p *page) notRecorded(d *Diagnosis) {
	if len(d.NotRecorded) == 0 {
		return
	}
	p.heading("Not recorded")
	for i, n := range d.NotRecorded {
		if i == maxItems {
			p.line(fmt.Sprintf("  … and %s more", count(int64(len(d.NotRecorded)-i))))
			break
		}
		why := quote(n.Why, maxSentence)
		if why == "" {
			why = "no reason was given"
		}
		name := quote(n.What, maxName)
		if columns(name) > fieldColumn-3 {
			name, why = "", name+": "+why
		}
		p.field(name, why)
		if n.Command != "" {
			// Never wrapped: it is there to be copied.
			p.line(strings.Repeat(" ", fieldColumn) + p.styled(prompt(n.Command)+quote(n.Command, maxCommand), strong))
		}
	}
}

func (p *page) footer(d *Diagnosis) {
	p.line("")
	if c := d.Check; c != nil {
		if c.WorstNS == 0 {
			p.field("check", fmt.Sprintf("the leaves of %s add up to its duration to the nanosecond; deepest chain of wakers %s",
				each(c.Requests), count(int64(c.MaxDepth))))
		} else {
			p.fieldStyled("check", fmt.Sprintf("FAILED: over %s the leaves miss the duration by up to %s; please report it", counted(c.Requests, "request"), duration(c.WorstNS)), red)
		}
	}
	if lostPart(d.Lost) == "" { // else it stands above: all is of the rest only
		p.field("lost", "nothing")
	}
	cost := "analysis " + duration(nanoseconds(d.Cost.AnalyseS))
	if d.Cost.RecordCPU > 0 { // of a bare trace it is not known
		cost = fmt.Sprintf("recording %s of one CPU, %s", percent(d.Cost.RecordCPU), cost)
	}
	if d.Cost.ProbeCPU > 0 {
		cost += fmt.Sprintf(" · probes in the kernel %s of one CPU", percent(d.Cost.ProbeCPU))
	}
	for _, a := range d.Cost.Asked[:min(len(d.Cost.Asked), maxItems)] {
		cost += fmt.Sprintf(" · %s asked %s, which took it %s at most", quote(a.What, maxName), counted(a.Commands, "question"), duration(a.NS))
	}
	if d.Tool != "" {
		cost += " · whylate " + quote(d.Tool, maxName)
	}
	p.field("cost", cost)
}

func each(n int) string {
	if n == 1 {
		return "the one request"
	}
	return "each of " + count(int64(n)) + " requests"
}

// nanoseconds converts seconds, of which a file may claim any number.
func nanoseconds(s float64) int64 {
	if math.IsNaN(s) {
		return 0
	}
	return int64(min(max(s, 0), 1e9) * 1e9)
}

// prompt marks what is to be typed into a shell; what is to be added to a program
// has none.
func prompt(command string) string {
	if strings.Contains(command, "(") || strings.HasPrefix(command, "-") || !strings.Contains(command, " ") {
		return "→ "
	}
	return "$ "
}
