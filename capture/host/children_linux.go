package host

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// maxChildren bounds the descendants of a process whose CPU time is recorded.
	maxChildren = 64
	// sliceCost is the CPU time in ns after which a search for descendants is interrupted:
	// there may be thousands of processes, and each takes 8 to 15 us the first time.
	sliceCost = 1e6
)

// children measures the CPU time of the processes that descend from a process: what the process
// and its descendants waited for and reaped, plus what those use that live. A process
// that ends moves from the latter to the former, so the sum only grows.
type children struct {
	proc   int          // descriptor of /proc
	known  map[int]int  // processes that are none, and the pass that last had them
	family map[int]bool // the process and its descendants
	live   []relative   // the descendants, parents before their children
	pass   int
	begun  int64 // ticks since the machine started, when recording began
	before int64 // ticks of all of them before the first sample
	cut    bool
	path   []byte
	names  [1 << 10]byte
	text   [1 << 10]byte
}

// relative is a descendant with its open stat.
type relative struct {
	pid  int
	stat int // descriptor
}

func openChildren(pid int) (*children, error) {
	proc, err := open("/proc")
	if err != nil {
		return nil, err
	}
	return &children{
		proc: proc.fd, known: map[int]int{0: 0}, family: map[int]bool{pid: true}, pass: 1,
		begun: clock(unix.CLOCK_BOOTTIME) / tickNS,
	}, nil
}

func (c *children) close() {
	for _, r := range c.live {
		closeRaw(r.stat)
	}
	c.live = nil
	if c.proc >= 0 {
		closeRaw(c.proc)
		c.proc = -1
	}
}

// search goes on looking for descendants, for at most so much CPU time.
func (c *children) search(most int64) error {
	for from := threadCPU(); threadCPU()-from < most; {
		n, err := listNumbers(c.proc, c.names[:], c.meet)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		for pid, pass := range c.known {
			if pass < c.pass && pid != 0 {
				delete(c.known, pid) // it ended; the number may come again
			}
		}
		c.pass++
		return rewind(c.proc)
	}
	return nil
}

// meet looks at a process, unless it did so before. One whose parent it has not met yet, because its
// number is higher or it began meanwhile, is looked at again in the next pass.
func (c *children) meet(pid int) {
	if c.family[pid] {
		return
	}
	if _, met := c.known[pid]; met {
		c.known[pid] = c.pass
		return
	}
	c.path = append(strconv.AppendInt(c.path[:0], int64(pid), 10), "/stat\x00"...)
	fd, err := openat(c.proc, c.path)
	if err != nil {
		return
	}
	n, err := pread(fd, c.text[:])
	st, ok := parseStat(c.text[:n])
	_, met := c.known[int(st.parent)]
	switch {
	case err != nil || !ok:
	case !c.family[int(st.parent)]:
		if met {
			c.known[pid] = c.pass
		}
	case len(c.live) == maxChildren:
		c.cut = true
	default:
		c.family[pid] = true
		c.live = append(c.live, relative{pid, fd})
		if st.started < c.begun {
			c.before += st.ticks()
		}
		return
	}
	closeRaw(fd)
}

// ticks is the CPU time of a process and of its children that it reaped.
func (st *stat) ticks() int64 { return st.utime + st.stime + st.reaped }

// sum is the CPU time of the descendants in ns since the first call. Reaped is what the process
// itself says of them; it was read before, so that a child that is reaped meanwhile counts
// in the next call and not twice.
func (c *children) sum(reaped int64, first bool) int64 {
	if first {
		c.before += reaped
	}
	total := reaped - c.before
	live := c.live[:0]
	for _, r := range c.live {
		n, err := pread(r.stat, c.text[:])
		st, ok := parseStat(c.text[:n])
		if err != nil || !ok {
			closeRaw(r.stat)
			delete(c.family, r.pid)
			continue
		}
		total += st.ticks()
		live = append(live, r)
	}
	c.live = live
	return max(total, 0) * tickNS
}

// missed says what of the descendants is not in the sum.
func (c *children) missed() error {
	if !c.cut {
		return nil
	}
	return fmt.Errorf("the process has more than %d descendants", maxChildren)
}
