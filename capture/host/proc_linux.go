package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// userHZ is the unit of CPU times in /proc, USER_HZ of the kernel: 100 on every
// architecture that Go runs on. It is not the kernel's own HZ.
const userHZ = 100

const tickNS = 1e9 / userHZ

// maxText bounds a text file of /proc that is read at once: the environment, the
// command line, a status.
const maxText = 4 << 20

// procDir is the folder of a process in /proc.
func procDir(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// readText reads a small text file of /proc or /sys.
func readText(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxText))
	return string(b), err
}

// readInt reads a file that holds one number.
func readInt(path string) (int64, error) {
	s, err := readText(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(s), 10, 64)
}

// check tells a process that can be looked at from one that is gone or hidden.
func check(pid int) error {
	if pid <= 0 {
		return fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	status, err := os.ReadFile(procDir(pid) + "/status")
	switch {
	case err == nil:
		for line := range strings.Lines(string(status)) {
			if group, ok := strings.CutPrefix(line, "Tgid:"); ok && strings.TrimSpace(group) != strconv.Itoa(pid) {
				return fmt.Errorf("%d is a thread of process %s: %w", pid, strings.TrimSpace(group), ErrNoProcess)
			}
		}
		return nil
	case errors.Is(unix.Kill(pid, 0), unix.EPERM):
		return fmt.Errorf("process %d belongs to another user and /proc hides it (mounted with hidepid), run whylate as that user or as root: %w", pid, ErrNoProcess)
	}
	return fmt.Errorf("process %d: %w", pid, ErrNoProcess)
}

// gone tells whether an error of reading in /proc means that the process or
// thread ended.
func gone(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) }

// file is one that is read again and again from its beginning.
type file struct {
	fd   int
	path string
}

func open(path string) (file, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return file{fd: -1}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return file{fd, path}, nil
}

// read reads what fits in buf; the first lines of a longer file.
func (f file) read(buf []byte) ([]byte, error) {
	n, err := pread(f.fd, buf)
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: f.path, Err: err}
	}
	return buf[:n], nil
}

func (f file) close() {
	if f.fd >= 0 {
		unix.Close(f.fd)
	}
}

// numbers parses the numbers of a line, separated by blanks, into dst and returns
// how many there are. It ends at what is no number.
func numbers(line []byte, dst []int64) int {
	n := 0
	for n < len(dst) {
		line = bytes.TrimLeft(line, " \t")
		negative := len(line) > 0 && line[0] == '-'
		if negative {
			line = line[1:]
		}
		i, v := 0, int64(0)
		for ; i < len(line) && line[i] >= '0' && line[i] <= '9'; i++ {
			v = v*10 + int64(line[i]-'0')
		}
		if i == 0 {
			break
		}
		if negative {
			v = -v
		}
		dst[n], line = v, line[i:]
		n++
	}
	return n
}

// value returns the number behind a key at the beginning of a line, 0 without it.
func value(text []byte, key string) int64 {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		if after, ok := bytes.CutPrefix(line, []byte(key)); ok && len(after) > 0 && (after[0] == ' ' || after[0] == '\t') {
			var v [1]int64
			numbers(after, v[:])
			return v[0]
		}
		text = rest
	}
	return 0
}

// stat is what is used of /proc/PID/stat and /proc/PID/task/TID/stat, see
// proc_pid_stat(5).
type stat struct {
	state          byte
	parent         int64
	minflt, majflt int64
	utime, stime   int64 // ticks
	reaped         int64 // ticks of the children that ended and were waited for, theirs included
	threads        int64
	started        int64 // ticks since the machine started
	rss            int64 // pages
	blkioNS        int64 // waiting for block I/O, of this thread alone even in the file of the process
}

// parseStat parses a stat line. The second field is a name in parentheses that may hold
// anything, parentheses too.
func parseStat(line []byte) (stat, bool) {
	i := bytes.LastIndexByte(line, ')')
	if i < 0 || i+3 > len(line) {
		return stat{}, false
	}
	var f [39]int64 // field 4 is f[0]
	if numbers(line[i+3:], f[:]) < len(f) {
		return stat{}, false
	}
	at := func(field int) int64 { return max(f[field-4], 0) }
	return stat{
		state: line[i+2], parent: at(4), minflt: at(10), majflt: at(12), utime: at(14), stime: at(15), reaped: at(16) + at(17),
		threads: at(20), started: at(22), rss: at(24), blkioNS: at(42) * tickNS,
	}, true
}

