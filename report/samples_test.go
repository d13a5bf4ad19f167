package report

import (
	"time"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
)

func ratio(v float64) *float64 { return &v }

const ms = int64(time.Millisecond)

// base is what every sample has: a recording of a healthy size.
func base() *Diagnosis {
	return &Diagnosis{
		Schema: Schema, Tool: "v0.1.0",
		Started: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), DurationNS: 10 * int64(time.Second),
		Target: Target{Kind: "pprof", URL: "http://localhost:6060", PID: 1234, Go: "go1.26.8", GOMAXPROCS: 8},
		Requests: Requests{
			FoundBy: "net/http", Clock: "server, from runnable to done", Count: 12034,
			P50NS: 1900000, P90NS: 3400000, P99NS: 41200000, P999NS: 48 * ms, MaxNS: 52700000,
			Tail: Band{Count: 180, Episodes: 14, MeanNS: 40100000}, Typical: Band{Count: 2400, MeanNS: 1700000},
			Classes:  []Class{{Class: "net/http server", Count: 12034, P99NS: 41200000}, {Class: "go-redis call", Count: 24068, P99NS: 900000}},
			Excluded: []Class{{Class: "grpc stream", Count: 4}, {Class: "/debug/pprof", Count: 2}},
		},
		ExcessNS: 38400000,
		Cost:     Cost{RecordCPU: 0.004, ProbeCPU: 0.002, AnalyseS: 0.41},
	}
}

func eliminationSample() []cause.RuledOut {
	// Out of order on purpose: the report sorts.
	return []cause.RuledOut{
		{Cause: "expensive-request", Because: "own CPU of the tail is 1.1 times the typical", Number: 1.1},
		{Cause: "gc-pause", Because: "0.2 ms of 38.4 ms excess", Number: 0.005},
		{Cause: "host-contention", Because: "threads waited 0.3 % of their time for a CPU", Number: 0.003},
		{Cause: "tcp-loss", Because: "no retransmits during the recording", Number: 0},
		{Cause: "slow-dependency", Because: "0.1 ms of 38.4 ms excess is network wait that was not poll-blind", Number: 0.0026},
		{Cause: "overload", Because: "some P was idle 71 % of the time", Number: 0.29},
		{Cause: "forced-gc", Because: "nothing of its kind in the slow requests", Absent: true},
		{Cause: "gc-assist", Because: "0.01 ms of 38.4 ms excess", Number: 0.0003, Absent: true},
		{Cause: "cpu-hog", Because: "no request waited with all Ps busy", Number: 0},
		{Cause: "pool-exhausted", Because: "nothing of its kind in the slow requests", Absent: true},
		{Cause: "quota-too-low", Because: "0 of 100 periods throttled", Number: 0},
	}
}

func causeVerdict() *Diagnosis {
	d := base()
	d.Verdict = VerdictCause
	d.Sentence = "94.6 % of the slow tail waits for a lock that main.(*cache).refresh holds across a network wait (cache.go:88)."
	d.UnresolvedShare = 0.009
	d.Requests.InFlight, d.Requests.OldestNS = 3, 31*ms
	d.Findings = []cause.Finding{{
		Cause: "lock-held-across-wait", Contrast: tail, Share: 0.946, ShareLow: ratio(0.89), ShareHigh: ratio(0.98),
		Confidence: "high", Pattern: "repeated", ExcessNS: 36326400, P99WithoutNS: 4800000, Via: []string{"single-worker"},
		Where:   &cause.Place{Function: "main.(*cache).refresh", File: "/src/app/cache.go", Line: 88},
		Summary: "Requests wait for a sync.Mutex while its holder waits for the network.",
		Evidence: []string{
			"172 of 180 tail requests wait in sync.(*Mutex).Lock under main.(*cache).get",
			"the wakers of 94.6 % of that time stand in internal/poll.(*FD).Read under main.(*cache).refresh, for 35.9 ms at the median",
		},
		Fix:      []string{"fetch outside of the lock and swap the result in under it", "refresh in the background before the entry expires"},
		Verify:   "whylate experiment with the change: p99 falls to about 4.8 ms and the share of lock-held-across-wait collapses.",
		Examples: []string{"r812", "r99", "r4410"},
	}}
	d.Unnamed = []cause.Unnamed{
		{Share: 0.03, Leaf: "syscall write", Where: &cause.Place{Function: "os.(*File).Write", File: "file.go", Line: 190}},
		{Share: 0.02, Leaf: "late-wakeup"},
		{Share: -0.005, Leaf: "timer"},
	}
	d.RuledOut = eliminationSample()
	d.NotRecorded = []NotRecorded{
		{What: "kernel", Why: "needs CAP_BPF and CAP_PERFMON", Command: "sudo whylate diagnose http://localhost:6060 --probes sched"},
		{What: "wire", Why: "not asked for", Command: "sudo whylate record http://localhost:6060 --wire"},
	}
	d.Check = &Check{Requests: 12034, MaxDepth: 127}
	return d
}

