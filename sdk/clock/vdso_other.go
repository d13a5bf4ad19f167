//go:build !(linux && amd64)

package clock

import "time"

const (
	monotonic       = 1
	monotonicCoarse = 6
)

// Nothing else has a coarse clock that Go code may read without a system call.

func readClock(fn uintptr, id int64) int64 { return -1 }

var coarse uintptr

func readCoarse() (sec, nsec int64) { return 0, 0 }

func find() uintptr { return 0 }

func function() uintptr { return 0 }

func resolution() time.Duration { return 0 }
