package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sameThreads is the part of a trace's threads that have to be threads of the
// process: some end between the trace and the look.
const sameThreads = 0.9

// Same checks that a process is the one that answers /debug/pprof/cmdline with cmdline
// (its arguments, joined by NUL) and whose trace has these thread ids, as the process
// itself counts them. A local port may belong to a proxy or to a port
// forwarder, whose process has nothing to do with what answers behind it. No threads: only
// the command line is compared. The error wraps ErrOtherProcess or ErrNoProcess.
func Same(pid int, cmdline string, threads []int) error {
	if err := check(pid); err != nil {
		return err
	}
	own, err := readText(procDir(pid) + "/cmdline")
	if err != nil {
		return fmt.Errorf("compare the command line: %w", err)
	}
	// Empty arguments at the end look like the separator at the end of one.
	if own == "" || strings.TrimRight(own, "\x00") != strings.TrimRight(cmdline, "\x00") {
		return fmt.Errorf("process %d, which listens there, has another command line than the target (it forwards the port?): %w", pid, ErrOtherProcess)
	}
	if len(threads) == 0 {
		return nil
	}
	return SameThreads(pid, threads)
}

// SameThreads checks that threads, as the process itself counts them, are those of a process: the
// half of Same that needs no command line. The error wraps ErrOtherProcess, also of no threads.
func SameThreads(pid int, threads []int) error {
	wanted := make(map[int]bool, len(threads))
	for _, id := range threads {
		wanted[id] = true
	}
	need := int(float64(len(wanted))*sameThreads + 0.999)
	tasks, err := os.ReadDir(procDir(pid) + "/task")
	if err != nil {
		return fmt.Errorf("compare the threads: %w", err)
	}
	status, err := readText(procDir(pid) + "/status")
	if err != nil {
		return fmt.Errorf("compare the threads: %w", err)
	}
	inside := len(nspids(status)) > 1 // in a pid namespace below ours threads have other ids
	found := 0
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		if inside {
			if id, err = innerID(pid, id); err != nil {
				continue // ended
			}
		}
		if wanted[id] {
			found++
		}
		if found >= need && need > 0 {
			return nil
		}
	}
	return fmt.Errorf("process %d, which listens there, has %d of the target's %d threads (it forwards the port?): %w", pid, found, len(wanted), ErrOtherProcess)
}

// innerID is the id that a thread has in its own pid namespace.
func innerID(pid, tid int) (int, error) {
	status, err := readText(fmt.Sprintf("%s/task/%d/status", procDir(pid), tid))
	if err != nil {
		return 0, err
	}
	ids := nspids(status)
	if len(ids) == 0 {
		return tid, nil // before Linux 4.1
	}
	return ids[len(ids)-1], nil
}

// ListenerPID returns the local process that listens on a TCP address, host:port. The
// host is localhost, a loopback address, one of this machine's interfaces, or a name that
// resolves to one. If several processes hold the same socket, as a supervisor
// and the service that it handed the socket to, it is the youngest. Check with Same. The
// error wraps ErrNotLocal, or os.ErrPermission if it may be a process of another user.
func ListenerPID(addr string) (int, error) {
	all, err := listenersOn(addr)
	if err != nil {
		return 0, err
	}
	youngest := slices.MaxFunc(all, func(a, b holder) int { return int(min(max(a.started-b.started, -1), 1)) })
	return youngest.pid, nil
}

// OnlyListenerPID is ListenerPID where nobody else is seen to hold the socket: each of several may
// accept the next connection, whoever accepted the last one. The error wraps ErrShared then.
func OnlyListenerPID(addr string) (int, error) {
	all, err := listenersOn(addr)
	switch {
	case err != nil:
		return 0, err
	case len(all) > 1:
		return 0, fmt.Errorf("%d processes hold the socket of %s: %w", len(all), addr, ErrShared)
	}
	return all[0].pid, nil
}

// listenersOn returns the processes that hold the socket of an address, at least one.
func listenersOn(addr string) ([]holder, error) {
	candidates, err := localAddrs(addr)
	if err != nil {
		return nil, err
	}
	wanted, err := listeningInodes(candidates)
	if err != nil {
		return nil, fmt.Errorf("find the listener on %s: %w", addr, err)
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("nothing listens on %s in this network namespace: %w", addr, ErrNotLocal)
	}
	holders, denied, err := holdersFor(wanted, startsWithin)
	switch {
	case err != nil:
		return nil, fmt.Errorf("find the listener on %s: %w", addr, err)
	case len(holders) == 0 && denied > 0:
		return nil, fmt.Errorf("%s belongs to one of %d processes of other users: %w", addr, denied, os.ErrPermission)
	case len(holders) == 0:
		return nil, fmt.Errorf("no process is seen that holds the socket of %s: %w", addr, ErrNotLocal)
	case len(wanted) > 1 && !oneHolds(holders, wanted):
		return nil, fmt.Errorf("several processes listen on %s (SO_REUSEPORT), give the id of one: %w", addr, ErrNotLocal)
	}
	return holders, nil
}

