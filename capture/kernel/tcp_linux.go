//go:build amd64 || arm64

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/kernel/events"
)

// ask is how often the process is asked which sockets it has, as long as something goes
// wrong with one that is not known to be its own.
const ask = 100 * time.Millisecond

// rests is how many times the CPU time that this took the recorder does not ask again: there
// may be a million descriptors. (Not the time that passed: beside processes that want the CPU it
// would look so rarely that the table is full.)
const rests = 100

const (
	// maxConnections is how many have room in the kernel's table, maxSockets of how many it is
	// remembered whose they are.
	maxConnections = 4096
	maxSockets     = 16 * maxConnections
)

// connections are the probes where TCP sends something again. They run when something is
// wrong, and stay.
type connections struct {
	tcpObjects
	links
	pid  int
	own  map[uint64]bool // inodes of sockets; false if one is not the process's
	next time.Time       // when to ask again
	// others and resets are those of connections that are not in the table any more.
	others, resets int64
}

// watchConnections is about those of a process's network namespace; the table has room for
// most of them.
func watchConnections(pid int, types *btf.Cache, most uint32) (_ *connections, err error) {
	info, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.New("the network namespace of the process has no number")
	}
	spec, err := loadTcp()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[tcpVarNetwork].Set(uint32(stat.Ino)); err != nil {
		return nil, err
	}
	spec.Maps[tcpMapWhylateConnections].MaxEntries = most
	c := &connections{pid: pid, own: map[uint64]bool{}}
	if err := spec.LoadAndAssign(&c.tcpObjects, &ebpf.CollectionOptions{Cache: types}); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *connections) attach() error {
	c.begin()
	for _, p := range []*ebpf.Program{c.WhylateAgain, c.WhylateAnswer, c.WhylateSent, c.WhylateGot} {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return err
		}
		c.add(l)
	}
	return nil
}

func (c *connections) name() string { return events.TCP }

// trouble is one connection in the kernel's table.
type trouble struct {
	on struct {
		Local, Remote         [16]byte
		LocalPort, RemotePort uint16
		Family                uint32
	}
	what struct {
		Socket, Again, Syns, Sent, Got, Times uint64
		At                                    [events.MaxInstants]int64
	}
}

func (c *connections) all() (list []trouble, err error) {
	var t trouble
	each := c.WhylateConnections.Iterate()
	for each.Next(&t.on, &t.what) {
		list = append(list, t)
	}
	if err := each.Err(); err != nil {
		return nil, fmt.Errorf("read what connections sent again: %w", err)
	}
	return list, nil
}

func (c *connections) due() bool { return false }

// read finds out whose sockets those are with which something is wrong. The connections of
// others leave the table when it is half full. The goroutine has its thread for itself.
func (c *connections) read() error {
	begun, used := time.Now(), threadCPU()
	if begun.Before(c.next) && !c.over() {
		return nil
	}
	list, err := c.all()
	if err != nil {
		return err
	}
	c.find(list)
	if len(list) > int(c.WhylateConnections.MaxEntries()/2) {
		if err := c.forget(list); err != nil {
			return err
		}
	}
	c.next = begun.Add(max(ask, rests*time.Duration(threadCPU()-used)))
	return nil
}

// forget takes the connections of others out of the table. What happens to one in this
// moment may not be counted.
func (c *connections) forget(list []trouble) error {
	for _, t := range list {
		if c.own[t.what.Socket] {
			continue
		}
		err := c.WhylateConnections.Delete(&t.on)
		if err != nil {
			return fmt.Errorf("forget what connections sent again: %w", err)
		}
		c.others += int64(t.what.Again + t.what.Syns)
		c.resets += int64(t.what.Sent + t.what.Got)
	}
	if len(c.own) > maxSockets {
		clear(c.own)
	}
	return nil
}

func (c *connections) find(list []trouble) {
	unknown := slices.ContainsFunc(list, func(t trouble) bool {
		_, known := c.own[t.what.Socket]
		return t.what.Socket != 0 && !known
	})
	if !unknown {
		return
	}
	own := sockets(c.pid)
	for _, t := range list {
		if !c.own[t.what.Socket] {
			c.own[t.what.Socket] = own[t.what.Socket]
		}
	}
}

func (c *connections) result(a *events.After) error {
	list, err := c.all()
	if err != nil {
		return err
	}
	c.find(list)
	from, to := c.span()
	r := &events.Connections{FromNS: from, ToNS: to, Others: c.others, OtherResets: c.resets}
	var lost uint64
	if err := c.WhylateLost.Lookup(uint32(0), &lost); err != nil {
		return fmt.Errorf("count what connections sent again: %w", err)
	}
	r.Lost = int64(lost)
	for _, t := range list {
		w := &t.what
		if !c.own[w.Socket] {
			r.Others += int64(w.Again + w.Syns)
			r.OtherResets += int64(w.Sent + w.Got)
			continue
		}
		r.Connections = append(r.Connections, events.Connection{
			Local: address(t.on.Family, t.on.Local, t.on.LocalPort), Remote: address(t.on.Family, t.on.Remote, t.on.RemotePort),
			Again: int64(w.Again), Syns: int64(w.Syns), ResetsSent: int64(w.Sent), ResetsGot: int64(w.Got),
			AtNS: instants(w.At),
		})
	}
	slices.SortFunc(r.Connections, func(a, b events.Connection) int {
		return cmp.Or(cmp.Compare(b.Again+b.Syns, a.Again+a.Syns), cmp.Compare(b.ResetsSent+b.ResetsGot, a.ResetsSent+a.ResetsGot), cmp.Compare(a.Local, b.Local), cmp.Compare(a.Remote, b.Remote))
	})
	if more := len(r.Connections) - events.MaxConnections; more > 0 {
		r.More, r.Connections = more, r.Connections[:events.MaxConnections]
	}
	a.TCP = r
	return nil
}

// instants are those that there are, in order.
func instants(at [events.MaxInstants]int64) []int64 {
	list := slices.DeleteFunc(at[:], func(ns int64) bool { return ns == 0 })
	slices.Sort(list)
	return list
}

func (c *connections) programs() []program {
	return []program{
		{tcpProgWhylateAgain, c.WhylateAgain}, {tcpProgWhylateAnswer, c.WhylateAnswer},
		{tcpProgWhylateSent, c.WhylateSent}, {tcpProgWhylateGot, c.WhylateGot},
	}
}

func (c *connections) close() error {
	_ = c.detach() // who called it has the error
	return c.tcpObjects.Close()
}

// address is one of a connection.
func address(family uint32, ip [16]byte, port uint16) string {
	a := netip.AddrFrom16(ip)
	if family == unix.AF_INET {
		a = netip.AddrFrom4([4]byte(ip[:4]))
	}
	return netip.AddrPortFrom(a.Unmap(), port).String()
}

// sockets are the inodes of those that a process has open, as far as they can be read.
func sockets(pid int) map[uint64]bool {
	own := map[uint64]bool{}
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return own
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		for _, n := range names {
			to, err := os.Readlink(dir.Name() + "/" + n)
			if err != nil {
				continue
			}
			if s, ok := strings.CutPrefix(to, "socket:["); ok {
				if ino, err := strconv.ParseUint(strings.TrimSuffix(s, "]"), 10, 64); err == nil {
					own[ino] = true
				}
			}
		}
		if err != nil {
			return own
		}
	}
}
