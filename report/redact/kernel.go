package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/evidence/jsonl"
)

// probes are the sets that have a name.
var probes = []string{events.Sched, events.Clock, events.Cgo, events.CgoReturn, events.Alloc, events.Func, events.GC, events.TCP, events.Gosched}

// kernel copies the kernel's events: lines of numbers stay as they are.
func (r *redactor) kernel(w io.Writer, from io.Reader) error {
	begun, unknown := false, 0
	err := jsonl.NewReader(from, maxLines, maxLine).Each("kernel events", func(b []byte) error {
		if !begun {
			begun = true
			return r.kernelHeader(w, b)
		}
		if call, ok := bytes.CutPrefix(b, []byte(`{"call":`)); ok {
			b, call = call, b
			if list, ok := bytes.CutSuffix(bytes.TrimRight(b, "\n"), []byte("}")); !ok || !numeric(list) {
				return fmt.Errorf("%w: no call", evidence.ErrMalformed)
			}
			_, err := w.Write(call)
			return err
		}
		if len(b) > 0 && b[0] == '[' {
			if !numeric(bytes.TrimRight(b, "\n")) {
				return fmt.Errorf("%w: no list of numbers", evidence.ErrMalformed)
			}
			_, err := w.Write(b)
			return err
		}
		var l struct {
			After *events.After `json:"after"`
		}
		if err := parse(b, &l); err != nil {
			return err
		}
		if l.After == nil {
			unknown++
			return nil
		}
		r.counted(l.After)
		return line(w, l)
	})
	return r.unknown(err, evidence.MemberKernel, unknown)
}

func (r *redactor) kernelHeader(w io.Writer, b []byte) error {
	var l struct {
		Header *events.Header `json:"header"`
	}
	if err := json.Unmarshal(b, &l); err != nil || l.Header == nil {
		return fmt.Errorf("%w: no header", evidence.ErrMalformed)
	}
	h := l.Header
	if err := jsonl.CheckSchema(h.Schema, events.Schema); err != nil {
		return err
	}
	if len(h.Fields) < len(events.Known) {
		return fmt.Errorf("%w: header: other fields", evidence.ErrMalformed)
	}
	for i, f := range h.Fields {
		switch known := i < len(events.Fields) && f == events.Fields[i]; {
		case known:
		case i < len(events.Known):
			return fmt.Errorf("%w: header: other fields", evidence.ErrMalformed)
		default:
			h.Fields[i] = r.name(f)
		}
	}
	h.Schema, h.Kernel, h.Arch = events.Schema, r.version(h.Kernel), r.pieces(h.Arch)
	for i := range h.Probes {
		h.Probes[i] = r.known(h.Probes[i], probes...)
	}
	return line(w, l)
}

// numeric reports whether a line is a list of integers and nothing else.
func numeric(b []byte) bool {
	if len(b) < 2 || b[0] != '[' || b[len(b)-1] != ']' {
		return false
	}
	for _, c := range b[1 : len(b)-1] {
		if (c < '0' || c > '9') && c != ',' && c != '-' {
			return false
		}
	}
	return true
}

// programs are those that whylate loads into the kernel.
var programs = regexp.MustCompile(`^whylate_[a-z0-9_]{1,40}$`)

// counted hashes the names in what was counted. The reader bounds them in bytes.
func (r *redactor) counted(a *events.After) {
	symbols := func(list []string) {
		for i := range list {
			list[i] = events.Text(r.symbol(list[i]))
		}
	}
	for i := range a.Missing {
		x := &a.Missing[i]
		x.Probes, x.Why = r.known(x.Probes, probes...), r.text(x.Why)
	}
	for i := range a.Programs {
		if p := &a.Programs[i]; !programs.MatchString(p.Name) {
			p.Name = r.name(p.Name)
		}
	}
	for i := range a.Processes {
		x := &a.Processes[i]
		x.Name = events.Text(r.text(x.Name))
	}
	if x := a.Readings; x != nil {
		for i := range x.Callers {
			symbols(x.Callers[i].Stack)
		}
	}
	if x := a.Cgo; x != nil {
		for i := range x.Functions {
			f := &x.Functions[i]
			if strings.HasSuffix(f.Go, "func_"+f.Name) { // cgo made it for this function of C
				f.Name = r.name(f.Name)
			} else {
				f.Name = r.symbol(f.Name)
			}
			f.Name, f.Go = events.Text(f.Name), events.Text(r.symbol(f.Go))
			symbols(f.Stack)
		}
	}
	if x := a.Allocs; x != nil {
		for i := range x.Sites {
			symbols(x.Sites[i].Stack)
		}
	}
	if x := a.Func; x != nil {
		symbols(x.Functions)
	}
	if x := a.TCP; x != nil {
		for i := range x.Connections {
			c := &x.Connections[i]
			c.Local, c.Remote = events.Text(r.address(c.Local)), events.Text(r.address(c.Remote))
		}
	}
}
