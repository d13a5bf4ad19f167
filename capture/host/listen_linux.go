package host

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// listenState selects the sockets that listen in a question to NETLINK_SOCK_DIAG,
	// memoryInfo an attribute of the answers (INET_DIAG_SKMEMINFO, an array of 32 bits each),
	// and dropsAt what of it counts connections that found the queue full (SK_MEMINFO_DROPS).
	// Source: include/uapi/linux/inet_diag.h and sock_diag.h, include/net/tcp_states.h.
	listenState = 1 << 10
	memoryInfo  = 7
	dropsAt     = unix.SizeofRtAttr + 4*8
	diagQueues  = unix.SizeofNlMsghdr + 56 // of struct inet_diag_msg: how many wait, and how many may
	// maxListenFDs bounds among how many descriptors of a process its listeners are looked for before
	// the first sample: each takes 1.5 us.
	maxListenFDs = 4096
	// maxAnswers bounds how many messages one reading takes from the kernel, 32 KB each.
	maxAnswers = 64
)

// listeners asks the kernel for the queues of a process's listening sockets.
type listeners struct {
	diag int
	own  map[uint64]bool // by inode
	buf  []byte
}

// openListeners prepares that for the sockets that a process has now.
func openListeners(pid int) (*listeners, error) {
	found, err := inodes(pid)
	if err != nil {
		return nil, err
	}
	if len(found) > maxListenFDs {
		return nil, fmt.Errorf("the process has %d sockets: to look for listeners among them takes too long", len(found))
	}
	l := &listeners{own: map[uint64]bool{}, buf: make([]byte, 32<<10)}
	for inode := range found {
		l.own[inode] = true
	}
	if l.diag, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *listeners) close() { unix.Close(l.diag) }

// errNoListener says that the process listens nowhere, or in another network namespace.
var errNoListener = errors.New("none of the listening sockets of this network namespace belongs to the process")

// read sums up the queues.
func (l *listeners) read() (*Listen, error) {
	var sum Listen
	known := false
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := unix.Sendto(l.diag, listenQuestion(family), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return nil, err
		}
		more := true
		for range maxAnswers {
			n, _, err := unix.Recvfrom(l.diag, l.buf, 0)
			if err != nil {
				return nil, err
			}
			var some bool
			if some, more = l.add(&sum, l.buf[:n]); some {
				known = true
			}
			if !more {
				break
			}
		}
		if more {
			return nil, errors.New("the kernel's list of listening sockets has no end")
		}
	}
	if !known {
		return nil, errNoListener
	}
	return &sum, nil
}

func listenQuestion(family byte) []byte {
	b := make([]byte, diagRequest)
	ne := binary.NativeEndian
	ne.PutUint32(b, diagRequest)
	ne.PutUint16(b[4:], diagByFamily)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	q := b[unix.SizeofNlMsghdr:]
	q[0], q[1], q[2] = family, unix.IPPROTO_TCP, 1<<(memoryInfo-1)
	ne.PutUint32(q[4:], listenState)
	return b
}

// add adds what a part of the answer says of own sockets. more is false at its end.
func (l *listeners) add(sum *Listen, b []byte) (known, more bool) {
	ne := binary.NativeEndian
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(ne.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return known, false
		}
		m := b[:size]
		b = b[min((size+3)&^3, len(b)):]
		if ne.Uint16(m[4:]) != diagByFamily { // NLMSG_DONE, NLMSG_ERROR
			return known, false
		}
		if size < diagAttrs || !l.own[uint64(ne.Uint32(m[diagInode:]))] {
			continue
		}
		known = true
		sum.Waiting += int64(ne.Uint32(m[diagQueues:]))
		sum.Room += int64(ne.Uint32(m[diagQueues+4:]))
		sum.Dropped += droppedIn(m[diagAttrs:])
	}
	return known, true
}

// droppedIn reads the attributes of one answer.
func droppedIn(b []byte) int64 {
	ne := binary.NativeEndian
	for len(b) >= unix.SizeofRtAttr {
		size := int(ne.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			break
		}
		if ne.Uint16(b[2:]) == memoryInfo && size >= dropsAt+4 {
			return int64(ne.Uint32(b[dropsAt:]))
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return 0
}
