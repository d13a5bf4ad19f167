package host

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkRecorder records processes with many sleeping threads for 10 s each, compressed as in an
// incident, and reports what that costs: measured by the recorder itself, and as all CPU time of this
// process. Run it with -benchtime 1x.
func BenchmarkRecorder(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprintf("threads=%d", n), func(b *testing.B) {
			c := start(b, fmt.Sprintf("sleep %d", n), nil)
			c.line()
			for b.Loop() {
				var file bytes.Buffer
				before := cpuTime(b)
				packed, err := flate.NewWriter(&file, flate.BestSpeed)
				if err != nil {
					b.Fatal(err)
				}
				r, err := Start(b.Context(), c.pid, Options{W: packed})
				if err != nil {
					b.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				after, err := r.Stop()
				if err := errors.Join(err, packed.Close()); err != nil {
					b.Fatal(err)
				}
				all := cpuTime(b) - before
				wall := float64(after.WallNS)
				b.ReportMetric(100*float64(after.CPUNS)/wall, "%CPU-own")
				b.ReportMetric(100*float64(all)/wall, "%CPU-all")
				b.ReportMetric(100*float64(after.EndNS)/wall, "%CPU-end")
				b.ReportMetric(float64(after.PeriodNS)/1e6, "ms/period")
				b.ReportMetric(float64(after.Samples), "samples")
				b.ReportMetric(100*float64(after.ThreadsRead)/float64(after.Threads), "%threads-read")
			}
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
