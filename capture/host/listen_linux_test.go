package host

import (
	"net"
	"os"
	"testing"
)

// Connections that nobody accepts yet wait in the queue of their listener, whether it is
// one of IPv4, of both families or of MPTCP; what others listen for does not count.
func TestTheKernelTellsHowManyConnectionsWaitToBeAccepted(t *testing.T) {
	for _, c := range []struct {
		network, address string
		mptcp            bool
	}{{"tcp4", "127.0.0.1:0", false}, {"tcp", ":0", false}, {"tcp4", "127.0.0.1:0", true}} {
		var conf net.ListenConfig
		conf.SetMultipathTCP(c.mptcp)
		before, err := openListeners(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		defer before.close()
		l, err := conf.Listen(t.Context(), c.network, c.address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		now, err := openListeners(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		defer now.close()
		empty, err := now.read()
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		for range 3 {
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		full, err := now.read()
		if err != nil {
			t.Fatal(err)
		}
		if full.Waiting != empty.Waiting+3 || full.Room != empty.Room || full.Room <= 3 || full.Dropped != 0 {
			t.Errorf("%+v: %+v, and with three connections %+v", c, empty, full)
		}
		if other, err := before.read(); err == nil && other.Waiting > empty.Waiting {
			t.Errorf("%+v: %+v of listeners that were there before", c, other)
		}
		for range 3 {
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		if again, err := now.read(); err != nil || again.Waiting != empty.Waiting {
			t.Errorf("%+v: %+v after they were accepted, %v", c, again, err)
		}
	}
}

func TestAnswersOfTheKernelThatAreCutAreNotRead(t *testing.T) {
	l := &listeners{own: map[uint64]bool{0: true}}
	msg := make([]byte, diagAttrs+dropsAt+4)
	msg[0], msg[4], msg[diagQueues] = byte(len(msg)), diagByFamily, 7
	msg[diagAttrs], msg[diagAttrs+2], msg[diagAttrs+dropsAt] = dropsAt+4, memoryInfo, 5
	var sum Listen
	if known, more := l.add(&sum, msg); !known || !more || sum.Waiting != 7 || sum.Dropped != 5 {
		t.Fatalf("%v, %v, %+v", known, more, sum)
	}
	for n := range msg {
		sum = Listen{}
		if known, _ := l.add(&sum, msg[:n]); known || sum != (Listen{}) {
			t.Errorf("%d bytes: %+v", n, sum)
		}
	}
}