// parse reads a line of /proc/stat without its name: CPU times in ticks; guest time is part of
// user time.
func (c *CPUTimes) parse(line []byte) bool {
	var f [8]int64 // user nice system idle iowait irq softirq steal
	if numbers(line, f[:]) < len(f) {
		return false
	}
	c.BusyNS = (f[0] + f[1] + f[2] + f[5] + f[6]) * tickNS
	c.IdleNS, c.IOWaitNS, c.StealNS = f[3]*tickNS, f[4]*tickNS, f[7]*tickNS
	return true
}

// parse reads the first line of /proc/stat, which is summed over CPUs.
func (m *Machine) parse(text []byte) {
	if line, ok := bytes.CutPrefix(text, []byte("cpu ")); ok {
		m.CPUTimes.parse(line)
	}
}

// on sums up the lines of some CPUs in /proc/stat.
func (c *CPUTimes) on(cpus *unix.CPUSet, text []byte) {
	var sum CPUTimes
	for len(text) > 0 && bytes.HasPrefix(text, []byte("cpu")) {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		name, times, _ := bytes.Cut(line[len("cpu"):], []byte(" "))
		var one CPUTimes
		if cpu, err := strconv.Atoi(string(name)); err == nil && cpus.IsSet(cpu) && one.parse(times) {
			sum.BusyNS += one.BusyNS
			sum.IdleNS += one.IdleNS
			sum.IOWaitNS += one.IOWaitNS
			sum.StealNS += one.StealNS
		}
	}
	if sum != (CPUTimes{}) {
		*c = sum
	}
}

// pressure parses a file of /proc/pressure, whose totals are in microseconds.
func pressure(text []byte) (some, full int64) {
	total := func(kind string) int64 {
		_, line, _ := bytes.Cut(text, []byte(kind+" "))
		line, _, _ = bytes.Cut(line, []byte("\n"))
		_, line, _ = bytes.Cut(line, []byte("total="))
		var v [1]int64
		numbers(line, v[:])
		return v[0] * 1000
	}
	return total("some"), total("full")
}

// netCounter returns a counter of /proc/PID/net/snmp or netstat, whose groups are
// two lines: names, then values.
func netCounter(text, group, name string) int64 {
	lines := strings.Split(text, "\n")
	for i := 0; i+1 < len(lines); i++ {
		if !strings.HasPrefix(lines[i], group+": ") {
			continue
		}
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		for j := 1; j < min(len(names), len(values)); j++ {
			if names[j] == name {
				v, _ := strconv.ParseInt(values[j], 10, 64)
				return max(v, 0)
			}
		}
		i++
	}
	return 0
}

// readNet reads the counters of the network namespace of a process.
func readNet(pid int) (*Net, error) {
	snmp, err := readText(procDir(pid) + "/net/snmp")
	if err != nil {
		return nil, err
	}
	netstat, err := readText(procDir(pid) + "/net/netstat")
	if err != nil {
		return nil, err
	}
	return &Net{
		RetransSegs:     netCounter(snmp, "Tcp", "RetransSegs"),
		ListenOverflows: netCounter(netstat, "TcpExt", "ListenOverflows"),
		ListenDrops:     netCounter(netstat, "TcpExt", "ListenDrops"),
		OutOfOrder:      netCounter(netstat, "TcpExt", "TCPOFOQueue"),
	}, nil
}

// nspids returns the ids of a process or thread in its pid namespaces, outermost first, from
// its status.
func nspids(status string) []int {
	var ids []int
	for line := range strings.Lines(status) {
		if list, ok := strings.CutPrefix(line, "NSpid:"); ok {
			for _, f := range strings.Fields(list) {
				if id, err := strconv.Atoi(f); err == nil && len(ids) < maxGroups {
					ids = append(ids, id)
				}
			}
		}
	}
	return ids
}
