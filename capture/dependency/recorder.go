package dependency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// The deadlines.
const (
	// askTimeout bounds connecting, and every answer.
	askTimeout = time.Second
	// phaseTimeout bounds all questions before the window, and all those behind it:
	// three answers that do not come.
	phaseTimeout = 3 * time.Second
	// stopTimeout is when one is abandoned whose questions do not heed their deadline.
	stopTimeout = phaseTimeout + askTimeout
	// lookEvery is how often sessions are looked at during the window, maxLooks how
	// often at most: the longest recording takes five minutes.
	lookEvery = time.Second
	maxLooks  = 300
)

// Target is a dependency to be asked; NewRedis and NewPostgres make them.
type Target struct {
	kind, address string
	secret        string // never to be written anywhere
	start         func() asker
}

// Name is what reports call it.
func (t Target) Name() string { return t.kind + " " + t.address }

// asker asks one dependency. Its methods are called one after the other.
type asker interface {
	// start asks before the window, during within it, finish behind it. Each enters
	// in s what it learns and what it costs.
	start(ctx context.Context, s *Server) error
	during(ctx context.Context, s *Server)
	finish(ctx context.Context, s *Server) error
}

// Recorder asks dependencies while something else is recorded.
type Recorder struct {
	all []*recording
}

// recording is one dependency being asked by a goroutine of its own, which is
// abandoned if it overstays: nothing that a dependency does may hold up what is recorded
// beside it.
type recording struct {
	t      Target
	begun  chan struct{}      // closed when the first questions are answered
	window context.Context    // its end is the window's
	over   context.CancelFunc // ends it
	done   chan *Server
	cancel context.CancelFunc
}

// Start asks every target for the first time and returns when they have answered, or
// after three seconds. A dependency that does not answer is no error: the recording
// says so. Stop has to be called in any case; if ctx ends before, what follows it is
// still asked.
func Start(ctx context.Context, targets []Target) *Recorder {
	r := &Recorder{}
	for _, t := range targets[:min(len(targets), MaxServers)] {
		one, cancel := context.WithCancel(context.WithoutCancel(ctx))
		window, over := context.WithCancel(one)
		rec := &recording{t: t, begun: make(chan struct{}), window: window, over: over, done: make(chan *Server, 1), cancel: cancel}
		r.all = append(r.all, rec)
		go rec.run(one)
	}
	late := time.After(phaseTimeout)
	for _, rec := range r.all {
		select {
		case <-rec.begun:
		case <-late:
			return r
		case <-ctx.Done():
			return r
		}
	}
	return r
}

func (r *recording) run(ctx context.Context) {
	s := &Server{Schema: Schema, Kind: r.t.kind, Address: r.t.address}
	defer func() { r.done <- s }()
	a := r.t.start()
	first, cancel := context.WithTimeout(ctx, phaseTimeout)
	err := a.start(first, s)
	cancel()
	close(r.begun)
	if err != nil {
		r.unanswered(s, err, "")
		return
	}
	r.look(a, s)
	last, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	if err := a.finish(last, s); err != nil {
		r.unanswered(s, err, "after the recording: ")
	}
	s.cut()
}

// look lets the asker look until the window ends, and with it a look that has no answer.
func (r *recording) look(a asker, s *Server) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		if n < maxLooks && r.window.Err() == nil {
			a.during(r.window, s)
		}
		select {
		case <-r.window.Done():
			return
		case <-tick.C:
		}
	}
}

// unanswered notes why a dependency did not answer; what it said of the window does
// not count without the second answer.
func (r *recording) unanswered(s *Server, err error, when string) {
	text, command := explain(err)
	*s = Server{
		Schema: s.Schema, Kind: s.Kind, Address: s.Address, Peer: s.Peer, Version: s.Version,
		Asked: s.Asked, AskedNS: s.AskedNS,
	}
	if r.t.secret != "" {
		text = strings.ReplaceAll(text, r.t.secret, "xxxxx")
	}
	s.miss("its own word", when+text, command)
}

// explain says in plain words what an error of a dependency means, and what to do.
func explain(err error) (text, command string) {
	if text, command = redisWhy(err); text != "" {
		return text, command
	}
	if text, command = postgresWhy(err); text != "" {
		return text, command
	}
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, errNotRedis), errors.Is(err, errTooLong), errors.Is(err, errNotPostgres):
		return err.Error(), ""
	case errors.As(err, &dns):
		return "its name cannot be resolved", ""
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %s", askTimeout), ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused)", ""
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed):
		return "it closed the connection without an answer", ""
	}
	return short(err.Error(), 200), ""
}

// refused notes that a question was not answered.
func (s *Server) refused(what string, err error) {
	text, command := "it gives nothing", ""
	if err != nil {
		text, command = explain(err)
	}
	s.miss(what, text, command)
}

// Stop asks for the second time, and writes what was learnt to w, one line for
// each dependency. It returns after stopTimeout at most. The error is w's.
func (r *Recorder) Stop(w io.Writer) ([]Server, error) {
	for _, rec := range r.all {
		rec.over()
	}
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	var out []Server
	for _, rec := range r.all {
		var s *Server
		select {
		case s = <-rec.done:
		case <-late.C:
			late.Reset(0)
			s = &Server{Schema: Schema, Kind: rec.t.kind, Address: rec.t.address}
			s.miss("its own word", fmt.Sprintf("no answer within %s", stopTimeout), "")
		}
		rec.cancel()
		out = append(out, *s)
	}
	lines := json.NewEncoder(w)
	for i := range out {
		if err := lines.Encode(&out[i]); err != nil {
			return out, fmt.Errorf("write what %s said: %w", out[i].Name(), err)
		}
	}
	return out, nil
}
