package host

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A connection whose other end gets nothing sends again; one beside it does not, and sends at once.
func TestTheKernelTellsHowAConnectionSends(t *testing.T) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // which takes no filter
	for _, network := range []string{"tcp4", "tcp"} {
		l, err := plain.Listen(t.Context(), network, map[string]string{"tcp4": "127.0.0.1:0", "tcp": ":0"}[network])
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		pair := func() (near, far *net.TCPConn) {
			c, err := new(net.Dialer).DialContext(t.Context(), network, "127.0.0.1:"+port)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			s, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return c.(*net.TCPConn), s.(*net.TCPConn)
		}
		good, _ := pair()
		bad, far := pair()
		control(t, far, func(fd int) error {
			nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
			return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]})
		})
		if err := bad.SetNoDelay(false); err != nil {
			t.Fatal(err)
		}
		if _, err := bad.Write([]byte("lost")); err != nil {
			t.Fatal(err)
		}
		again := uint32(0)
		for again == 0 && t.Context().Err() == nil { // it takes 200 ms
			control(t, bad, func(fd int) error {
				info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
				if err == nil {
					again = info.Total_retrans
				}
				return err
			})
		}
		own, err := ownSockets(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		list, _ := relate(own)
		for i := range list {
			list[i].Inside = false // the other ends are not asked about otherwise
		}
		ask(os.Getpid(), own, list)
		found, prompt := map[string]*int64{}, map[string]*bool{}
		for _, s := range list {
			found[s.Local], prompt[s.Local] = s.Retrans, s.NoDelay
		}
		if v := found[bad.LocalAddr().String()]; v == nil || *v < int64(again) {
			t.Errorf("%s: sent again %v times, want %d", network, v, again)
		}
		if v, ok := found[good.LocalAddr().String()]; !ok || v == nil || *v != 0 {
			t.Errorf("%s: sent again %v times, want 0", network, v)
		}
		for c, want := range map[*net.TCPConn]bool{good: true, bad: false} {
			if v := prompt[c.LocalAddr().String()]; v == nil || *v != want {
				t.Errorf("%s: sends at once: %v, want %v", network, v, want)
			}
		}
	}
}

func control(t *testing.T, c *net.TCPConn, do func(fd int) error) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if outer := raw.Control(func(fd uintptr) { err = do(int(fd)) }); outer != nil || err != nil {
		t.Fatal(outer, err)
	}
}

func TestAnAnswerOfTheKernelIsNotTrusted(t *testing.T) {
	for n := range diagAttrs + 120 {
		b := make([]byte, n)
		for i := range b {
			b[i] = 0xff
		}
		if v, ok := diagAnswer(b, 1<<32-1); ok {
			t.Fatalf("%d bytes of ones say %d", n, v)
		}
	}
}
