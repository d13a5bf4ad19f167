package diagnose

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/capture/dependency/dependencytest"
	"github.com/whylate/whylate/capture/kernel"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/evidence"
)

// Where the kernel lets us, a recording holds scheduling events that cover its trace and
// know its threads; a diagnosis uses them, and they do not spoil the sums.
func TestARecordingHoldsTheSchedulingEventsOfItsThreads(t *testing.T) {
	if err := kernel.Check(); err != nil {
		if slices.Contains(strings.Split(os.Getenv("WHYLATE_REQUIRE"), ","), "ebpf") {
			t.Fatalf("WHYLATE_REQUIRE lists ebpf: %v", err)
		}
		fmt.Fprintf(os.Stderr, "SKIPPED-EBPF %s: %v\n", t.Name(), err)
		t.Skip(err)
	}
	s := dependencytest.Redis(t)
	target := openShop(t, "redis", s.Addr)
	record := func(o RecordOptions) string {
		file := filepath.Join(t.TempDir(), "shop.whylate")
		o.Capture = pprofhttp.Options{For: time.Second, NoProbe: true}
		if _, err := Record(t.Context(), target, file, o); err != nil {
			t.Fatal(err)
		}
		return file
	}
	in := open(t, record(RecordOptions{}))
	tl, err := readTimeline(in, AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := kernelEvents(in, tl)
	if err != nil || watch == nil {
		t.Fatal(watch, err)
	}
	var parts [events.States]int64
	for _, p := range tl.Procs {
		for i, held := range p.Threads {
			until := tl.End
			if i+1 < len(p.Threads) {
				until = p.Threads[i+1].From
			}
			for state, ns := range watch.Split(int(held.M), int64(held.From), int64(until)) {
				parts[state] += ns
			}
		}
	}
	if parts[events.OnCPU] == 0 || parts[events.Slept] == 0 {
		t.Errorf("threads with a P: %v", parts)
	}
	if k := in.Manifest.Cost.Kernel; k.Events != int64(len(watch.Stretches)) || k.ProbeRuns == 0 || k.ProbeSeconds <= 0 {
		t.Errorf("cost %+v, %d stretches", k, len(watch.Stretches))
	}
	d, err := Analyse(in, AnalyseOptions{Check: true})
	if err != nil || d.Check.Requests == 0 || d.Check.WorstNS != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	without := open(t, record(RecordOptions{NoKernel: true}))
	if without.Has("kernel.events") || !slices.ContainsFunc(without.Manifest.NotRecorded, func(n evidence.NotRecorded) bool { return n.What == kernelWord }) {
		t.Errorf("recorded with --no-kernel: %+v", without.Manifest.NotRecorded)
	}
}
