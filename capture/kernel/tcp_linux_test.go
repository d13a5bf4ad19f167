//go:build amd64 || arm64

package kernel

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/kernel/events"
)

// drop has the kernel drop what comes to a socket, before TCP sees it: so many of a
// thousand packets.
func drop(t *testing.T, fd int, thousandth uint32) {
	t.Helper()
	filter := []unix.SockFilter{ // linux/filter.h
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0xfffff038}, // SKF_AD_OFF + SKF_AD_RANDOM
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: 1000},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: thousandth, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 20}, // all of it
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	fatal(t, unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}))
}

// listen listens on the loopback interface. A socket of several paths would take no filter.
func listen(t *testing.T, network string) net.Listener {
	t.Helper()
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	addr := "127.0.0.1:0"
	if network == "tcp6" {
		addr = "[::1]:0"
	}
	l, err := c.Listen(t.Context(), network, addr)
	fatal(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// onFD does something with the descriptor of a connection or a listener.
func onFD(t *testing.T, c any, do func(fd int)) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	fatal(t, err)
	fatal(t, raw.Control(func(fd uintptr) { do(int(fd)) }))
}

// told is the connection between two addresses of which something was told.
func told(t *testing.T, c *events.Connections, local, remote net.Addr) events.Connection {
	t.Helper()
	for _, x := range c.Connections {
		if x.Local == local.String() && x.Remote == remote.String() {
			return x
		}
	}
	t.Fatalf("nothing of %v – %v in %+v", local, remote, c)
	return events.Connection{}
}

// tries is how often a test may find fewer events than TCP counted. On a 6.18 guest the kernel
// did not run the program for one in some 300 of them, nor count that as missed, while ftrace
// was told of the same event (docs/probes.md); why is not known.
const tries = 3

func TestWhatConnectionsSendAgainIsWhatTheyCount(t *testing.T) {
	needEBPF(t)
	for name, size := range map[string]int{"tcp4": 1000, "tcp6": 1000, "tcp4, segments together": 100_000} {
		t.Run(name, func(t *testing.T) {
			for i := 1; sendsAgain(t, name[:4], size); i++ {
				if i == tries {
					t.Fatalf("in each of %d recordings something is missing", tries)
				}
			}
		})
	}
}

// sendsAgain tells whether TCP counted more than was told.
func sendsAgain(t *testing.T, network string, size int) (more bool) {
	l := listen(t, network)
	rec := record(t, os.Getpid(), Options{Sets: []string{events.TCP}})
	client, err := net.Dial(network, l.Addr().String())
	fatal(t, err)
	defer client.Close()
	server, err := l.Accept()
	fatal(t, err)
	defer server.Close()
	onFD(t, server, func(fd int) { drop(t, fd, 200) })
	go io.Copy(io.Discard, server)
	var counted, unacked uint32
	count := func() {
		onFD(t, client, func(fd int) {
			info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
			fatal(t, err)
			counted, unacked = info.Total_retrans, info.Unacked
		})
	}
	for count(); counted < 10; count() {
		if size <= 1000 && unacked > 0 { // each segment by itself
			time.Sleep(time.Millisecond)
			continue
		}
		_, err := client.Write(make([]byte, size))
		fatal(t, err)
		time.Sleep(2 * time.Millisecond)
	}
	onFD(t, server, func(fd int) { drop(t, fd, 0) })
	eventually(t, "all that was lost was sent again", func() bool { count(); return unacked == 0 })
	got := rec.stop().After.TCP
	if got == nil {
		t.Fatal("nothing was counted")
	}
	x := told(t, got, client.LocalAddr(), client.RemoteAddr())
	if x.Again < int64(counted) {
		t.Logf("%d of %d were told", x.Again, counted)
		return true
	}
	near(t, "segments sent again", x.Again, int64(counted), 0, 0)
	times := min(int(counted), events.MaxInstants)
	if n := len(x.AtNS); n > times || n < 1 || size <= 1000 && n != times || x.AtNS[0] < got.FromNS || x.AtNS[n-1] > got.ToNS || !slices.IsSorted(x.AtNS) {
		t.Errorf("%d segments sent at %d, between %d and %d", counted, x.AtNS, got.FromNS, got.ToNS)
	}
	if x.Syns != 0 || x.ResetsGot != 0 || x.ResetsSent != 0 {
		t.Errorf("%+v", x)
	}
	return false
}

func TestBeginningsThatAreSentAgain(t *testing.T) {
	needEBPF(t)
	for i := 1; beginsAgain(t); i++ {
		if i == tries {
			t.Fatalf("in each of %d recordings something is missing", tries)
		}
	}
}

// beginsAgain tells whether TCP counted more than was told.
func beginsAgain(t *testing.T) (more bool) {
	l := listen(t, "tcp4")
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	fatal(t, err)
	defer unix.Close(fd)
	onFD(t, l, func(fd int) { drop(t, fd, 1000) }) // it does not hear who calls
	rec := record(t, os.Getpid(), Options{Sets: []string{events.TCP}})
	port := l.Addr().(*net.TCPAddr).Port
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != unix.EINPROGRESS {
		t.Fatal(err)
	}
	again := func() int64 {
		info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
		fatal(t, err)
		return int64(info.Total_retrans)
	}
	eventually(t, "it calls again", func() bool { return again() >= 1 })
	got := rec.stop().After.TCP
	if got != nil && len(got.Connections) == 0 && got.Others+got.Lost == 0 {
		t.Log("it was not told")
		return true
	}
	if got == nil || len(got.Connections) != 1 || got.Connections[0].Syns != again() || got.Connections[0].Again != 0 ||
		got.Connections[0].Remote != fmt.Sprintf("127.0.0.1:%d", port) {
		t.Errorf("%+v, it called again %d times", got, again())
	}
	return false
}

func TestResetsOfConnections(t *testing.T) {
	needEBPF(t)
	l := listen(t, "tcp4")
	client, err := net.Dial("tcp4", l.Addr().String())
	fatal(t, err)
	defer client.Close()
	server, err := l.Accept()
	fatal(t, err)
	rec := record(t, os.Getpid(), Options{Sets: []string{events.TCP}})
	fatal(t, server.(*net.TCPConn).SetLinger(0))
	fatal(t, server.Close())
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Fatal("the connection was not reset")
	}
	got := rec.stop().After.TCP
	if x := told(t, got, client.LocalAddr(), client.RemoteAddr()); x.ResetsGot != 1 || x.ResetsSent+x.Again+x.Syns != 0 {
		t.Errorf("%+v", x)
	}
	// The socket of the side that sent it was gone at once, so that nobody knows whose it was.
	if n := len(got.Connections); n > 2 || int64(n)+got.OtherResets > 3 {
		t.Errorf("%+v", got)
	}
}

