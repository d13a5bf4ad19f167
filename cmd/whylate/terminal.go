package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/report"
)

// terminalOptions are those of the terminal report on w.
func terminalOptions(w io.Writer) report.TerminalOptions {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return report.TerminalOptions{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 80
	}
	return report.TerminalOptions{Width: width, Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// progress shows where a recording is: one line that is rewritten on a terminal,
// one line per phase elsewhere.
type progress struct {
	w     io.Writer
	tty   bool
	phase pprofhttp.Phase
	open  bool
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, tty: ok && term.IsTerminal(int(f.Fd()))}
}

func (p *progress) show(x pprofhttp.Progress) {
	first := x.Phase != p.phase
	p.phase = x.Phase
	if !p.tty {
		if first {
			fmt.Fprintf(p.w, "%s%s\n", x.Phase, of(x.Of))
		}
		return
	}
	p.open = true
	fmt.Fprintf(p.w, "\r\x1b[K%s", x.Phase)
	if x.Of > 0 {
		fmt.Fprintf(p.w, " %.0f of %.0f s", x.Elapsed.Seconds(), x.Of.Seconds())
	}
	if x.Bytes > 0 {
		fmt.Fprintf(p.w, ", %.1f MB", float64(x.Bytes)/1e6)
	}
}

func of(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.0f s)", d.Seconds())
}

// say replaces the progress line by a sentence.
func (p *progress) say(s string) {
	p.clear()
	fmt.Fprintln(p.w, s)
}

func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.open = false
	}
}
