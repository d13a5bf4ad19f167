package redact

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/evidence/jsonl"
)

// What a member of lines may hold, as its reader has it.
const (
	maxLines = 256 << 20
	maxLine  = 16 << 20
)

// line writes one value as a line.
func line(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// parse reads what a line holds; fields that this version does not know stay behind.
func parse(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", evidence.ErrMalformed, err)
	}
	return nil
}

// host copies the samples of the host: numbers stay.
func (r *redactor) host(w io.Writer, from io.Reader) error {
	unknown := 0
	err := jsonl.NewReader(from, maxLines, maxLine).Each("host samples", func(b []byte) error {
		var l host.Line
		if err := parse(b, &l); err != nil {
			return err
		}
		if l == (host.Line{}) {
			unknown++
			return nil
		}
		if s := l.Static; s != nil {
			if err := jsonl.CheckSchema(s.Schema, host.Schema); err != nil {
				return err
			}
			s.Schema, s.Clocksource = host.Schema, r.clocksource(s.Clocksource)
			s.Stdout, s.Stderr = r.descriptor(s.Stdout), r.descriptor(s.Stderr)
			for i := range s.Groups {
				s.Groups[i].Path = r.path(s.Groups[i].Path)
			}
			r.missing(s.Missing)
		}
		if a := l.After; a != nil {
			for i := range a.Sockets {
				x := &a.Sockets[i]
				x.Local, x.Remote, x.State = r.address(x.Local), r.address(x.Remote), r.state(x.State)
			}
			for i := range a.Peers {
				x := &a.Peers[i]
				x.Name, x.Address = r.text(x.Name), r.address(x.Address)
				for k := range x.Also {
					x.Also[k] = r.address(x.Also[k])
				}
			}
			r.missing(a.Missing)
			a.Ended = r.text(a.Ended)
		}
		return line(w, l)
	})
	return r.unknown(err, evidence.MemberHost, unknown)
}

// unknown says that lines of a member were left out.
func (r *redactor) unknown(err error, member string, n int) error {
	if err == nil && n > 0 {
		r.drop(fmt.Sprintf("%d lines of %s", n, member), "this version does not know what is in them")
	}
	return err
}

func (r *redactor) missing(list []host.Missing) {
	for i := range list {
		x := &list[i]
		x.What, x.Why, x.Command = r.text(x.What), r.text(x.Why), r.text(x.Command)
	}
}

// clocksource keeps the names that the kernel has.
func (r *redactor) clocksource(s string) string {
	return r.known(s, "tsc", "tsc-early", "hpet", "acpi_pm", "kvm-clock", "xen", "jiffies", "refined-jiffies", "arch_sys_counter", "arch_mmio_counter",
		"hyperv_clocksource_tsc_page", "hyperv_clocksource_msr", "tod", "timebase", "riscv_clocksource")
}

func (r *redactor) descriptor(s string) string {
	return r.known(s, "pipe", "file", "tty", "socket", "null")
}

func (r *redactor) state(s string) string {
	return r.known(s, "LISTEN", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT", "LAST_ACK", "CLOSING", "NEW_SYN_RECV")
}

// dependency copies what dependencies said of themselves: numbers stay, and the names of
// redis's own commands, of its latency events and of what sessions of postgres wait for.
func (r *redactor) dependency(w io.Writer, from io.Reader) error {
	list, err := dependency.Read(from)
	if err != nil {
		return err
	}
	for i := range list {
		s := &list[i]
		s.Schema = dependency.Schema
		s.Address, s.Peer, s.Version = r.asked(s.Address), r.address(s.Peer), r.version(s.Version)
		for k := range s.Calls {
			s.Calls[k].Name = r.call(s.Kind, s.Calls[k].Name)
		}
		for k := range s.Slow {
			s.Slow[k].Command = r.call(s.Kind, s.Slow[k].Command)
		}
		for k := range s.Events {
			s.Events[k].Name = r.known(s.Events[k].Name, latencyEvents...)
		}
		for k := range s.Waits {
			x := &s.Waits[k]
			switch x.Type {
			case "Activity", "Buffer", "BufferPin", "Client", "IO", "IPC", "Lock", "Timeout":
				x.Event = r.event(x.Event)
			case "Extension", "InjectionPoint", "LWLock": // extensions name theirs
				x.Event = r.name(x.Event)
			default:
				x.Type, x.Event = r.name(x.Type), r.name(x.Event)
			}
		}
		for k := range s.Missing {
			x := &s.Missing[k]
			x.What, x.Why, x.Command = r.text(x.What), r.text(x.Why), r.text(x.Command)
		}
		if err := line(w, s); err != nil {
			return err
		}
	}
	return nil
}

// event keeps what postgres calls a wait, in letters.
func (r *redactor) event(s string) string {
	if len(s) <= 40 && strings.IndexFunc(s, func(c rune) bool { return c > unicode.MaxASCII || !unicode.IsLetter(c) }) < 0 {
		return r.keep(s)
	}
	return r.name(s)
}

// asked hashes an address as a user wrote it.
func (r *redactor) asked(s string) string {
	if u := evidence.CleanURL(s); u != "" {
		return r.url(u)
	}
	return r.address(s)
}

// latencyEvents are redis's latency events. Source: redis 7, latency.c and its callers.
var latencyEvents = []string{"command", "fast-command", "fork", "rdb-unlink-temp-file", "aof-write", "aof-fsync-always", "aof-write-pending-fsync",
	"aof-write-active-child", "aof-write-alone", "aof-fstat", "aof-rename", "aof-rewrite-diff-write", "active-defrag-cycle", "expire-cycle",
	"expire-del", "eviction-cycle", "eviction-del", "eviction-lazyfree", "while-blocked-cron", "module-acquire-GIL", "command-unblocking"}

// call returns a command of redis, or the verb of a statement with a hash of all of it.
func (r *redactor) call(kind, s string) string {
	if kind == dependency.Redis {
		return r.command(s)
	}
	n := run(s)
	if verb := s[:n]; verbs[upper(verb)] {
		if n == len(s) {
			return r.keep(verb)
		}
		return r.keep(verb) + " " + r.name(s)
	}
	return r.name(s)
}
