package host

import (
	"math"
	"net"
	"slices"
	"strings"
	"testing"
)

// Of the processes of this machine that a process has connections with, those that it called are its
// peers, at all addresses: not its clients, nor the process itself.
func TestThePeersOfTheMachineAreThoseThatAreCalled(t *testing.T) {
	for _, where := range []string{"127.0.0.1:0", "[::]:0"} {
		peer := start(t, "answer "+where+" 3 50", nil)
		var at []string
		for _, a := range strings.Fields(peer.line()) {
			_, port, _ := net.SplitHostPort(a)
			at = append(at, "127.0.0.1:"+port)
		}
		p := start(t, "call "+strings.Join(at, " "), nil)
		slices.Sort(at)
		client, err := net.Dial("tcp", p.line())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		p.line()
		peer.line()
		r := &Recorder{pid: p.pid}
		r.openPeers()
		defer r.close()
		needs(t, "pidfd_getfd", r.sources[0].read() == nil, "the descriptors of another process cannot be looked at")
		for range 2 { // what is found again is found once
			if done, err := r.peers.search(math.MaxInt64); !done || err != nil {
				t.Fatal(done, err)
			}
		}
		if got := r.peers.found; len(got) != 1 || got[0].PID != peer.pid || !slices.Equal(append([]string{got[0].Address}, got[0].Also...), at) || got[0].Name == "" {
			t.Fatalf("%s: found %+v, want process %d at %s", where, got, peer.pid, at)
		}
		read := r.sources[1].read
		for looks := 0; looks <= len(r.peers.live[0].threads.all)/atLeast; looks++ { // threads that are quiet are read in turn
			if err := read(); err != nil || r.last.Peers == nil {
				t.Fatal(r.last.Peers, err)
			}
		}
		before := *r.last.Peers
		peer.next()
		said := peer.ints()
		r.peers.live[0].listed = 0 // it has new threads
		if err := read(); err != nil {
			t.Fatal(err)
		}
		if now := r.last.Peers; now.RunNS-before.RunNS < int64(said[0]) || now.DelayNS-before.DelayNS < int64(said[1]) || said[1] == 0 {
			t.Errorf("%s: from %+v to %+v, where the peer ran %d ns and waited %d ns", where, before, now, said[0], said[1])
		}
		peer.next()
		_ = peer.cmd.Wait()
		if err := read(); err != nil || len(r.peers.live) != 0 || len(r.peers.found) != 1 {
			t.Errorf("%s: when it has ended: %v, %d peers live, %d found", where, err, len(r.peers.live), len(r.peers.found))
		}
	}
}
