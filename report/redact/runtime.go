package redact

// runtimeWords are why goroutines wait or stop, why the world stops, and what workers of the
// collector are. Source: package runtime of Go 1.22 to 1.26.
var runtimeWords = map[string]bool{
	"unspecified": true, "forever": true, "network": true, "select": true, "sync.(*Cond).Wait": true, "sync": true, "chan send": true,
	"chan receive": true, "GC mark assist wait for work": true, "GC background sweeper wait": true, "system goroutine wait": true,
	"preempted": true, "wait for debug call": true, "wait until GC ends": true, "sleep": true, "GC weak to strong wait": true,
	"synctest": true, "runtime.Gosched": true, "runtime.GoSched": true,
	"unknown": true, "GC mark termination": true, "GC sweep termination": true, "write heap dump": true, "goroutine profile": true,
	"goroutine profile cleanup": true, "all goroutines stack trace": true, "read mem stats": true, "AllThreadsSyscall": true,
	"GOMAXPROCS": true, "start trace": true, "stop trace": true,
	"GC (dedicated)": true, "GC (fractional)": true, "GC (idle)": true,
}
