package gctune

import (
	"math"
	"runtime/metrics"
)

// reading is what runtime/metrics says at one time. The counters are since the process began.
type reading struct {
	cycles  uint64 // garbage collections that are complete
	limited uint64 // the last of them in which the runtime's own limiter was on, 0 if none
	// CPU time in seconds, of GOMAXPROCS processors. It advances at the end of a cycle only.
	gc, assist, idleMark float64 // all of the collector's; of it: by goroutines that allocate, and on idle processors
	idle, total          float64
	allocs               float64 // bytes allocated
	// Bytes.
	live            float64 // marked by the last cycle, with what was allocated meanwhile
	stacks, globals float64 // scanned as roots; GOGC counts them since Go 1.18
	mapped          float64 // from the operating system and not given back: what a memory limit limits
	heap            float64 // of it, objects that are not swept yet and free heap
	gogc            int     // in force, -1 is off
	limit           int64
}

// The names are in the order of reading.from. All are there since Go 1.21.
var names = [...]string{
	"/gc/cycles/total:gc-cycles",
	"/gc/limiter/last-enabled:gc-cycle",
	"/cpu/classes/gc/total:cpu-seconds",
	"/cpu/classes/gc/mark/assist:cpu-seconds",
	"/cpu/classes/gc/mark/idle:cpu-seconds",
	"/cpu/classes/idle:cpu-seconds",
	"/cpu/classes/total:cpu-seconds",
	"/gc/heap/allocs:bytes",
	"/gc/heap/live:bytes",
	"/gc/scan/stack:bytes",
	"/gc/scan/globals:bytes",
	"/memory/classes/total:bytes",
	"/memory/classes/heap/released:bytes",
	"/memory/classes/heap/objects:bytes",
	"/memory/classes/heap/free:bytes",
	"/gc/gogc:percent",
	"/gc/gomemlimit:bytes",
}

// gauge reads the runtime's metrics, without stopping the world and without allocating. It is used by one goroutine.
type gauge struct{ samples [len(names)]metrics.Sample }

func newGauge() *gauge {
	g := new(gauge)
	for i, name := range names {
		g.samples[i].Name = name
	}
	return g
}

func (g *gauge) read() (r reading) {
	metrics.Read(g.samples[:])
	r.cycles, r.limited = g.uint(0), g.uint(1)
	r.gc, r.assist, r.idleMark, r.idle, r.total = g.float(2), g.float(3), g.float(4), g.float(5), g.float(6)
	r.allocs, r.live, r.stacks, r.globals = g.float(7), g.float(8), g.float(9), g.float(10)
	r.mapped = g.float(11) - g.float(12)
	r.heap = g.float(13) + g.float(14)
	r.gogc = int(int32(g.uint(15))) // an int32 in the runtime, -1 is off
	r.limit = int64(min(g.uint(16), math.MaxInt64))
	return r
}

func (g *gauge) uint(i int) uint64 {
	if v := g.samples[i].Value; v.Kind() == metrics.KindUint64 {
		return v.Uint64()
	}
	return 0
}

func (g *gauge) float(i int) float64 {
	if v := g.samples[i].Value; v.Kind() == metrics.KindFloat64 {
		return v.Float64()
	}
	return float64(g.uint(i))
}

// cost is what the collector took between two readings. Time on idle processors is not counted, of the collector
// neither: the runtime's limiter counts the same way (runtime/mgclimit.go).
type cost struct {
	share    float64 // of the CPU time that was used, 0 to 1
	capacity float64 // of that of all processors, idle ones too, 0 to 1
	ratio    float64 // CPU seconds of the collector per second of the program
	assist   float64 // part of the goroutines' time in which they had to assist, 0 to 1
	gogc     float64 // bytes allocated per cycle in percent of live + stacks + globals: the GOGC that was had
}

// since returns the cost after an earlier reading; ok is false if there is none to know: no cycle ended, or the counters
// make no sense.
func (r *reading) since(before *reading) (c cost, ok bool) {
	if r.cycles <= before.cycles {
		return cost{}, false
	}
	used := r.total - before.total - (r.idle - before.idle)
	gc := r.gc - before.gc - (r.idleMark - before.idleMark)
	assist := r.assist - before.assist
	all := r.total - before.total
	program := used - (r.gc - before.gc)
	const tooMuch = 1e12 // seconds: no process has had that
	if !(used > 1e-9 && all >= used && gc >= 0 && assist >= 0 && program > -used && all < tooMuch && gc < tooMuch && assist < tooMuch) {
		return cost{}, false
	}
	// The counters are not of the same instant: a program that took next to nothing may be less than that.
	program = max(program, used/1000)
	c.share = min(1, gc/(gc+program))
	c.capacity = min(1, gc/all)
	c.ratio = gc / program
	c.assist = min(1, assist/(assist+program))
	if g := 100 * (r.allocs - before.allocs) / float64(r.cycles-before.cycles) / r.roots(); g > 0 {
		c.gogc = min(g, 1e6)
	}
	return c, true
}

// least is a heap that is taken for none, in bytes: the runtime does not collect below 4 MiB x GOGC/100.
const least = 4 << 20

// roots is what GOGC is a percentage of, in bytes.
func (r *reading) roots() float64 { return max(r.live+r.stacks+r.globals, least) }

// headroom is the part of its limit that the runtime leaves (memoryLimitHeapGoalHeadroomPercent in runtime/mgcpacer.go).
const headroom = 0.03

// room is the GOGC, in percent, that a memory limit amounts to with the present heap; below 0 if there is none.
// It is the runtime's own algebra: the limit less what is mapped for other purposes than the heap (stacks,
// the runtime's tables, holes in spans), less the headroom, is where the next cycle has to end.
func (r *reading) room(limit float64) float64 {
	other := max(0, r.mapped-r.heap)
	goal := (limit - other) * (1 - headroom)
	room := 100 * (goal - r.live) / r.roots()
	if !(room > -100) {
		return -100
	}
	return min(room, 1e6)
}
