package doctor

// kernel are the questions to the kernel that no file answers.
type kernel struct {
	clock    func() (since, raw []float64)
	adjtimex func() (timex, error)
	packet   func() error
	bpf      func() error // loads a program that does nothing
	sched    func() error // runs whylate's own for a moment
}

// timex is what adjtimex(2) answers. Offset is in nanoseconds if Status has
// staNano, else in microseconds.
type timex struct {
	State          int
	Status, Offset int64
	MaxErrorUS     int64
}

// Of include/uapi/linux/timex.h.
const (
	timeError = 5      // TIME_ERROR: the clock is not synchronised
	staUnsync = 0x0040 // STA_UNSYNC
	staNano   = 0x2000 // STA_NANO
)
