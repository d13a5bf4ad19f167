package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func cmdline(c *child) string { return strings.Join(c.cmd.Args, "\x00") }

func TestSameTellsAProcessFromAnother(t *testing.T) {
	c := start(t, "sleep 20", nil)
	ids := c.ints()
	other := start(t, "sleep 20", nil)
	others := other.ints()
	mixed := func(own int) []int { return append(slices.Clone(ids[:own]), others[own:]...) }
	for _, x := range []struct {
		name    string
		cmdline string
		threads []int
		want    error
	}{
		{"command line and threads are its own", cmdline(c), ids, nil},
		{"without threads the command line decides", cmdline(c), nil, nil},
		{"empty arguments at the end", cmdline(c) + "\x00\x00", ids, nil},
		{"another command line", cmdline(c) + "\x00more", ids, ErrOtherProcess},
		{"a command line that begins alike", c.cmd.Args[0], ids, ErrOtherProcess},
		{"no command line", "", ids, ErrOtherProcess},
		{"the threads of a twin", cmdline(c), others, ErrOtherProcess},
		{"one thread in ten ended", cmdline(c), mixed(18), nil},
		{"more than one thread in ten is strange", cmdline(c), mixed(17), ErrOtherProcess},
	} {
		t.Run(x.name, func(t *testing.T) {
			if err := SameThreads(c.pid, x.threads); x.cmdline == cmdline(c) && len(x.threads) > 0 && !errors.Is(err, x.want) {
				t.Errorf("threads alone: %v, want %v", err, x.want)
			}
			if err := Same(c.pid, x.cmdline, x.threads); !errors.Is(err, x.want) {
				t.Errorf("got %v, want %v", err, x.want)
			}
		})
	}
}

func TestNoThreadsAreNobodys(t *testing.T) {
	if err := SameThreads(os.Getpid(), nil); !errors.Is(err, ErrOtherProcess) {
		t.Errorf("got %v", err)
	}
}

// In a pid namespace the process knows its threads by other ids than we do.
func TestThreadsAreComparedInThePIDNamespaceOfTheProcess(t *testing.T) {
	needs(t, "root", os.Geteuid() == 0, "only root makes pid namespaces")
	c := start(t, "sleep 20", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	})
	ids := c.ints()
	if err := Same(c.pid, cmdline(c), ids); err != nil {
		t.Errorf("its own threads: %v", err)
	}
	outer := make([]int, len(ids))
	for i, id := range ids {
		outer[i] = id + c.pid - 1 // what they are called here, or close to it
	}
	if err := Same(c.pid, cmdline(c), outer); !errors.Is(err, ErrOtherProcess) {
		t.Errorf("ids of our namespace: %v", err)
	}
	if s, _, _ := describe(c.pid); !slices.Equal(s.NSPID, []int{c.pid, 1}) {
		t.Errorf("its ids are %v, want %d and 1", s.NSPID, c.pid)
	}
	got := record(t, c.pid).stop()
	if len(got.Samples[0].Threads) < 20 {
		t.Errorf("%d threads recorded, there are at least 20", len(got.Samples[0].Threads))
	}
	var inner []int
	for _, th := range got.Samples[0].Threads {
		inner = append(inner, th.Inner())
	}
	for _, id := range ids {
		if !slices.Contains(inner, id) {
			t.Errorf("thread %d is not among %v", id, inner)
		}
	}
}

func TestTheListenerOfAnAddressIsFound(t *testing.T) {
	c := start(t, "listen tcp4/127.0.0.1:0 tcp4/0.0.0.0:0 tcp/:0", nil)
	addrs := strings.Fields(c.line())
	port := func(i int) string { _, p, _ := net.SplitHostPort(addrs[i]); return p }
	for _, a := range []string{
		"127.0.0.1:" + port(0), "localhost:" + port(0), "127.0.0.1:" + port(1), "127.0.0.2:" + port(1), "0.0.0.0:" + port(1),
		"127.0.0.1:" + port(2), "[::1]:" + port(2),
	} {
		if pid, err := ListenerPID(a); pid != c.pid || err != nil {
			t.Errorf("%s: process %d, %v; want %d", a, pid, err, c.pid)
		}
	}
	for _, a := range []string{"127.0.0.2:" + port(0), "[::1]:" + port(0), "192.0.2.1:" + port(1)} { // 192.0.2.0/24 is for documentation
		if pid, err := ListenerPID(a); !errors.Is(err, ErrNotLocal) {
			t.Errorf("%s: process %d, %v", a, pid, err)
		}
	}
	for _, a := range []string{"127.0.0.1", "127.0.0.1:http/1", "127.0.0.1:99999"} {
		if _, err := ListenerPID(a); err == nil {
			t.Errorf("%q was taken for an address", a)
		}
	}
	want := []string{"127.0.0.1:" + port(0), "127.0.0.1:" + port(1), "[::1]:" + port(2)}
	got, err := Listeners(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("it listens on %q, want %q", got, want)
	}
}

// Where a process in another network namespace listens cannot be reached, which is not to say that it does not.
func TestListenersInAnotherNamespaceAreElsewhere(t *testing.T) {
	needs(t, "root", os.Geteuid() == 0, "only root makes network namespaces")
	c := start(t, "sleep 20", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	})
	if got, err := Listeners(c.pid); got != nil || !errors.Is(err, ErrElsewhere) {
		t.Errorf("got %q, %v", got, err)
	}
}

