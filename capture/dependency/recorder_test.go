package dependency

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script is an asker that does what a test says.
type script struct {
	look func(ctx context.Context, s *Server)
	last func(ctx context.Context, s *Server) error
}

func (a script) start(context.Context, *Server) error        { return nil }
func (a script) during(ctx context.Context, s *Server)       { a.look(ctx, s) }
func (a script) finish(ctx context.Context, s *Server) error { return a.last(ctx, s) }
func (a script) target() Target {
	return Target{kind: Redis, address: "it", start: func() asker { return a }}
}
func answers(context.Context, *Server)                      {}
func ends(_ context.Context, s *Server) error               { s.FromNS, s.ToNS = 1, 2; return nil }
func untilItsDeadline(ctx context.Context, _ *Server) error { <-ctx.Done(); return ctx.Err() }
func untilAnAnswerIsDue(ctx context.Context, _ *Server) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	<-ctx.Done()
}

// The times are those of a clock that the test owns.
func TestTheEndOfARecordingWaitsForADependencyOnlySoLong(t *testing.T) {
	never := make(chan struct{})
	for _, c := range []struct {
		name  string
		asker script
		most  time.Duration
		why   string // "": it answered
	}{
		{"it answers at once", script{answers, ends}, 0, ""},
		{"a look that is in flight ends with the window", script{untilAnAnswerIsDue, ends}, 0, ""},
		{"neither the look nor the last questions are answered", script{untilAnAnswerIsDue, untilItsDeadline}, phaseTimeout, "after the recording: no answer within 1s"},
		{"it heeds no deadline", script{answers, func(context.Context, *Server) error { <-never; return nil }}, phaseTimeout + askTimeout, "no answer within 4s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never = make(chan struct{})
				r := Start(t.Context(), []Target{c.asker.target()})
				time.Sleep(10*time.Second + 100*time.Millisecond) // the window; a look is in flight
				began := time.Now()
				got, err := r.Stop(io.Discard)
				if took := time.Since(began); took != c.most || err != nil {
					t.Errorf("it took %s, want %s (%v)", took, c.most, err)
				}
				close(never)
				switch s := got[0]; {
				case s.Answered() != (c.why == ""):
					t.Errorf("%+v", s)
				case c.why != "" && (len(s.Missing) != 1 || !strings.HasSuffix(s.Missing[0].Why, c.why)):
					t.Errorf("%+v, want %q", s.Missing, c.why)
				}
			})
		})
	}
}
