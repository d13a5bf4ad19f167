package clock

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
)

// worthwhile is the part of all CPU time from which on a cheaper clock is worth a thought.
// Below it even a free one is not seen in any latency.
const worthwhile = 0.02

// Worth is what reading clocks takes of a program's CPU time.
type Worth struct {
	// Clock is the part (0 to 1) of the samples that were in time.Now, time.Since or time.Until, the
	// runtime's and the kernel's code below them with them. These a cheaper clock can replace.
	Clock float64
	// Runtime is the part of those in which the runtime reads its clock for its own ends (timers, scheduling):
	// nothing in a program replaces them.
	Runtime float64
	// Pays is whether Clock is 2 % or more.
	Pays bool
	// Callers are the functions that read the clock, most expensive first, up to 10.
	Callers []Caller
}

// Caller is a function that calls time.Now, time.Since or time.Until.
type Caller struct {
	Function string
	// Share is its part (0 to 1) of all samples.
	Share float64
}

// String tells the worth in a sentence.
func (w Worth) String() string {
	if !w.Pays {
		return fmt.Sprintf("a cheaper clock does not pay: reading it takes %.1f %% of the CPU time", 100*w.Clock)
	}
	s := fmt.Sprintf("a cheaper clock may pay: reading it takes %.1f %% of the CPU time", 100*w.Clock)
	if len(w.Callers) > 0 {
		s += fmt.Sprintf(", %.1f %% in %s", 100*w.Callers[0].Share, w.Callers[0].Function)
	}
	return s
}

// ErrProfile is what Pays returns for something that is no CPU profile.
var ErrProfile = errors.New("clock: not a CPU profile")

// maxProfile bounds what a profile may be unpacked, in bytes.
const maxProfile = 64 << 20

// Pays reads a CPU profile of pprof (gzipped or not; of runtime/pprof, or
// /debug/pprof/profile) and tells whether a cheaper clock would pay in that program.
// A profile larger than 64 MB is refused.
func Pays(cpu io.Reader) (Worth, error) {
	data, err := io.ReadAll(io.LimitReader(cpu, maxProfile+1))
	if err != nil {
		return Worth{}, err
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return Worth{}, fmt.Errorf("%w: %w", ErrProfile, err)
		}
		if data, err = io.ReadAll(io.LimitReader(z, maxProfile+1)); err != nil {
			return Worth{}, fmt.Errorf("%w: %w", ErrProfile, err)
		}
	}
	if len(data) > maxProfile {
		return Worth{}, fmt.Errorf("%w of less than %d MB", ErrProfile, maxProfile>>20)
	}
	p, err := parse(data)
	if err != nil {
		return Worth{}, fmt.Errorf("%w: %w", ErrProfile, err)
	}
	return p.worth(), nil
}

// worth adds up the samples of a profile.
func (p *profile) worth() Worth {
	var total, clock, runtime float64
	callers := map[string]float64{}
	for _, s := range p.samples {
		total += s.value
		read, caller := p.reading(s)
		switch {
		case caller != "":
			clock += s.value
			callers[caller] += s.value
		case read:
			runtime += s.value
		}
	}
	if total <= 0 {
		return Worth{}
	}
	w := Worth{Clock: clock / total, Runtime: runtime / total, Pays: clock/total >= worthwhile}
	for f, v := range callers {
		w.Callers = append(w.Callers, Caller{f, v / total})
	}
	sort.Slice(w.Callers, func(i, j int) bool {
		a, b := w.Callers[i], w.Callers[j]
		return a.Share > b.Share || a.Share == b.Share && a.Function < b.Function
	})
	w.Callers = w.Callers[:min(len(w.Callers), 10)]
	return w
}

// reading reports whether a sample was reading the clock, and who called package time
// for it: "" if the runtime did for itself.
func (p *profile) reading(s sample) (read bool, caller string) {
	asked := false
	for _, id := range s.locations {
		for _, f := range p.locations[id] {
			name := p.functions[f]
			switch {
			case asked && !strings.HasPrefix(name, "time."):
				return true, name
			case name == "time.Now" || name == "time.Since" || name == "time.Until":
				asked = true
			case readers[name]:
				read = true
			case !asked && !strings.HasPrefix(name, "runtime.") && !strings.HasPrefix(name, "time."):
				return read, "" // the program's own code, and it had not called
			}
		}
	}
	if asked {
		return true, "unknown"
	}
	return read, ""
}

// readers are the functions in which the runtime reads the clock. time.now is written in
// assembly on some systems, and its caller may be in no profile.
var readers = map[string]bool{
	"runtime.nanotime": true, "runtime.nanotime1": true, "runtime.walltime": true, "runtime.walltime1": true,
	"runtime.time_now": true, "time.now": true, "runtime.vdsoClockgettime": true,
}
