// Package cgroup reads the texts in which Linux says to which control groups a
// process belongs, where their folders are, and what limits and counters are in there,
// of version 1 and 2. It only parses: any platform may read what was recorded on another. It is in
// internal/ and, the same byte for byte, in sdk/internal/: neither module can import the other's.
package cgroup

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Mount is a line of /proc/PID/mountinfo, see proc_pid_mountinfo(5). Root is the
// folder of the mounted file system that appears at Point; of a cgroup hierarchy it is
// a group.
type Mount struct {
	Root, Point, Kind string
	Options           []string
}

// Mounts parses mountinfo; lines that do not have its form are left out.
func Mounts(mountinfo string) []Mount {
	var list []Mount
	for _, line := range strings.SplitAfter(mountinfo, "\n") {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		options := append(strings.Split(l[5], ","), strings.Split(r[2], ",")...)
		list = append(list, Mount{unescape(l[3]), unescape(l[4]), r[0], options})
	}
	return list
}

// unescape undoes the kernel's \040 for a space and so on.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Membership are the groups of a process, as paths in their hierarchies.
type Membership struct {
	// V1 has the group for each controller of version 1, V2 is that of version 2; ""
	// is none.
	V1 map[string]string
	V2 string
}

// Memberships parses /proc/PID/cgroup, see cgroups(7).
func Memberships(text string) Membership {
	m := Membership{V1: make(map[string]string)}
	for _, line := range strings.SplitAfter(text, "\n") {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) < 3 || !strings.HasPrefix(f[2], "/"):
		case f[0] == "0" && f[1] == "":
			m.V2 = f[2]
		default:
			for _, controller := range strings.Split(f[1], ",") {
				m.V1[controller] = f[2]
			}
		}
	}
	return m
}

// Group is a process's group in one hierarchy: that of Controller on version 1.
type Group struct {
	Path       string
	Version    int // 1 or 2, 0 is none
	Controller string
}

// Of returns the group that a controller governs: on version 1 if a hierarchy there has it,
// else on version 2, which then may have it.
func (m Membership) Of(controller string) Group {
	if p, ok := m.V1[controller]; ok {
		return Group{p, 1, controller}
	}
	if m.V2 != "" {
		return Group{m.V2, 2, controller}
	}
	return Group{}
}

// Outside reports whether the group lies outside of the reader's cgroup namespace.
func (g Group) Outside() bool { return g.Path == "/.." || strings.HasPrefix(g.Path, "/../") }

// In reports whether a mount shows the hierarchy of g, or a part of it.
func (g Group) In(m Mount) bool {
	switch g.Version {
	case 1:
		return m.Kind == "cgroup" && slices.Contains(m.Options, g.Controller)
	case 2:
		return m.Kind == "cgroup2"
	}
	return false
}

// Place is where a group is: at Below, which begins with a slash, in what Mount shows.
type Place struct {
	Mount
	Below string
}

// Folder is the group's folder.
func (p Place) Folder() string { return path.Join(p.Point, p.Below) }

// Find returns where g is, and whether its hierarchy is mounted at all: a mount may
// show another part of it.
func (g Group) Find(mounts []Mount) (at Place, found, mounted bool) {
	for _, m := range mounts {
		if !g.In(m) {
			continue
		}
		mounted = true
		if rest, ok := below(m.Root, g.Path); ok && !g.Outside() {
			return Place{m, path.Join("/", rest)}, true, true
		}
	}
	return Place{}, false, mounted
}

// below returns the rest of a path under a folder.
func below(folder, name string) (rest string, ok bool) {
	if folder == "/" {
		return name, true
	}
	rest, ok = strings.CutPrefix(name, folder)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// Quota parses cpu.max, or the two files of version 1 joined by a space: microseconds of
// CPU time in every period, both 0 if there is no limit.
func Quota(text string) (quotaUS, periodUS int64) {
	words := strings.Fields(text)
	if len(words) != 2 {
		return 0, 0
	}
	q, err1 := strconv.ParseInt(words[0], 10, 64)
	p, err2 := strconv.ParseInt(words[1], 10, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 { // "max", or -1 on version 1
		return 0, 0
	}
	return q, p
}

// unlimited: version 1 says "no memory limit" with the largest number of whole
// pages; nothing that large is a limit.
const unlimited = 1 << 62

// MemoryLimit parses memory.max, or memory.limit_in_bytes of version 1: bytes, 0 if there is no limit.
func MemoryLimit(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n <= 0 || n >= unlimited {
		return 0
	}
	return n
}

// Counters are a group's CPU counters since it was made. ThrottledNS is summed over
// CPUs. UsageNS is 0 on version 1, which has a file of its own for it.
type Counters struct {
	Periods, Throttled, ThrottledNS, UsageNS int64
}

// ParseCounters parses cpu.stat of either version. It allocates nothing. Numbers that are negative or
// too large count as 0.
func ParseCounters(text []byte) (c Counters) {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		key, number, _ := bytes.Cut(line, []byte(" "))
		switch string(key) {
		case "nr_periods":
			c.Periods = parse(number, 1)
		case "nr_throttled":
			c.Throttled = parse(number, 1)
		case "throttled_time":
			c.ThrottledNS = parse(number, 1)
		case "throttled_usec":
			c.ThrottledNS = parse(number, 1000)
		case "usage_usec":
			c.UsageNS = parse(number, 1000)
		}
	}
	return c
}

// parse returns a number times a unit.
func parse(digits []byte, unit int64) (n int64) {
	const most = 1<<63 - 1
	for _, d := range bytes.TrimSpace(digits) {
		if d < '0' || d > '9' || n > (most/unit-9)/10 {
			return 0
		}
		n = 10*n + int64(d-'0')
	}
	return n * unit
}
