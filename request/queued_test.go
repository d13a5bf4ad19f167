package request

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func init() {
	// Lines in bursts, and what is called for each of them: address,address.
	clientKinds["bursts of lines"] = func(addr string, conns, n int) ([]int64, error) {
		server, peer, _ := strings.Cut(addr, ",")
		l, err := net.Listen("tcp", peer)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		go accept(l, func(c net.Conn) {
			for r := bufio.NewReader(c); ; {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				time.Sleep(time.Millisecond)
				fmt.Fprint(c, line)
			}
		})
		return onEach(conns, func() ([]int64, error) { return burst(server, n) })
	}
}

// alone is the line that comes alone.
const alone = 100

// burst sends n lines on a connection, every third time one, else ten at once, and returns how long each
// answer took.
func burst(addr string, n int) (took []int64, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for i, at := 0, 0; at < n; i++ {
		more := 10
		if i%3 == 0 {
			more = 1
		}
		more = min(more, n-at)
		at += more
		start := time.Now()
		for k := range more {
			if more == 1 {
				k = alone
			}
			fmt.Fprintf(c, "%d\n", k)
		}
		for range more {
			if _, err := r.ReadString('\n'); err != nil {
				return took, err
			}
			took = append(took, int64(time.Since(start)))
		}
		time.Sleep(10 * time.Millisecond)
	}
	return took, nil
}

// queueServer hands the lines of its connections to workers, who ask a peer for each and answer
// themselves, or hand the answer to a writer.
type queueServer struct {
	workers int
	writers bool
	// own: each worker has a queue of its own; pings: the reader answers lines that come alone itself.
	own, pings bool
}

type queuedJob struct {
	line string
	to   *queueConn
}

type queueConn struct {
	net.Conn
	mu  sync.Mutex
	out chan queuedJob
}

// queues starts the workers and returns what to hand lines to.
func (s *queueServer) queues(peer string) (in []chan queuedJob) {
	for i := range s.workers {
		if i == 0 || s.own {
			in = append(in, make(chan queuedJob, 100))
		}
		go s.work(peer, in[len(in)-1])
	}
	return in
}

func (s *queueServer) serve(c *queueConn, jobs []chan queuedJob) {
	if s.writers {
		go s.write(c)
	}
	go s.read(c, jobs)
}

func (s *queueServer) read(c *queueConn, jobs []chan queuedJob) {
	i := 0
	for in := bufio.NewScanner(c); in.Scan(); {
		if line := in.Text() + "\n"; s.pings && in.Text() == strconv.Itoa(alone) {
			s.answer(c, line)
			i++
		} else {
			jobs[i%len(jobs)] <- queuedJob{line, c}
		}
	}
}

func (s *queueServer) work(peer string, jobs <-chan queuedJob) {
	var c net.Conn
	for range 500 { // the child has just begun
		if c, _ = net.Dial("tcp", peer); c != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if c == nil {
		return
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for j := range jobs {
		fmt.Fprint(c, j.line)
		_, _ = r.ReadString('\n')
		if s.writers {
			j.to.out <- j
			continue
		}
		s.answer(j.to, j.line)
	}
}

func (s *queueServer) answer(c *queueConn, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprint(c, line)
}

func (s *queueServer) write(c *queueConn) {
	for j := range c.out {
		fmt.Fprint(c, j.line)
	}
}

// free returns an address to listen at.
func free(t *testing.T) string {
	l := listen(t)
	defer l.Close()
	return l.Addr().String()
}

// tries lets a test record again whose numbers are right by and large, and not while others have the CPUs.
func tries(t *testing.T, check func(t *testing.T) error) {
	t.Helper()
	var err error
	for range 4 {
		if err = check(t); err == nil {
			return
		}
		t.Log(err)
	}
	t.Error(err)
}

func TestMessagesWaitInAQueueForWorkers(t *testing.T) {
	for name, s := range map[string]*queueServer{
		"one": {workers: 1}, "three": {workers: 3}, "one, through writers": {workers: 1, writers: true}, "three, through writers": {workers: 3, writers: true},
		"three with a queue each": {workers: 3, own: true},
		"three, but for pings":    {workers: 3, pings: true},
	} {
		t.Run(name, func(t *testing.T) { tries(t, s.check) })
	}
}

// check records the server, and compares what is found with what its client measured. How many lines a read brought
// is not in a trace: times are right by and large.
func (s *queueServer) check(t *testing.T) error {
	l, peer := listen(t), free(t)
	var sent []int64
	var jobs []chan queuedJob
	f := record(t, Options{}, func() {
		jobs = s.queues(peer)
		go accept(l, func(c net.Conn) { s.serve(&queueConn{Conn: c, out: make(chan queuedJob, 100)}, jobs) })
		sent = askFromOutside(t, "bursts of lines", l.Addr().String()+","+peer)
	})
	for _, c := range jobs {
		close(c)
	}
	took := durations(f)
	least := len(sent) * 93 / 100
	switch {
	case s.pings: // these need not be found
		least = len(sent) * 6 / 10
	case s.workers > 1:
		least = len(sent) * 7 / 10
	}
	if n := len(took); n < least || n > len(sent) {
		return fmt.Errorf("%d sent, %d found", len(sent), n)
	}
	slices.Sort(sent)
	x, y := float64(took[len(took)/2]), float64(sent[len(sent)/2])
	t.Logf("%d sent, %d found, half take up to %.1f ms (client %.1f), all %.0f ms (%.0f)", len(sent), len(took), x/1e6, y/1e6, float64(sum(took))/1e6, float64(sum(sent))/1e6)
	if x < 0.5*y || x > 1.5*y {
		return fmt.Errorf("half of the requests take up to %.0f ns, as the client saw it %.0f", x, y)
	}
	if x, y := float64(sum(took)), float64(sum(sent)); x < 0.6*y || x > 1.7*y {
		return fmt.Errorf("found %.0f ns in total, the client measured %.0f", x, y)
	}
	if len(f.Roles) != 1 && !s.pings || !strings.HasPrefix(f.Roles[0].Name, pkg+"(*queueServer).read") {
		return fmt.Errorf("roles %+v", f.Roles)
	}
	return nil
}

// durations are those of all requests, in order, in nanoseconds.
func durations(f *Found) (out []int64) {
	for i := range f.Requests {
		out = append(out, int64(f.Requests[i].Duration()))
	}
	slices.Sort(out)
	return out
}