func healthy() *Diagnosis {
	d := base()
	d.Verdict = VerdictHealthy
	d.Sentence = "Nothing to explain: the slowest requests take 0.4 ms longer than the typical ones."
	d.Requests.P99NS, d.Requests.P999NS, d.Requests.MaxNS = 2300000, 2500000, 2900000
	d.Requests.Tail.MeanNS, d.ExcessNS = 2100000, 400000
	d.Requests.Classes, d.Requests.Excluded = nil, nil
	d.Unnamed = []cause.Unnamed{{Share: 0.7, Leaf: "cpu main.handle"}, {Share: 0.3, Leaf: "network 10.0.0.3:6379"}}
	d.RuledOut = eliminationSample()[:3]
	return d
}

func lookAlikes() *Diagnosis {
	d := base()
	d.Verdict, d.Reason = VerdictInconclusive, "look-alikes"
	d.Sentence = "72 % of the slow tail is time in which the process was silent while goroutines could run: its CPU quota or a busy host; record cpu.stat and schedstat to tell."
	d.Target = Target{Kind: "file", File: "/home/someone/incidents/2026-11-21/trace.out", Go: "go1.25.3"}
	d.Requests.Count, d.Requests.Tail = 640, Band{Count: 20, Episodes: 3, MeanNS: 40100000}
	d.ConsistentWith = []cause.Consistent{{
		Causes: []string{"gomaxprocs-over-quota", "quota-too-low", "host-contention"}, Share: 0.72, Contrast: tail,
		Record:   "cpu.stat of the cgroup and schedstat of every thread: diagnose the live process by its pid",
		Summary:  "The whole process made no event for more than 20 ms while goroutines were runnable.",
		Evidence: []string{"31 silences of 20 ms to 61 ms, covering 72 % of the tail's time"},
	}}
	for i, s := range []float64{0.08, 0.05, 0.03, 0.02, 0.01, 0.005, 0.003, 0.002} {
		d.Unnamed = append(d.Unnamed, cause.Unnamed{Share: s, Leaf: "leaf number " + string(rune('a'+i))})
	}
	d.UnresolvedShare = 0.08
	d.NotRecorded = []NotRecorded{{What: "host", Why: "a trace file holds nothing about the host", Command: "whylate diagnose 1234"}}
	d.Lost = Lost{Bytes: 1204000, Detail: "the last generation is cut"}
	for i := range maxWindows + 2 {
		at := int64(i) * 2100 * ms
		d.Windows = append(d.Windows, Window{FromNS: at, ToNS: at + 2100*ms, Requests: 640, P50NS: 3 * ms, P99NS: int64(30+i) * ms, MaxNS: 90 * ms,
			Verdict: VerdictHealthy, Worst: i == 1})
	}
	d.Windows[1].Verdict = VerdictInconclusive
	d.Service = "shop"
	d.Windows[7].Verdict, d.Windows[7].Cause, d.Windows[7].Share = VerdictCause, "timer-wait", 0.61
	d.Notes = []string{"The tail has 3 separate episodes only; a longer recording would give an interval."}
	d.RuledOut = append(d.RuledOut, cause.RuledOut{Cause: "timer-wait", Because: "its share is uncertain: 13 % [4..30 %]", Fits: true, Number: 0.13})
	return d
}