// toInherit listens for the length of a test, and returns a file of the socket for a child.
func toInherit(t *testing.T) (addr string, f *os.File) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if f, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return l.Addr().String(), f
}

// A supervisor that hands its socket to a service keeps it open: the service is the younger.
func TestAnInheritedSocketBelongsToTheYoungerProcess(t *testing.T) {
	addr, f := toInherit(t)
	if pid, err := ListenerPID(addr); pid != os.Getpid() || err != nil {
		t.Errorf("before: %d, %v", pid, err)
	}
	if pid, err := OnlyListenerPID(addr); pid != os.Getpid() || err != nil {
		t.Errorf("before, nobody else: %d, %v", pid, err)
	}
	c := start(t, "sleep 1", func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{f} })
	c.line()
	if pid, err := OnlyListenerPID(addr); pid != 0 || !errors.Is(err, ErrShared) {
		t.Errorf("two have it, and process %d is said to be the only one: %v", pid, err)
	}
	if pid, err := ListenerPID(addr); pid != c.pid || err != nil {
		t.Errorf("process %d, %v; want the child %d, not us, %d", pid, err, c.pid, os.Getpid())
	}
	if all, err := Listeners(c.pid); err != nil || !slices.Contains(all, addr) {
		t.Errorf("the child listens on %q, without %s, %v", all, addr, err)
	}
}

// Whom a process starts has its sockets until it becomes another program: it is gone, or has closed them, a moment later.
func TestWhoHoldsASocketForAMomentIsNotAsked(t *testing.T) {
	own := map[uint64]bool{7: true}
	service, starting, next := holder{10, 100, own}, holder{11, 200, own}, holder{12, 300, own}
	for _, c := range []struct {
		name          string
		before, after []holder
		want          []int
	}{
		{"the one that it started is gone", []holder{service, starting}, []holder{service}, []int{10}},
		{"it starts another one", []holder{service, starting}, []holder{service, next}, []int{10}},
		{"its number belongs to another one", []holder{service, starting}, []holder{service, {11, 400, own}}, []int{10}},
		{"a supervisor and its service", []holder{service, starting}, []holder{service, starting}, []int{10, 11}},
		{"a service takes over meanwhile", []holder{service, starting}, []holder{next}, []int{12}},
	} {
		var got []int
		for _, h := range stayed(c.before, c.after) {
			got = append(got, h.pid)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}

	addr, f := toInherit(t)
	candidates, err := localAddrs(addr)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := listeningInodes(candidates)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat")
	child.ExtraFiles = []*os.File{f}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	both, _, err := holdersFor(wanted, 0)
	if err != nil || len(both) != 2 {
		t.Errorf("both have it: %v, %v", both, err)
	}
	in.Close()
	_ = child.Wait()
	left, _, err := holders(wanted)
	if err != nil || len(left) != 1 || left[0].pid != os.Getpid() {
		t.Errorf("the child is gone: %v, %v", left, err)
	}
	if got := stayed(both, left); len(got) != 1 || got[0].pid != os.Getpid() {
		t.Errorf("%v", got)
	}
}

// Nobody is told that the process of another user is none of this machine.
func TestTheListenersOfAnotherUserAreNotSaidToBeMissing(t *testing.T) {
	needs(t, "root", os.Geteuid() == 0, "only root can be another user")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := start(t, fmt.Sprintf("look %d %s", os.Getpid(), l.Addr()), func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
	if said := c.line(); said != "true true" {
		t.Errorf("permission is what is missing for Listeners, and for ListenerPID: %s", said)
	}
}

func TestConnectionsWithinAProcessAreInside(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	got := record(t, os.Getpid()).stop()
	for _, want := range []Socket{
		{Local: l.Addr().String(), State: "LISTEN"},
		{Local: near.LocalAddr().String(), Remote: near.RemoteAddr().String(), State: "ESTABLISHED", Inside: true},
		{Local: far.LocalAddr().String(), Remote: far.RemoteAddr().String(), State: "ESTABLISHED", Inside: true, Inbound: true},
	} {
		if !slices.Contains(got.After.Sockets, want) {
			t.Errorf("no %+v in %+v", want, got.After.Sockets)
		}
	}
}

func TestMoreSocketsThanAreListedAreCutBehindTheListeners(t *testing.T) {
	var own []tcpSocket
	for i := range MaxSockets {
		s, ok := parseTCP(fmt.Sprintf("1: 0100007F:%04X 0100007F:0050 01 0:0 0:0 0 0 0 %d", i, i), false)
		if !ok {
			t.Fatal("no socket")
		}
		own = append(own, s)
	}
	list, cut := relate(slices.Clone(own))
	if cut || len(list) != MaxSockets {
		t.Errorf("%d sockets, cut: %v", len(list), cut)
	}
	listener, _ := parseTCP("1: 00000000:1F90 00000000:0000 0A 0:0 0:0 0 0 0 7", false)
	list, cut = relate(append(own, listener))
	if !cut || len(list) != MaxSockets || list[0].State != "LISTEN" || list[0].Local != "0.0.0.0:8080" || !list[1+0x1F90].Inbound {
		t.Errorf("%d sockets, cut: %v, first %+v", len(list), cut, list[0])
	}
}
