package demo

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// wire is a listener whose connections lose a ratio of the segments that they get,
// at random: the kernel drops them before TCP sees them, and the other side sends
// them again. It needs no right.
type wire struct {
	*net.TCPListener
	lost float64
}

func (w wire) Accept() (net.Conn, error) {
	c, err := w.AcceptTCP()
	if err == nil {
		err = w.lose(c, w.lost)
	}
	return c, err
}

// lose gives a socket a filter of packets, in place of the one that a connection has
// from its listener.
func (wire) lose(s syscall.Conn, ratio float64) error {
	const random = 0xfffff000 + 56 // SKF_AD_OFF + SKF_AD_RANDOM, <linux/filter.h>
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: random},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: uint32(ratio * (1 << 32))},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1}, // the whole segment
		{Code: unix.BPF_RET | unix.BPF_K},
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	outer := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	})
	if outer != nil {
		return outer
	}
	return os.NewSyscallError("setsockopt", err)
}