func levelFinding() *Diagnosis {
	d := base()
	d.Verdict = VerdictCause
	d.Sentence = "Every request spends 208 ms of its 212 ms waiting for 10.0.0.7:5432 under main.(*store).load (store.go:41)."
	d.Requests.P50NS, d.Requests.P90NS, d.Requests.P99NS, d.Requests.P999NS, d.Requests.MaxNS = 212*ms, 214*ms, 219*ms, 221*ms, 225*ms
	d.Requests.Tail.MeanNS, d.Requests.Typical.MeanNS, d.ExcessNS = 220*ms, 212*ms, 8*ms
	d.Level = &Level{MedianNS: 212 * ms, WaitShare: 0.98, Against: "zero", ExcessNS: 212 * ms, OtherShare: 0.02}
	d.Findings = []cause.Finding{{
		Cause: "slow-dependency", Contrast: level, Share: 0.981, Confidence: "medium", Pattern: "repeated", ExcessNS: 208 * ms, P99WithoutNS: 11 * ms,
		Where:    &cause.Place{Function: "main.(*store).load", File: "store.go", Line: 41},
		Summary:  "The reply of 10.0.0.7:5432 is late, and was not in the kernel before.",
		Evidence: []string{"network wait at one stack, never poll-blind"},
		Fix:      []string{"look at the peer"}, Verify: "the peer's own latency agrees.",
	}}
	d.Unnamed = []cause.Unnamed{{Share: 0.8, Leaf: "cpu main.handle"}}
	d.UnresolvedShare = 0.2
	return d
}

func mixed() *Diagnosis {
	d := base()
	d.Verdict, d.Reason = VerdictInconclusive, "unexplained"
	d.Sentence = "61.0 % of the slow tail is simply another endpoint, GET /report, which is slow by design."
	d.Mix = Mix{Share: 0.61, Endpoint: "GET /report"}
	d.Requests.Endpoints = []Endpoint{
		{Endpoint: "GET /report", Count: 160, Slow: 151, P50NS: 31 * ms, P99NS: 49 * ms, MaxNS: 52700000},
		{Endpoint: "github.com/example/shop/internal/server.(*handlers).listEverythingOfOneCustomer.func1", Count: 11874, Slow: 29, Presumed: 1, P50NS: 1900000, P99NS: 12 * ms, MaxNS: 38 * ms},
	}
	// Thirds: the printed tenths must still add up.
	d.Unnamed = []cause.Unnamed{{Share: 0.13, Leaf: "cpu main.render"}, {Share: 0.13, Leaf: "network db:5432"}, {Share: 0.13, Leaf: "gc"}}
	return d
}

const attack = "\x1b]0;owned\x07\x1b[31mred\u202egnp.exe\u2066 \r\n\x9b2J\u009b2J\u200bzero\u200dwidth \xff\xfe שלום ﷽ z̴̡̢̛̗̘̙̜̝ 日本語 \u2028 tail\t\x00"

