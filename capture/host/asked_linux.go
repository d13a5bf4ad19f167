package host

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxAsked is about how many connections the kernel is asked: the questions about one take 4 us.
const maxAsked = 256

// The messages of NETLINK_SOCK_DIAG, include/uapi/linux/inet_diag.h and sock_diag.h.
const (
	diagByFamily = 20                       // SOCK_DIAG_BY_FAMILY
	diagInfo     = 2                        // INET_DIAG_INFO, a struct tcp_info
	diagRequest  = unix.SizeofNlMsghdr + 56 // struct inet_diag_req_v2
	diagInode    = unix.SizeofNlMsghdr + 68 // of struct inet_diag_msg: its last field
	diagAttrs    = diagInode + 4            // behind it
	diagPorts    = unix.SizeofNlMsghdr + 8  // of struct inet_diag_req_v2: its addresses
	retransAt    = unsafe.Offsetof(unix.TCPInfo{}.Total_retrans)
)

// ask asks the kernel about the connections that a process opened to others: own are its
// sockets, list the same ones. What it does not tell stays unknown.
func ask(pid int, own []tcpSocket, list []Socket) {
	diag, diagErr := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG)
	if diagErr == nil {
		defer unix.Close(diag)
	}
	process, processErr := unix.PidfdOpen(pid, 0)
	if processErr == nil {
		defer unix.Close(process)
	}
	asked := 0
	for i := range list {
		if list[i].Inbound || list[i].Inside || list[i].Remote == "" {
			continue
		}
		if asked++; asked > maxAsked {
			return
		}
		if diagErr == nil {
			list[i].Retrans, diagErr = askRetrans(diag, &own[i])
		}
		if processErr == nil {
			list[i].NoDelay, processErr = askNoDelay(process, &own[i])
		}
	}
}

// askNoDelay looks at a descriptor of a process. Should the process close it in these
// microseconds, the connection ends when we do.
func askNoDelay(process int, s *tcpSocket) (*bool, error) {
	fd, err := unix.PidfdGetfd(process, s.fd, 0)
	if err == unix.EBADF { // closed
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil || is.Ino != s.inode { // another one by now
		return nil, err
	}
	v, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY)
	set := v != 0
	return &set, err
}

// askRetrans asks how often segments were sent again on a connection.
func askRetrans(diag int, s *tcpSocket) (*int64, error) {
	if err := unix.Sendto(diag, diagQuestion(s), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var buf [4096]byte
	n, _, err := unix.Recvfrom(diag, buf[:], 0)
	if err != nil {
		return nil, err
	}
	if v, ok := diagAnswer(buf[:n], s.inode); ok {
		return &v, nil
	}
	return nil, nil
}

// diagQuestion asks for one connection.
func diagQuestion(s *tcpSocket) []byte {
	b := make([]byte, diagRequest)
	ne := binary.NativeEndian
	ne.PutUint32(b, diagRequest)
	ne.PutUint16(b[4:], diagByFamily)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST)
	q := b[unix.SizeofNlMsghdr:]
	q[0], q[1], q[2] = unix.AF_INET, unix.IPPROTO_TCP, 1<<(diagInfo-1)
	ne.PutUint32(q[4:], ^uint32(0)) // in any state
	id := b[diagPorts:]
	binary.BigEndian.PutUint16(id, s.local.Port())
	binary.BigEndian.PutUint16(id[2:], s.remote.Port())
	if s.v6 {
		q[0] = unix.AF_INET6
		local, remote := s.local.Addr().As16(), s.remote.Addr().As16()
		copy(id[4:], local[:])
		copy(id[20:], remote[:])
	} else {
		copy(id[4:], s.local.Addr().AsSlice())
		copy(id[20:], s.remote.Addr().AsSlice())
	}
	ne.PutUint64(id[40:], ^uint64(0)) // whatever its cookie
	return b
}

// diagAnswer reads how often the socket with an inode sent again.
func diagAnswer(b []byte, inode uint64) (int64, bool) {
	ne := binary.NativeEndian
	if len(b) < diagAttrs || ne.Uint16(b[4:]) != diagByFamily || uint64(ne.Uint32(b[diagInode:])) != inode {
		return 0, false
	}
	for b = b[diagAttrs:]; len(b) >= unix.SizeofRtAttr; {
		size := int(ne.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			break
		}
		if at := unix.SizeofRtAttr + int(retransAt); ne.Uint16(b[2:]) == diagInfo && size >= at+4 {
			return int64(ne.Uint32(b[at:])), true
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return 0, false
}
