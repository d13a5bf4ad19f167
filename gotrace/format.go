package gotrace

import "math"

// The kinds of events. Source: internal/trace/tracev2 of Go 1.26.
const (
	evEventBatch          = 1
	evStacks              = 2
	evStack               = 3
	evStrings             = 4
	evString              = 5
	evCPUSamples          = 6
	evCPUSample           = 7
	evFrequency           = 8
	evProcsChange         = 9
	evProcStart           = 10
	evProcStop            = 11
	evProcSteal           = 12
	evProcStatus          = 13
	evGoCreate            = 14
	evGoCreateSyscall     = 15
	evGoStart             = 16
	evGoDestroy           = 17
	evGoDestroySyscall    = 18
	evGoStop              = 19
	evGoBlock             = 20
	evGoUnblock           = 21
	evGoSyscallBegin      = 22
	evGoSyscallEnd        = 23
	evGoSyscallEndBlocked = 24
	evGoStatus            = 25
	evSTWBegin            = 26
	evSTWEnd              = 27
	evGCActive            = 28
	evGCBegin             = 29
	evGCEnd               = 30
	evSweepActive         = 31
	evSweepBegin          = 32
	evSweepEnd            = 33
	evAssistActive        = 34
	evAssistBegin         = 35
	evAssistEnd           = 36
	evHeapAlloc           = 37
	evHeapGoal            = 38
	evGoLabel             = 39
	evUserTaskBegin       = 40
	evUserTaskEnd         = 41
	evUserRegionBegin     = 42
	evUserRegionEnd       = 43
	evUserLog             = 44
	evGoSwitch            = 45
	evGoSwitchDestroy     = 46
	evGoCreateBlocked     = 47
	evGoStatusStack       = 48
	evExperimentalBatch   = 49
	evSync                = 50
	evClockSnapshot       = 51
	evEndOfGeneration     = 52
)

// arguments is how many numbers an event has, the time since the one before first; 0 of those
// that stand in no batch of events. Source: as above.
var arguments = [256]uint8{
	9: 3, 10: 3, 11: 1, 12: 4, 13: 3, // processors
	14: 4, 15: 2, 16: 3, 17: 1, 18: 1, 19: 3, 20: 3, 21: 4, 22: 3, 23: 1, 24: 1, 25: 4, // goroutines
	26: 3, 27: 1, // stops
	28: 2, 29: 3, 30: 2, 31: 2, 32: 2, 33: 3, 34: 2, 35: 2, 36: 1, 37: 2, 38: 2, // the collector
	39: 2, 40: 5, 41: 3, 42: 4, 43: 4, 44: 5, // annotations
	45: 3, 46: 3, 47: 4, 48: 5,
	// Of an experiment (GODEBUG=traceallocfree).
	128: 4, 129: 4, 130: 2, 131: 3, 132: 3, 133: 2, 134: 3, 135: 3, 136: 2,
}

// The states of goroutines and Ps as traces number them. Source: as above, status.go.
const (
	goRunnable = 1
	goRunning  = 2
	goSyscall  = 3
	goWaiting  = 4

	procRunning   = 1
	procIdle      = 2
	procSyscall   = 3
	procAbandoned = 4 // in a system call of a thread that is not known
)

const (
	headerLen = 16
	maxBatch  = 64 << 10
	maxInARow = 128 // frames of a stack
	// maxID leaves room behind the numbers of strings.
	maxID = math.MaxUint64 / 2
	// oldestMinor and newestMinor are the formats that are known. Go 1.24 wrote that of 1.23.
	oldestMinor = 22
	newestMinor = 26
)
