package redact

import (
	"encoding/binary"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// portRounds of a Feistel network make a permutation of the 65,536 ports: no two ports become
// one, so that it stays visible which connections are to a port that the process listens on.
const portRounds = 6

func (n *names) keyPorts() {
	for i := range n.ports {
		for k := range n.ports[i] {
			n.ports[i][k] = n.sum("port", strconv.Itoa(i)+" "+strconv.Itoa(k))[0]
		}
	}
}

func (n *names) permuted(p uint16) uint16 {
	left, right := byte(p>>8), byte(p)
	for i := range n.ports {
		left, right = right, left^n.ports[i][right]
	}
	return uint16(left)<<8 | uint16(right)
}

// port returns the port that stands for p; 0 stays.
func (r *redactor) port(p uint16) uint16 {
	if p == 0 {
		return 0
	}
	to := r.permuted(p)
	if to == 0 {
		to = r.permuted(to)
	}
	name := "port " + strconv.Itoa(int(p))
	r.hashed(asPort, name, func(int) string { return "port " + strconv.Itoa(int(to)) })
	return to
}

// ip returns the address that stands for a. Those of the loopback and the unspecified ones
// stay: they are everybody's, and rules look whether an address is one. Others become
// addresses of ranges that nobody has: 240.0.0.0/4 and fd00::/8.
func (r *redactor) ip(a netip.Addr) netip.Addr {
	a = a.WithZone("")
	switch {
	case a.Is4In6():
		return netip.AddrFrom16(r.ip(a.Unmap()).As16())
	case a.IsLoopback() || a.IsUnspecified():
		return a
	}
	text := r.hashed(asIP, a.String(), func(try int) string { return r.nobodys(a, try).String() })
	out, err := netip.ParseAddr(text)
	if err != nil { // a hash that is none would make the socket unreadable
		return r.nobodys(a, 0)
	}
	return out
}

// nobodys returns an address of the ranges that nobody has.
func (r *redactor) nobodys(a netip.Addr, try int) netip.Addr {
	sum := r.sum("ip "+strconv.Itoa(try), a.String())
	if a.Is4() {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], 0xf0000000|binary.BigEndian.Uint32(sum))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	copy(b[:], sum)
	b[0] = 0xfd
	return netip.AddrFrom16(b)
}

// address returns the address that stands for host:port, an address, or a socket's path.
func (r *redactor) address(s string) string {
	if s == "" {
		return ""
	}
	if a, err := netip.ParseAddrPort(s); err == nil {
		return netip.AddrPortFrom(r.ip(a.Addr()), r.port(a.Port())).String()
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return r.ip(a).String()
	}
	if host, port, err := net.SplitHostPort(s); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			return net.JoinHostPort(r.hostName(host), strconv.Itoa(int(r.port(uint16(n)))))
		}
	}
	if strings.ContainsAny(s, "/@") {
		return r.path(s)
	}
	return r.hostName(s)
}

func (r *redactor) hostName(s string) string {
	if s == "" || s == "localhost" {
		return s
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return r.ip(a).String()
	}
	return r.name(s)
}

// endpoint is the path of net/http/pprof, which everybody knows.
var endpoint = map[string]bool{"debug": true, "pprof": true, "trace": true, "profile": true, "heap": true, "allocs": true,
	"goroutine": true, "mutex": true, "block": true, "cmdline": true, "symbol": true, "threadcreate": true}

// url returns the address that stands for a URL: without user, query and fragment.
func (r *redactor) url(s string) string {
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" {
		return r.name(s)
	}
	var b strings.Builder
	b.WriteString(r.known(u.Scheme, "http", "https", "redis", "rediss", "postgres", "postgresql", "unix", "tcp") + "://")
	b.WriteString(r.address(u.Host))
	for i, e := range strings.Split(u.Path, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		if endpoint[e] {
			b.WriteString(e)
		} else {
			b.WriteString(r.element(e))
		}
	}
	return b.String()
}
