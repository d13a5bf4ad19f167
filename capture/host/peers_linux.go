package host

import (
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxPeerFDs bounds how many sockets of the process are looked at, those opened first: 8 us each.
	maxPeerFDs = 256
	// peersEvery is how long a complete search is trusted, peersAgain one that found none; peersList how long a list of
	// their threads.
	peersEvery, peersAgain, peersList = int64(30 * time.Second), int64(3 * time.Second), int64(3 * time.Second)
	// peerCost is the CPU time in ns for the threads of one peer in one look.
	peerCost = 200e3
)

// peers finds the processes of the same machine that a process has connections to, and measures how
// long their threads had a CPU and waited for one: a peer that gets none answers late.
type peers struct {
	pid       int
	proc      int                       // descriptor of /proc
	ends      map[uint64]netip.AddrPort // the sockets at the other ends of connections, and what was called
	searching bool
	live      []*peer
	found     []*Peer // all that there were
	sum       Peers
	names     [1 << 10]byte
}

// peer is one of them with its open files.
type peer struct {
	pid     int
	threads *threads
	run     int64 // CPU time when it was read last
	delay   int64
	listed  int64 // when its threads were, on CLOCK_MONOTONIC
	as      *Peer // what is told of it
	limits  []string
	stopped int64 // by quotas, until it was found
	scratch Sample
}

func openPeers(pid int) (*peers, error) {
	proc, err := open("/proc")
	if err != nil {
		return nil, err
	}
	return &peers{pid: pid, proc: proc.fd}, nil
}

func (p *peers) close() {
	for _, x := range p.live {
		x.threads.close()
	}
	p.live = nil
	if p.proc >= 0 {
		closeRaw(p.proc)
		p.proc = -1
	}
}

// search goes on looking for peers, for at most so much CPU time, and reports whether it is complete.
func (p *peers) search(most int64) (done bool, err error) {
	from := threadCPU()
	if !p.searching {
		if p.ends, err = otherEnds(p.pid); err != nil {
			return true, err
		}
		if err := rewind(p.proc); err != nil {
			return true, err
		}
		p.searching = true
	}
	for len(p.ends) > 0 {
		n, err := listNumbers(p.proc, p.names[:], p.meet)
		if err != nil {
			p.searching = false
			return true, err
		}
		if n == 0 {
			break
		}
		if threadCPU()-from > most {
			return false, nil
		}
	}
	p.searching = false
	return true, nil
}

// meet looks whether a process has the other end of a connection, and at which addresses.
func (p *peers) meet(pid int) {
	at := slices.IndexFunc(p.live, func(x *peer) bool { return x.pid == pid })
	if pid == p.pid || len(p.ends) == 0 || at < 0 && len(p.found) == MaxPeers {
		return
	}
	sockets, err := inodes(pid)
	if err != nil {
		return // it ended, or is not ours to look at
	}
	var addresses []string
	for inode := range sockets {
		if a, ok := p.ends[inode]; ok {
			addresses = append(addresses, a.String())
		}
	}
	switch {
	case len(addresses) == 0:
	case at >= 0:
		p.live[at].as.reachedAt(addresses)
	default:
		p.follow(pid, addresses)
	}
}

// follow begins to read a process that was reached at addresses.
func (p *peers) follow(pid int, addresses []string) {
	ts, err := openThreads(pid)
	if err != nil {
		return
	}
	ts.plain = true
	run, err := processCPU(pid)
	if err != nil {
		ts.close()
		return
	}
	name, _ := os.ReadFile(procDir(pid) + "/comm")
	x := &peer{pid: pid, threads: ts, run: run, as: &Peer{PID: pid, Name: strings.TrimSpace(string(name))}}
	x.as.reachedAt(addresses)
	for _, g := range findGroups(pid).list {
		if g.QuotaUS > 0 && g.stat != "" {
			x.limits = append(x.limits, g.stat)
		}
	}
	x.stopped = x.throttled()
	p.live, p.found = append(p.live, x), append(p.found, x.as)
}

