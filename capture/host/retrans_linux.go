package host

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxAsked is for how many connections the kernel is asked how often it sent again: a question
// takes 4 us of CPU time.
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

// askRetrans asks the kernel how often it sent segments again on the connections that
// a process opened to others: own are its sockets, list the same ones.
func askRetrans(own []tcpSocket, list []Socket) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	asked := 0
	buf := make([]byte, 4096)
	for i := range list {
		if list[i].Inbound || list[i].Inside || list[i].Remote == "" {
			continue
		}
		if asked++; asked > maxAsked {
			return
		}
		if err := unix.Sendto(fd, diagQuestion(&own[i]), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return
		}
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return
		}
		if v, ok := diagAnswer(buf[:n], own[i].inode); ok {
			list[i].Retrans = &v
		}
	}
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