// localAddrs resolves an address and refuses it unless it is one of this machine.
func localAddrs(addr string) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("find the listener: %w", err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("find the listener on %s: %w", addr, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // literals resolve to themselves
	if err != nil {
		return nil, fmt.Errorf("find the listener on %s: %w", addr, err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("find the listener on %s: %w", addr, err)
	}
	var found []netip.AddrPort
	for _, ip := range ips {
		ip = ip.Unmap().WithZone("")
		if ip.IsLoopback() || ip.IsUnspecified() || slices.ContainsFunc(own, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(net.IP(ip.AsSlice()))
		}) {
			found = append(found, netip.AddrPortFrom(ip, uint16(number)))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s is no address of this machine: %w", addr, ErrNotLocal)
	}
	return found, nil
}

// listeningInodes returns the sockets that a connection to one of addrs goes to. As in the
// kernel an exact address comes before a wildcard, and that of the own family before that of IPv6.
func listeningInodes(addrs []netip.AddrPort) (map[uint64]bool, error) {
	var best int
	found := make(map[uint64]bool)
	err := tcpTable(0, func(s tcpSocket) bool {
		for _, a := range addrs {
			if score := serves(s, a); score > 0 && score >= best {
				if score > best {
					best = score
					clear(found)
				}
				found[s.inode] = true
			}
		}
		return true
	})
	return found, err
}

// serves ranks how well a socket fits an address, 0 if not at all.
func serves(s tcpSocket, a netip.AddrPort) int {
	if !s.listens() || s.local.Port() != a.Port() {
		return 0
	}
	switch {
	case s.local.Addr() == a.Addr():
		return 3
	case s.local.Addr().IsUnspecified() && s.v6 == a.Addr().Is6():
		return 2
	case s.local.Addr().IsUnspecified() && s.v6, a.Addr().IsUnspecified():
		return 1
	}
	return 0
}

// holder is a process that has one of the wanted sockets open.
type holder struct {
	pid     int
	started int64
	sockets map[uint64]bool
}

// startsWithin is how long it takes a process that another one starts to become another program, and so to close what it should
// not have: mostly less than a millisecond.
const startsWithin = 50 * time.Millisecond

// holdersFor is holders; of several those that still hold a socket a time later: a process that one of them was
// starting just then has all of its descriptors, until it becomes another program.
func holdersFor(wanted map[uint64]bool, later time.Duration) (found []holder, denied int, err error) {
	found, denied, err = holders(wanted)
	if err != nil || len(found) < 2 {
		return found, denied, err
	}
	time.Sleep(later)
	again, denied, err := holders(wanted)
	if err != nil {
		return nil, denied, err
	}
	return stayed(found, again), denied, nil
}

// stayed returns those of the holders after that were there before, and all if none was.
func stayed(before, after []holder) []holder {
	both := slices.DeleteFunc(slices.Clone(after), func(h holder) bool {
		return !slices.ContainsFunc(before, func(b holder) bool { return b.pid == h.pid && b.started == h.started })
	})
	if len(both) == 0 {
		return after
	}
	return both
}

// holders looks through the descriptors of all processes. It counts those that it may
// not look at.
func holders(wanted map[uint64]bool) (found []holder, denied int, err error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, 0, err
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		own, err := inodes(pid)
		if errors.Is(err, fs.ErrPermission) {
			denied++
		}
		held := make(map[uint64]bool)
		for inode := range wanted {
			if _, ok := own[inode]; ok {
				held[inode] = true
			}
		}
		if len(held) == 0 {
			continue
		}
		line, err := readText(procDir(pid) + "/stat")
		if st, ok := parseStat([]byte(line)); err == nil && ok {
			found = append(found, holder{pid, st.started, held})
		}
	}
	return found, denied, nil
}

// oneHolds tells whether one process has all the sockets.
func oneHolds(holders []holder, wanted map[uint64]bool) bool {
	return slices.ContainsFunc(holders, func(h holder) bool { return len(h.sockets) == len(wanted) })
}

// Listeners returns the addresses, host:port, on which a process in our own network
// namespace listens and that can be tried on loopback, ordered by port. An error says why
// that cannot be known: it wraps os.ErrPermission of a process of another user, and
// ErrElsewhere of one in another namespace.
func Listeners(pid int) ([]string, error) {
	ours, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	if theirs, err := os.Readlink(procDir(pid) + "/ns/net"); err != nil {
		return nil, err
	} else if theirs != ours {
		return nil, fmt.Errorf("process %d: %w", pid, ErrElsewhere)
	}
	own, err := ownSockets(pid)
	if err != nil {
		return nil, err
	}
	var addrs []netip.AddrPort
	for _, s := range own {
		ip := s.local.Addr()
		switch {
		case !s.listens():
			continue
		case ip.IsUnspecified() && !s.v6:
			ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		case ip.IsUnspecified():
			ip = netip.IPv6Loopback()
		case !ip.IsLoopback():
			continue
		}
		addrs = append(addrs, netip.AddrPortFrom(ip, s.local.Port()))
	}
	slices.SortFunc(addrs, func(a, b netip.AddrPort) int {
		if a.Port() != b.Port() {
			return int(a.Port()) - int(b.Port())
		}
		return a.Addr().Compare(b.Addr())
	})
	var list []string
	for _, a := range slices.Compact(addrs) {
		list = append(list, a.String())
	}
	return list, nil
}
