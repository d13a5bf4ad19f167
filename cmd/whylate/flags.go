package main

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/pflag"

	"github.com/whylate/whylate/diagnose"
)

// analyseFlags are the flags that say how a recording is diagnosed.
type analyseFlags struct {
	slo  time.Duration
	expr string
	slow bool
	jobs int
	rec  recordFlags
}

// register registers them; as says where they are explained, "" if here.
func (f *analyseFlags) register(fs *pflag.FlagSet, as string) {
	fs.DurationVar(&f.slo, "slo", 0, "latency objective of the 99th percentile"+as)
	fs.StringVar(&f.expr, "request", "", "what a request is"+as+": `func=REGEXP`, the intervals in which such a function is on the stack")
	fs.BoolVar(&f.slow, "slow", false, "read the trace with the Go team's reader, golang.org/x/exp/trace: in case of doubt"+as)
	fs.IntVar(&f.jobs, "jobs", 1, "how many windows of a long trace are analysed at the same time, each in memory of its own"+as)
	f.rec.registerHost(fs)
}

// asForDiagnose is where they are explained, for other commands.
const asForDiagnose = ", as for diagnose"

// maxJobs is more than are of use.
const maxJobs = 256

// options are what the flags say. Errors are of usage.
func (f *analyseFlags) options() (o diagnose.AnalyseOptions, err error) {
	if f.slo < 0 {
		return o, usageError{errors.New("--slo must not be negative")}
	}
	if f.jobs < 1 || f.jobs > maxJobs {
		return o, usageError{fmt.Errorf("--jobs must be between 1 and %d", maxJobs)}
	}
	var request *regexp.Regexp
	if f.expr != "" {
		if request, err = requestFunc(f.expr); err != nil {
			return o, usageError{err}
		}
	}
	return diagnose.AnalyseOptions{SLO: f.slo, Request: request, NoHost: f.rec.noHost, NoKernel: f.rec.noKernel, Slow: f.slow, Jobs: f.jobs}, nil
}
