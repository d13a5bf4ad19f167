package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/whylate/whylate/capture/kernel/events"
)

// Kernel is what probes in the kernel counted. It decides nothing here: it is for who
// wants to look.
type Kernel struct {
	// RunQueue is how long threads wanted a CPU, over the recording.
	RunQueue *events.HeatMap `json:"run_queue,omitempty"`
	// The others are for that part of the recording in which they were counted.
	Clock   *events.Readings    `json:"clock,omitempty"`
	Cgo     *events.CgoCalls    `json:"cgo,omitempty"`
	Alloc   *events.Allocs      `json:"alloc,omitempty"`
	GC      *events.Cycles      `json:"gc,omitempty"`
	Gosched *events.Goroutines  `json:"gosched,omitempty"`
	TCP     *events.Connections `json:"tcp,omitempty"`
	Func    *events.Calls       `json:"func,omitempty"`
	// FuncTimes is how long the calls that Func counts took; nil if none ended.
	FuncTimes *CallTimes `json:"func_times,omitempty"`
}

// CallTimes is how long calls took that ended, and how many had not.
type CallTimes struct {
	Ended int   `json:"ended"`
	P50NS int64 `json:"p50_ns"`
	P90NS int64 `json:"p90_ns"`
	P99NS int64 `json:"p99_ns"`
	MaxNS int64 `json:"max_ns"`
	// Open is how many had not ended when the probes were removed, OldestNS how long the one
	// that began first had taken until then.
	Open     int   `json:"open"`
	OldestNS int64 `json:"oldest_ns"`
}

const (
	// worthShowing is the wait for a CPU from which on the map of all is printed.
	worthShowing = 1_000_000
	// mapFrom is the slot with which the rows of maps begin, a microsecond; each is for
	// mapRow slots.
	mapFrom, mapRow = 10, 2
)

// shades are from none to most, of which each is for about four times as many.
const shades = " .:-=+*#%@"

// kernel prints what was counted, as far as it is worth a look.
func (p *page) kernel(k *Kernel) {
	if k == nil {
		return
	}
	if m := k.RunQueue; m != nil && longest(m.Columns) >= worthShowing {
		p.heading("Waits for a CPU")
		p.paragraph(fmt.Sprintf("each column is %s of the recording, each row how long a thread was ready to run: from so long to four times as long", duration(m.StepNS)))
		p.heat(m.Columns)
	}
	if c := k.Clock; c != nil && c.Calls > 0 {
		p.heading("System calls that read the clock")
		p.field("calls", fmt.Sprintf("%s in %s, %s each in the kernel, the longest %s", count(c.Calls), duration(c.ToNS-c.FromNS), duration(c.NS/c.Calls), duration(c.MaxNS)))
		for i, x := range c.Callers[:min(len(c.Callers), 3)] {
			p.field([]string{"from", ""}[min(i, 1)], path(x.Stack))
		}
	}
	if c := k.Cgo; c != nil {
		p.heading("Calls into C")
		p.burst(&c.Burst)
		for _, f := range c.Functions[:min(len(c.Functions), maxItems)] {
			p.cFunction(&f)
		}
		if more := c.More + max(0, len(c.Functions)-maxItems); more > 0 {
			p.line(fmt.Sprintf("  … and %s more", count(int64(more))))
		}
	}
	if g := k.GC; g != nil {
		p.heading("Cycles of the garbage collector")
		p.burst(&g.Burst)
		if g.N > 0 {
			p.field("marking", fmt.Sprintf("%s, %s of the time, the longest %s", counted(int(g.N), "time"), percent(float64(g.NS)/float64(max(g.ToNS-g.FromNS, 1))), duration(g.MaxNS)))
		}
	}
	if w := k.Gosched; w != nil {
		p.heading("Waits of runnable goroutines")
		p.burst(&w.Burst)
		if w.N > 0 {
			p.field("waits", fmt.Sprintf("%s, mean %s, 99 %% below %s, the longest %s (goroutine %d)", count(w.N), duration(w.NS/w.N), duration(below(w.Histogram, 0.99)), duration(w.MaxNS), w.Goroutine))
		}
	}
	if f := k.Func; f != nil {
		p.heading("Calls of the named function")
		p.burst(&f.Burst)
		s := fmt.Sprintf("%s of %s", count(f.Calls), quote(strings.Join(f.Functions[:min(len(f.Functions), maxItems)], ", "), maxSentence))
		if f.Skipped > 0 {
			s += fmt.Sprintf("; in %s more that match there is no place for probes", count(int64(f.Skipped)))
		}
		p.field("calls", s)
		if t := k.FuncTimes; t != nil {
			s := fmt.Sprintf("p50 %s · p90 %s · p99 %s · max %s", duration(t.P50NS), duration(t.P90NS), duration(t.P99NS), duration(t.MaxNS))
			if t.Open > 0 {
				s += fmt.Sprintf("; %s not ended when the probes went, the oldest after %s", count(int64(t.Open)), duration(t.OldestNS))
			}
			p.field("took", s)
		}
		if f.Unended > 0 {
			p.field("no end", fmt.Sprintf("%s did not return: they panicked, or their goroutines ended in them", counted(int(f.Unended), "call")))
		}
	}
	if t := k.TCP; t != nil && len(t.Connections)+int(min(t.Lost, 1)) > 0 {
		p.connections(t)
	}
	if m := k.Alloc; m != nil {
		p.heading("Sampled allocations")
		p.burst(&m.Burst)
		for _, x := range m.Sites[:min(len(m.Sites), maxItems)] {
			p.field(size(x.Bytes), fmt.Sprintf("%s: %s", counted(int(x.Samples), "sample"), path(x.Stack)))
		}
	}
}

