package pprofhttp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/whylate/whylate/evidence"
)

// maxHistory bounds the text that carries the pause history, in bytes: it holds
// the allocation profile too.
const maxHistory = 32 << 20

// history asks for the collector's stops before the recording: the last 256, as
// runtime.MemStats keeps them. The answer costs the target one
// runtime.ReadMemStats, which stops the world for some 10 µs, and a text of its
// allocating stacks; it is asked before the trace begins, once, and a target that
// does not answer in time is recorded without.
func (r *recording) history(ctx context.Context) {
	began := time.Now()
	h, err := r.pauses(ctx)
	switch {
	case errors.Is(err, errNotFound):
		r.notRecorded("pause history", "it is not served at "+r.URL()+"/heap", register("heap"))
	case err != nil:
		why, command := missing(err)
		r.notRecorded("pause history", why, command)
	default:
		h.CostNS = time.Since(began).Nanoseconds()
		r.cycles = h.Cycles
		r.w.Edit(func(m *evidence.Manifest) { m.Pauses = h })
	}
}

// pauses asks the target for its pauses.
func (r *recording) pauses(ctx context.Context) (*evidence.Pauses, error) {
	ctx, done := context.WithTimeout(ctx, r.stall())
	defer done()
	resp, err := r.get(ctx, "heap", url.Values{"debug": {"1"}})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return parseHistory(io.LimitReader(resp.Body, maxHistory))
}

// restarted reports whether who answers now has had fewer collections than the target had: it is another process.
func (r *recording) restarted(ctx context.Context) bool {
	h, err := r.pauses(ctx)
	return err == nil && h.Cycles < r.cycles
}

// parseHistory reads the comments at the end of a heap profile in text form.
// Source: runtime/pprof.writeHeapInternal.
func parseHistory(text io.Reader) (*evidence.Pauses, error) {
	var h evidence.Pauses
	var lengths, ends []int64
	lines := bufio.NewReaderSize(text, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if name, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "# ")), " = "); ok && strings.HasPrefix(line, "# ") {
			switch name {
			case "NumGC":
				h.Cycles, _ = strconv.ParseInt(value, 10, 64)
			case "NumForcedGC":
				h.Forced, _ = strconv.ParseInt(value, 10, 64)
			case "PauseNs":
				lengths = numbers(value)
			case "PauseEnd":
				ends = numbers(value)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the pause history: %w", err)
		}
	}
	if lengths == nil || len(ends) != len(lengths) {
		return nil, fmt.Errorf("the heap profile has no pause history")
	}
	for i, end := range ends {
		if end <= 0 {
			continue
		}
		h.Stops++
		h.FirstWallNS = min(end, cmp.Or(h.FirstWallNS, end))
		if lengths[i] > h.LongestNS {
			h.LongestNS, h.LongestWallNS = lengths[i], end
		}
	}
	return &h, nil
}

// numbers parses "[1 2 3]", at most 256 of them, the runtime's own number.
func numbers(s string) []int64 {
	fields := strings.Fields(strings.Trim(s, "[]"))
	out := make([]int64, 0, 256)
	for _, f := range fields[:min(256, len(fields))] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil
		}
		out = append(out, max(n, 0))
	}
	return out
}
