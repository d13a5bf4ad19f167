package main

import (
	"log"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/bytedance/gopkg/util/gctuner"

	"github.com/whylate/whylate/sdk/gctune"
)

// setting is a row of the tables. start puts it into force and returns what ends it.
type setting struct {
	name  string
	own   bool // whylate's: not a peer
	over  bool // measured over the budget only: within it, it is the same as the row before
	start func() (stop func())
}

const (
	ninety  = budget / 10 * 9
	limited = "GOGC=off, GOMEMLIMIT=90 %"
)

var settings = []setting{
	{"GOGC=100", false, false, gogc(100)},
	{"GOGC=200", false, false, gogc(200)},
	{"GOGC=400", false, false, gogc(400)},
	{limited, false, false, func() func() {
		debug.SetMemoryLimit(ninety)
		return gogc(-1)()
	}},
	{"automemlimit v1.0.1 (GOGC=100, 90 %)", false, false, func() func() {
		if _, err := memlimit.Set(memlimit.WithRatio(0.9), memlimit.WithProvider(memlimit.Limit(budget)), memlimit.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
			log.Fatal(err)
		}
		return func() {}
	}},
	{"bytedance gctuner v0.1.4 (70 %)", false, false, func() func() {
		gctuner.Tuning(budget / 10 * 7)
		return func() { gctuner.Tuning(0) }
	}},
	{"whylate gctune", true, false, tuner(gctune.Options{Budget: budget})},
	{"whylate gctune, Ceiling 2.5 GB, GCShare 0.05", true, true, tuner(gctune.Options{Budget: budget, Ceiling: 2560 * mb, GCShare: 0.05})},
	{"whylate gctune, over the budget GOGC=25 at most (as in a control group)", true, true, func() func() {
		debug.SetGCPercent(25)
		return tuner(gctune.Options{Budget: budget})()
	}},
	{"whylate gctune, Ceiling 384 MB", true, true, tuner(gctune.Options{Budget: budget, Ceiling: 384 * mb})},
}

func gogc(percent int) func() func() {
	return func() func() {
		debug.SetGCPercent(percent)
		return func() {}
	}
}

func tuner(o gctune.Options) func() func() {
	return func() func() {
		if os.Getenv("GCTUNE_LOG") != "" {
			o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
		t, err := gctune.New(o)
		if err != nil {
			log.Fatal(err)
		}
		return t.Stop
	}
}

func find(name string) setting {
	for _, s := range settings {
		if s.name == name {
			return s
		}
	}
	log.Fatalf("no setting %q", name)
	return setting{}
}