// burst says for how long there were probes in functions, and what they took.
func (p *page) burst(b *events.Burst) {
	s := fmt.Sprintf("for %s; %s of probes, %s each", duration(b.ToNS-b.FromNS), counted(int(b.Hits), "hit"), duration(b.HitNS))
	if b.Short {
		s += "; removed early, because they had taken their share"
	}
	if b.Lost > 0 {
		s += fmt.Sprintf("; %s were not counted, there was no room for them", count(b.Lost))
	}
	p.field("watched", s)
}

// connections lists those that sent something again; that one is reset is how many clients
// and servers end it.
func (p *page) connections(t *events.Connections) {
	p.heading("Connections that sent something again, or were reset")
	var again []events.Connection
	var reset, sent, got int64
	for _, c := range t.Connections {
		if c.Again+c.Syns > 0 {
			again = append(again, c)
		} else {
			reset, sent, got = reset+1, sent+c.ResetsSent, got+c.ResetsGot
		}
	}
	for _, c := range again[:min(len(again), maxItems)] {
		p.connection(&c)
	}
	if more := t.More + max(0, len(again)-maxItems); more > 0 {
		p.line(fmt.Sprintf("  … and %s more", count(int64(more))))
	}
	if reset > 0 {
		p.paragraph(fmt.Sprintf("%s reset: %s sent, %s received", counted(int(reset), "connection"), counted(int(sent), "reset"), count(got)))
	}
	if t.Others+t.OtherResets > 0 {
		p.paragraph(fmt.Sprintf("not assigned: %s sent again and %s in the process's network namespace, of other processes or of connections that it closed at once", counted(int(t.Others), "segment"), counted(int(t.OtherResets), "reset")))
	}
	if t.Lost > 0 {
		p.paragraph(fmt.Sprintf("%s more was not counted: there was no room for it", count(t.Lost)))
	}
}

// connection says what was wrong with one.
func (p *page) connection(c *events.Connection) {
	var list []string
	for _, x := range []struct {
		n    int64
		what string
	}{{c.Again, "segment|sent again"}, {c.Syns, "beginning|sent again"}, {c.ResetsSent, "reset|sent"}, {c.ResetsGot, "reset|received"}} {
		if x.n > 0 {
			noun, verb, _ := strings.Cut(x.what, "|")
			list = append(list, counted(int(x.n), noun)+" "+verb)
		}
	}
	p.paragraph(fmt.Sprintf("%s – %s: %s", quote(c.Local, maxName), quote(c.Remote, maxName), strings.Join(list, ", ")))
}