// reachedAt adds addresses, as far as there is room; the first one in order is Address.
func (p *Peer) reachedAt(addresses []string) {
	all := append(slices.Clone(addresses), p.Also...)
	if p.Address != "" {
		all = append(all, p.Address)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	all = all[:min(len(all), MaxAddresses)]
	p.Address, p.Also = all[0], all[1:]
}

// read adds what the peers' threads ran and waited since it was called last.
func (p *peers) read(now int64) error {
	var failed error
	p.live = slices.DeleteFunc(p.live, func(x *peer) bool {
		run, err := processCPU(x.pid)
		if err == nil && now >= x.listed+peersList {
			err = x.threads.list(peerCost)
			x.listed = now
		}
		if err != nil {
			if failed == nil && !gone(err) {
				failed = err
			}
			x.threads.close()
			return true
		}
		x.scratch.Threads, x.scratch.Gone = x.scratch.Threads[:0], x.scratch.Gone[:0]
		x.threads.look(&x.threads.active, len(x.threads.all), peerCost, &x.scratch)
		x.threads.look(&x.threads.quiet, atLeast, peerCost, &x.scratch)
		p.sum.RunNS += max(run-x.run, 0)
		p.sum.DelayNS += x.threads.delay - x.delay
		x.run, x.delay = run, x.threads.delay
		return false
	})
	return failed
}

// throttled is how long quotas stopped it, as far as is known.
func (x *peer) throttled() (ns int64) {
	for _, file := range x.limits {
		if text, err := readText(file); err == nil {
			var c GroupCounters
			c.parse([]byte(text))
			ns += c.ThrottledNS
		}
	}
	return ns
}

// list is all that there were, with how long quotas stopped those that live.
func (p *peers) list() (out []Peer) {
	for _, x := range p.live {
		x.as.ThrottledNS = max(x.throttled()-x.stopped, 0)
	}
	for _, x := range p.found {
		out = append(out, *x)
	}
	return out
}

// otherEnds are the sockets of this machine at the other ends of the connections that a process opened, as
// far as they are in our own network namespace, and the addresses that it called.
func otherEnds(pid int) (map[uint64]netip.AddrPort, error) {
	own, err := inodes(pid)
	if err != nil {
		return nil, err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(process)
	diag, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(diag)
	byFD := make([]uint64, 0, len(own))
	for inode := range own {
		byFD = append(byFD, inode)
	}
	slices.SortFunc(byFD, func(a, b uint64) int { return own[a] - own[b] })
	var calls []tcpSocket
	listens := map[uint16]bool{}
	for _, inode := range byFD[:min(len(byFD), maxPeerFDs)] {
		s, listening, err := socketOf(process, own[inode], inode)
		if err != nil {
			return nil, err
		}
		switch {
		case s == nil:
		case listening:
			listens[s.local.Port()] = true
		default:
			calls = append(calls, *s)
		}
	}
	ends := map[uint64]netip.AddrPort{}
	for _, s := range calls {
		if listens[s.local.Port()] {
			continue // a client
		}
		there := tcpSocket{local: s.remote, remote: s.local, v6: s.v6}
		inode, err := askInode(diag, &there)
		if err == nil && inode == 0 && !s.v6 { // as a socket for both kinds of addresses has them
			there.v6 = true
			inode, err = askInode(diag, &there)
		}
		if err != nil {
			return nil, err
		}
		if _, ours := own[inode]; inode != 0 && !ours {
			ends[inode] = s.remote
		}
	}
	return ends, nil
}

// socketOf asks for the addresses of a TCP connection of a process, and whether it is a socket that
// listens; nil if it is neither, or was closed meanwhile.
func socketOf(process, number int, inode uint64) (s *tcpSocket, listens bool, err error) {
	fd, err := unix.PidfdGetfd(process, number, 0)
	if err == unix.EBADF {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer unix.Close(fd)
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil || is.Ino != inode {
		return nil, false, nil
	}
	// Go's listeners are of MPTCP; what they accept is not, unless the client asks for it.
	if protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || protocol != unix.IPPROTO_TCP && protocol != unix.IPPROTO_MPTCP {
		return nil, false, nil
	}
	local, v6, ok := addressOf(unix.Getsockname(fd))
	if !ok {
		return nil, false, nil
	}
	s = &tcpSocket{local: local, v6: v6, inode: inode, fd: number}
	if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && on != 0 {
		return s, true, nil
	}
	if s.remote, _, ok = addressOf(unix.Getpeername(fd)); !ok {
		return nil, false, nil // it is not connected
	}
	return s, false, nil
}

// addressOf is an address of the kernel's; IPv4 addresses mapped into IPv6 are IPv4, v6 says what the
// socket is.
func addressOf(a unix.Sockaddr, err error) (at netip.AddrPort, v6, ok bool) {
	if err != nil {
		return at, false, false
	}
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), false, true
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port)), true, true
	}
	return at, false, false
}

// askInode asks for the inode of a connection, 0 if there is none here.
func askInode(diag int, s *tcpSocket) (uint64, error) {
	if err := unix.Sendto(diag, diagQuestion(s), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	var buf [4096]byte
	n, _, err := unix.Recvfrom(diag, buf[:], 0)
	if err != nil {
		return 0, err
	}
	if b := buf[:n]; len(b) >= diagAttrs && binary.NativeEndian.Uint16(b[4:]) == diagByFamily {
		return uint64(binary.NativeEndian.Uint32(b[diagInode:])), nil
	}
	return 0, nil
}
