//go:build go1.25

package main

import (
	"io"
	"os"
	"runtime/trace"
	"time"
)

// With FLIGHT set the trace is what the flight recorder has at the end: it begins in the middle.
func init() {
	if os.Getenv("FLIGHT") == "" {
		return
	}
	record = func(f io.Writer, do func()) error {
		r := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: 5 * time.Millisecond})
		if err := r.Start(); err != nil {
			return err
		}
		do()
		_, err := r.WriteTo(f)
		r.Stop()
		return err
	}
}