// cFunction says how long calls of a function of C took.
func (p *page) cFunction(f *events.CFunction) {
	if f.Calls == 0 {
		return
	}
	s := fmt.Sprintf("%s, mean %s, 99 %% below %s, the longest %s (goroutine %d)", counted(int(f.Calls), "call"), duration(f.NS/f.Calls), duration(below(f.Histogram, 0.99)), duration(f.MaxNS), f.Goroutine)
	if b := f.Back; b != nil && b.Calls > 0 {
		s += fmt.Sprintf("; back in Go after another %s, at most %s", duration(b.NS/b.Calls), duration(b.MaxNS))
	}
	name := quote(f.Name, maxName)
	if columns(name) > fieldColumn-3 {
		name, s = "", name+": "+s
	}
	p.field(name, s)
	if len(f.Stack) > 0 {
		p.field("", "the longest from "+path(f.Stack))
	}
	p.line(strings.Repeat(" ", fieldColumn) + strip(f.Histogram))
}

// path is a stack in one line, without what every one has.
func path(s events.Stack) string {
	var list []string
	for _, f := range s {
		if strings.HasPrefix(f, "runtime.") || strings.Contains(f, "._Cfunc_") || strings.Contains(f, "._C2func_") {
			continue
		}
		list = append(list, quote(f, maxName))
	}
	if len(list) == 0 {
		return "the runtime"
	}
	return quote(strings.Join(list[:min(len(list), 4)], " < "), maxSentence)
}

// below is the end of the slot in which a quantile of a histogram lies, in ns.
func below(h events.Histogram, q float64) int64 {
	var sum, n int64
	for _, x := range h {
		sum += x
	}
	for i, x := range h {
		if n += x; float64(n) >= q*float64(sum) {
			return int64(1) << min(i+1, 62)
		}
	}
	return 0
}

// longest is where the last slot of all columns ends, in ns; at least half of it was seen.
func longest(columns []events.Histogram) int64 {
	slots := 0
	for _, c := range columns {
		slots = max(slots, len(c))
	}
	return int64(1) << min(slots, 62)
}

// heat prints histograms beside each other, the longest times on top.
func (p *page) heat(list []events.Histogram) {
	rows := 1
	for _, h := range list {
		rows = max(rows, heatRow(len(h)-1)+1)
	}
	var most int64
	grid := make([][]int64, rows)
	for r := range grid {
		grid[r] = make([]int64, len(list))
		for c, h := range list {
			for i, n := range h {
				if heatRow(i) == r {
					grid[r][c] += n
				}
			}
			most = max(most, grid[r][c])
		}
	}
	for r := rows - 1; r >= 0; r-- {
		var b strings.Builder
		for _, n := range grid[r] {
			b.WriteByte(shade(n, most))
		}
		p.line(fmt.Sprintf("  %10s |%s|", duration(heatFrom(r)), b.String()))
	}
}

// heatRow is the one of a slot; what is shorter than the first one is in it.
func heatRow(slot int) int { return max(slot-mapFrom, 0) / mapRow }

func heatFrom(row int) int64 {
	if row == 0 {
		return 0
	}
	return int64(1) << min(mapFrom+row*mapRow, 62)
}

// shade is how dark a number of at most most is.
func shade(n, most int64) byte {
	if n <= 0 || most <= 0 {
		return shades[0]
	}
	if n >= most {
		return shades[len(shades)-1]
	}
	dark := math.Log2(float64(n)+1) / math.Log2(float64(most)+1)
	return shades[max(1, min(int(dark*float64(len(shades)-1)), len(shades)-1))]
}

// strip is a histogram in one line, with what its first and last slots are.
func strip(h events.Histogram) string {
	first := 0
	for first < len(h) && h[first] == 0 {
		first++
	}
	if first == len(h) {
		return ""
	}
	var most int64
	for _, n := range h {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range h[first:] {
		b.WriteByte(shade(n, most))
	}
	return fmt.Sprintf("%s |%s| %s", duration(int64(1)<<min(first, 62)), b.String(), duration(int64(1)<<min(len(h), 62)))
}
