package symbols

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// maxMaps bounds what is read of /proc/PID/maps.
const maxMaps = 16 << 20

// Bias is how much further a process has the functions of its executable than the file
// says: 0 unless it may run anywhere (PIE). b is that of /proc/PID/exe.
func Bias(pid int, b *Binary) (uint64, error) {
	if b.fixed {
		return 0, nil
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return 0, err
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	bias, err := b.bias(io.LimitReader(f, maxMaps), exe)
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	return bias, nil
}

// bias finds the executable in the lines of a process's maps (proc_pid_maps(5)).
func (b *Binary) bias(maps io.Reader, exe string) (uint64, error) {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		// 55d0c0a00000-55d0c0a61000 r-xp 00001000 fe:00 1234    /usr/bin/service
		line := lines.Text()
		fields := strings.Fields(line)
		// A process may map its executable once more, to read it.
		if len(fields) < 6 || !strings.Contains(fields[1], "x") || !strings.HasSuffix(line, " "+exe) {
			continue
		}
		from, _, _ := strings.Cut(fields[0], "-")
		start, err := strconv.ParseUint(from, 16, 64)
		if err != nil {
			continue
		}
		offset, err := strconv.ParseUint(fields[2], 16, 64)
		if err != nil {
			continue
		}
		page := uint64(os.Getpagesize() - 1)
		for _, s := range b.segments {
			if s.exec && s.offset&^page == offset {
				return start - s.addr&^page, nil
			}
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("its code of %s is not mapped", exe)
}