func TestConnectionsOfOthersAreNotTheProcesss(t *testing.T) {
	needEBPF(t)
	other := spawn(t, -1, nil, "pong", "1")
	other.line()
	rec := record(t, other.pid(), Options{Sets: []string{events.TCP}})
	l := listen(t, "tcp4")
	client, err := net.Dial("tcp4", l.Addr().String())
	fatal(t, err)
	defer client.Close()
	server, err := l.Accept()
	fatal(t, err)
	fatal(t, server.(*net.TCPConn).SetLinger(0))
	fatal(t, server.Close())
	_, _ = client.Read(make([]byte, 1)) // it was reset
	if got := rec.stop().After.TCP; got == nil || len(got.Connections) != 0 || got.OtherResets == 0 {
		t.Errorf("%+v", got)
	}
}

// The connections of others may be as many as they like.
func TestConnectionsOfOthersLeaveTheTable(t *testing.T) {
	needEBPF(t)
	other := spawn(t, -1, nil, "pong", "1")
	other.line()
	const room, n = 64, 100
	rec := record(t, other.pid(), Options{Sets: []string{events.TCP}, connections: room})
	table := rec.r.all[slices.IndexFunc(rec.r.all, func(b burst) bool { return b.name() == events.TCP })].(*connections)
	l := listen(t, "tcp4")
	for range n {
		client, err := net.Dial("tcp4", l.Addr().String())
		fatal(t, err)
		server, err := l.Accept()
		fatal(t, err)
		fatal(t, server.(*net.TCPConn).SetLinger(0))
		fatal(t, server.Close())
		_, _ = client.Read(make([]byte, 1)) // it was reset
		fatal(t, client.Close())
		// The next two, one of each side, have room as soon as the recorder has looked.
		eventually(t, "the table is at most half full", func() bool {
			list, err := table.all()
			return err == nil && len(list) <= room/2
		})
	}
	got := rec.stop().After.TCP
	if got == nil || len(got.Connections) != 0 || got.Lost > n/10 || got.OtherResets < n*8/10 {
		t.Errorf("%+v", got)
	}
}
