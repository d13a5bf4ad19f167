package experiment

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/report"
)

// JSON writes c as one document of schema whylate.comparison/1, indented and ended by a
// newline. The error is w's.
func (c *Comparison) JSON(w io.Writer) error {
	b, err := json.MarshalIndent(c, "", "  ") // what is not printable as an escape
	if err != nil {
		return fmt.Errorf("writing the comparison as JSON: %w", err)
	}
	_, err = w.Write(append(report.EscapeInvisible(b), '\n'))
	return err
}

// Text writes c for a person to read: the first line is the answer in one sentence. Nothing
// leaves as a control character, whatever c contains. The error is w's.
func (c *Comparison) Text(w io.Writer) error {
	p := &page{}
	p.line("%s", report.Quote(c.Sentence))
	p.line("")
	for _, s := range []struct {
		name string
		side *Side
	}{{"A", &c.A}, {"B", &c.B}} {
		verdict := s.side.Verdict
		if s.side.Reason != "" {
			verdict += " (" + s.side.Reason + ")"
		}
		p.line("  %s  %s: %s", s.name, report.Quote(s.side.Name), report.Quote(verdict))
		p.line("     %s", report.Quote(s.side.Sentence))
	}
	p.table("Latency", [][]string{{"", "A", "B", "B/A"}}, func(add func(...string)) {
		for _, q := range c.Latency {
			ratio := ""
			if q.Ratio > 0 {
				ratio = fmt.Sprintf("%.2f", q.Ratio)
			}
			add(q.Name, report.Duration(q.ANS), report.Duration(q.BNS), ratio)
		}
		add("slow ones take longer", report.Duration(c.A.ExcessNS), report.Duration(c.B.ExcessNS), "")
		add("requests", fmt.Sprint(c.A.Requests), fmt.Sprint(c.B.Requests), "")
		add("requests/s", fmt.Sprintf("%.4g", c.A.RequestsPerS), fmt.Sprintf("%.4g", c.B.RequestsPerS), "")
		add("under way", fmt.Sprintf("%.3g", c.A.Concurrency), fmt.Sprintf("%.3g", c.B.Concurrency), "")
	})
	if len(c.Causes) > 0 {
		p.table("Causes, with their part of what slow requests take longer", [][]string{{"", "cause", "A", "B", ""}}, func(add func(...string)) {
			for _, x := range c.Causes {
				name := report.Quote(x.Cause)
				switch x.Contrast {
				case cause.TailContrast:
				case cause.LevelContrast:
					name += " (of every request)"
				default:
					name += " (before requests are seen)"
				}
				add(x.Became, name, x.A.text(), x.B.text(), report.Quote(x.Why))
			}
		})
	}
	if len(c.Differences) == 0 {
		p.line("")
		p.line("Nothing else that was recorded differs.")
	} else {
		p.table("What else differs", [][]string{{"", "A", "B"}}, func(add func(...string)) {
			for _, d := range c.Differences {
				add(report.Quote(d.What), report.Quote(d.A), report.Quote(d.B))
			}
		})
	}
	_, err := io.WriteString(w, p.String())
	return err
}

func (p *Part) text() string {
	if p == nil {
		return "-"
	}
	if p.Whole {
		return fmt.Sprintf("%s (%.0f %% of all)", report.Duration(p.NS), 100*p.Share)
	}
	return fmt.Sprintf("%s (%.0f %%)", report.Duration(p.NS), 100*p.Share)
}

// page is a text being laid out.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) {
	p.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " "))
	p.WriteByte('\n')
}

// widest is how many columns a cell may take for the others to be aligned with it.
const widest = 44

// table writes rows under a heading, in columns that are as wide as what is in them.
func (p *page) table(heading string, rows [][]string, fill func(add func(...string))) {
	fill(func(cells ...string) { rows = append(rows, cells) })
	var width []int
	for _, r := range rows {
		for i, s := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], min(utf8.RuneCountInString(s), widest))
		}
	}
	p.line("")
	p.line("%s", heading)
	for _, r := range rows {
		line := " "
		for i, s := range r {
			line += " " + s + strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(s))+1)
		}
		p.line("%s", line)
	}
}