// probed is healthy, with all that probes can count.
func probed() *Diagnosis {
	d := healthy()
	burst := events.Burst{FromNS: 1, ToNS: 5_000_000_001, Hits: 2190, HitNS: 880}
	short := burst
	short.ToNS, short.Short, short.Lost = 1_200_000_001, true, 3
	d.Kernel = &Kernel{
		RunQueue: &events.HeatMap{FromNS: 1, StepNS: 100_000_000, Columns: []events.Histogram{
			{}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 900}, {12: 7, 15: 100, 20: 3}, {10: 1, 22: 1},
		}},
		Clock: &events.Readings{FromNS: 0, ToNS: 1_000_000_000, Calls: 4_000, NS: 1_600_000, MaxNS: 9_000, Callers: []events.Caller{
			{N: 90, Stack: events.Stack{"time.now", "time.Now", "main.stamp", "main.handle"}},
			{N: 1, Stack: events.Stack{"runtime.nanotime1", "runtime.sysmon"}},
		}},
		Cgo: &events.CgoCalls{Burst: burst, More: 2, Functions: []events.CFunction{
			{Name: "compress", Go: "main._Cfunc_compress", Calls: 1095, NS: 556_000_000, MaxNS: 18_800_000, Goroutine: 64, Histogram: events.Histogram{15: 900, 16: 150, 24: 45},
				Stack: events.Stack{"runtime.cgocall", "main._Cfunc_compress", "main.pack", "main.handle"}, Back: &events.Back{Calls: 1095, NS: 1_000_000, MaxNS: 90_000}},
			{Name: "a_function_of_C_with_a_name_that_needs_its_own_line", Go: "main._Cfunc_a_function", Calls: 1, NS: 900, MaxNS: 900, Histogram: events.Histogram{9: 1}},
		}},
		GC:        &events.Cycles{Burst: burst, N: 5, NS: 3_000_000, MaxNS: 1_190_000},
		Gosched:   &events.Goroutines{Burst: short, N: 3270, NS: 115_000_000, MaxNS: 1_110_000, Goroutine: 1436, Histogram: events.Histogram{14: 3000, 18: 260, 20: 10}},
		Func:      &events.Calls{Burst: burst, Functions: []string{"main.handle", "main.list"}, Calls: 1004, Skipped: 1, Unended: 2},
		FuncTimes: &CallTimes{Ended: 1001, P50NS: 220_000, P90NS: 410_000, P99NS: 38_000_000, MaxNS: 51_000_000, Open: 3, OldestNS: 900_000_000},
		TCP: &events.Connections{Connections: []events.Connection{
			{Local: "10.0.0.7:40122", Remote: "10.0.0.9:5432", Again: 12, Syns: 1, ResetsSent: 2, ResetsGot: 3, AtNS: []int64{2_000_000_000}},
			{Local: "10.0.0.7:8080", Remote: "10.0.0.3:51000", ResetsGot: 1},
		}, More: 1, Others: 4, OtherResets: 5},
		Alloc: &events.Allocs{Burst: burst, Samples: 3, Bytes: 3_400_000, MaxSize: 1_300_000, Sites: []events.AllocSite{
			{Samples: 2, Bytes: 2_600_000, Stack: events.Stack{"runtime.mallocgc", "bytes.growSlice", "main.render"}}, {Samples: 1, Bytes: 800_000},
		}},
	}
	return d
}

func hostile() *Diagnosis {
	d := causeVerdict()
	long := ""
	for range 200 {
		long += "AVeryLongWordWithoutAnySpace"
	}
	d.Sentence = attack + d.Sentence
	d.Target = Target{Kind: attack, URL: "http://" + attack, File: long + attack, Go: attack}
	d.Requests.FoundBy, d.Requests.Clock = attack, long
	d.Requests.Classes = []Class{{Class: attack, Count: 1}, {Class: long, Count: 1 << 40}}
	d.Requests.Endpoints = []Endpoint{{Endpoint: attack, Count: -1, Slow: 1 << 40, Presumed: 1 << 50, P50NS: -1}, {Endpoint: long}}
	f := &d.Findings[0]
	f.Where = &cause.Place{Function: "main." + attack, File: "/x/" + long + "/" + attack, Line: -1}
	f.Summary, f.Verify, f.Confidence = attack, long, attack
	f.Evidence = []string{attack, long}
	f.Via = []string{attack}
	d.Unnamed[0].Leaf, d.Unnamed[0].Where.Function = attack, long
	d.Mix.Endpoint = attack
	d.RuledOut = []cause.RuledOut{{Cause: attack, Because: long}, {Cause: "gc-pause", Because: attack, Number: 1e300}}
	d.NotRecorded = []NotRecorded{{What: attack, Why: long, Command: "whylate " + attack}}
	d.Notes = []string{attack}
	d.Lost = Lost{Bytes: -1, Detail: attack}
	d.Windows = []Window{{File: attack, FromNS: -1, Requests: -1, Verdict: attack, Cause: attack, Share: 7, Worst: true}, {Verdict: attack}}
	d.Tool = attack
	return d
}
