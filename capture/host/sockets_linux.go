package host

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxTable bounds what is read of a table of sockets: 400,000 lines of 150 bytes.
	maxTable = 64 << 20
	// maxFDs bounds how many descriptors of a process are looked at.
	maxFDs = 200_000
)

// tcpStates are the kernel's, include/net/tcp_states.h.
var tcpStates = [...]string{
	1: "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT",
	"CLOSE", "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING", "NEW_SYN_RECV",
}

// tcpSocket is a line of /proc/PID/net/tcp or tcp6. IPv4 addresses mapped into
// IPv6 are IPv4 here.
type tcpSocket struct {
	local, remote netip.AddrPort
	state         string
	inode         uint64
	v6            bool // the socket's own family
	fd            int  // of the process, once it is known whose socket it is
}

func (s *tcpSocket) listens() bool { return s.state == "LISTEN" }

// tcpTable calls do with every TCP socket in the network namespace of a process
// (0 is our own), until it returns false.
func tcpTable(pid int, do func(tcpSocket) bool) error {
	dir := procDir(pid)
	if pid == 0 {
		dir = "/proc/self"
	}
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(dir + "/net/" + name)
		if name == "tcp6" && errors.Is(err, fs.ErrNotExist) {
			return nil // a kernel without IPv6
		}
		if err != nil {
			return err
		}
		more, err := eachTCP(f, name == "tcp6", do)
		f.Close()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func eachTCP(r io.Reader, v6 bool, do func(tcpSocket) bool) (more bool, err error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxTable))
	for lines.Scan() {
		if s, ok := parseTCP(lines.Text(), v6); ok && !do(s) {
			return false, nil
		}
	}
	return true, lines.Err()
}

// parseTCP parses a line such as
//
//	0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 4711 ...
func parseTCP(line string, v6 bool) (tcpSocket, bool) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return tcpSocket{}, false
	}
	local, ok1 := parseAddr(f[1])
	remote, ok2 := parseAddr(f[2])
	state, err1 := strconv.ParseUint(f[3], 16, 8)
	inode, err2 := strconv.ParseUint(f[9], 10, 64)
	if !ok1 || !ok2 || err1 != nil || err2 != nil || state == 0 || int(state) >= len(tcpStates) {
		return tcpSocket{}, false
	}
	return tcpSocket{local: local, remote: remote, state: tcpStates[state], inode: inode, v6: v6}, true
}

// parseAddr parses an address in hexadecimal: 32-bit words in the machine's order of
// bytes, then the port.
func parseAddr(s string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(s, ":")
	words, err := hex.DecodeString(host)
	p, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(words)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(words); i += 4 {
		binary.NativeEndian.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
	}
	ip, ok := netip.AddrFromSlice(words)
	return netip.AddrPortFrom(ip.Unmap(), uint16(p)), ok
}

// inodes are the sockets among the file descriptors of a process, with one descriptor each.
func inodes(pid int) (map[uint64]int, error) {
	dir, err := os.Open(procDir(pid) + "/fd")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxFDs)
	if err != nil && err != io.EOF {
		return nil, err
	}
	found := make(map[uint64]int)
	for _, name := range names {
		target, err := os.Readlink(procDir(pid) + "/fd/" + name)
		if err != nil {
			continue // closed meanwhile
		}
		if number, ok := strings.CutPrefix(target, "socket:["); ok {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64); err == nil {
				found[inode], _ = strconv.Atoi(name)
			}
		}
	}
	return found, nil
}

// ownSockets are the TCP sockets that a process holds.
func ownSockets(pid int) ([]tcpSocket, error) {
	own, err := inodes(pid)
	if err != nil {
		return nil, err
	}
	var list []tcpSocket
	err = tcpTable(pid, func(s tcpSocket) bool {
		if fd, ok := own[s.inode]; ok {
			s.fd = fd
			list = append(list, s)
		}
		return len(list) < maxFDs
	})
	return list, err
}

// sockets lists the TCP sockets of a process, the listening ones first, and whether there
// were more than MaxSockets.
func sockets(pid int) (list []Socket, cut bool, err error) {
	own, err := ownSockets(pid)
	if err != nil {
		return nil, false, err
	}
	list, cut = relate(own)
	ask(pid, own, list)
	return list, cut, nil
}

// relate tells which sockets belong to connections made to the process, and
// which to connections with itself.
func relate(own []tcpSocket) (list []Socket, cut bool) {
	type pair struct{ local, remote netip.AddrPort }
	ends := make(map[pair]bool)
	listeners := make(map[uint16][]netip.Addr)
	for _, s := range own {
		if s.listens() {
			listeners[s.local.Port()] = append(listeners[s.local.Port()], s.local.Addr())
		} else {
			ends[pair{s.local, s.remote}] = true
		}
	}
	inbound := func(s tcpSocket) bool {
		return slices.ContainsFunc(listeners[s.local.Port()], func(a netip.Addr) bool {
			return a.IsUnspecified() || a == s.local.Addr()
		})
	}
	slices.SortStableFunc(own, func(a, b tcpSocket) int {
		switch {
		case a.listens() == b.listens():
			return 0
		case a.listens():
			return -1
		}
		return 1
	})
	if cut = len(own) > MaxSockets; cut {
		own = own[:MaxSockets]
	}
	for _, s := range own {
		x := Socket{Local: s.local.String(), State: s.state}
		if !s.listens() {
			x.Remote = s.remote.String()
			x.Inbound = inbound(s)
			x.Inside = ends[pair{s.remote, s.local}]
		}
		list = append(list, x)
	}
	return list, cut
}
