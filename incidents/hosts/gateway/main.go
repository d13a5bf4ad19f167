// Command gateway is an HTTP server that calls gRPC servers for each request, and
// a gRPC server, in one process or in several:
//
//	gateway -listen 127.0.0.1:8080 -serve 127.0.0.1:9090 -call 127.0.0.1:9090
//
// calls itself through the loopback, as the gateways of etcd and others do. All
// requests share one connection to each server.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	_ "net/http/pprof" // as services have it
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	listen := flag.String("listen", "", "`address` to serve HTTP on")
	serve := flag.String("serve", "", "`address` to serve gRPC on")
	call := flag.String("call", "", "comma-separated `addresses` to call, one after the other")
	s := &stock{}
	flag.DurationVar(&s.reply, "reply", 0, "time that every call takes")
	flag.DurationVar(&s.slow, "slow", 0, "time that a share of the calls takes longer, or that the list is held")
	flag.Float64Var(&s.share, "share", 0, "that share, 0 to 1: of each 1/share calls in a row one, at random")
	lines := flag.String("log", "", "`file` that a line about every call is written to")
	journal := flag.String("journal", "", "`file` that every call is written to, and synced")
	every := flag.Duration("refresh", 0, "mean time between refreshs of a list that every call reads; 0 is never")
	s.side.flags()
	flag.Parse()
	if *lines != "" {
		out, err := os.OpenFile(*lines, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		s.log = log.New(out, "", log.LstdFlags)
	}
	if err := run(*listen, *serve, *call, *journal, *every, s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(listen, serve, call, journal string, every time.Duration, s *stock) error {
	if journal != "" {
		var err error
		if s.journal, err = os.OpenFile(journal, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return err
		}
	}
	s.side.begin(s)
	if every > 0 {
		go s.refresh(every)
	}
	failed := make(chan error)
	if serve != "" {
		l, err := net.Listen("tcp", serve)
		if err != nil {
			return err
		}
		g := grpc.NewServer()
		healthpb.RegisterHealthServer(g, s)
		go func() { failed <- g.Serve(l) }()
	}
	f := &front{}
	for addr := range strings.SplitSeq(call, ",") {
		if addr == "" {
			continue
		}
		c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		f.peers = append(f.peers, healthpb.NewHealthClient(c))
	}
	http.Handle("/", f)
	srv := &http.Server{Addr: listen, ReadHeaderTimeout: 10 * time.Second}
	if listen != "" {
		go func() { failed <- srv.ListenAndServe() }()
	}
	return <-failed
}

// front answers HTTP requests by asking every peer.
type front struct{ peers []healthpb.HealthClient }

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, p := range f.peers {
		if _, err := p.Check(r.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
}

// stock is the gRPC service.
type stock struct {
	healthpb.UnimplementedHealthServer
	reply, slow time.Duration
	share       float64
	calls       atomic.Uint64
	journal     *os.File
	log         *log.Logger // nil without
	mu          sync.RWMutex
	own         sync.Mutex // instead, where readers do not share it
	side        side
}

// Check answers a call.
func (s *stock) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s.look()
	if err := s.side.enter(ctx); err != nil {
		return nil, err
	}
	defer s.side.leave()
	s.side.within()
	d := s.reply
	if !s.side.desk && !s.side.booked && s.drawn() {
		d += s.slow
		s.side.stamp()
	}
	if d > 0 {
		time.Sleep(d)
	}
	s.tell()
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, s.note()
}

// tell writes a line to the log, as long as those of others.
func (s *stock) tell() {
	if s.log != nil {
		s.log.Print("level=info method=Check code=OK ", line)
	}
}

// line is what is the same in every line.
var line = strings.Repeat("label=value ", 60)

// drawn reports whether a call is of the share that is slow. Every run has as many of
// them, so that runs with and without something differ by that only.
func (s *stock) drawn() bool {
	if s.share <= 0 {
		return false
	}
	n := uint64(max(1, math.Round(1/s.share)))
	i := s.calls.Add(1)
	return i%n == rand.NewPCG(seed, i/n).Uint64()%n
}

// seed is another one in every process.
var seed = rand.Uint64()

// look reads the list.
func (s *stock) look() {
	if s.side.plain {
		s.own.Lock()
		defer s.own.Unlock()
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
}

// refresh renews the list now and then.
func (s *stock) refresh(every time.Duration) {
	for {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(every)))
		s.renew()
	}
}

func (s *stock) renew() {
	if s.side.plain {
		s.own.Lock()
		defer s.own.Unlock()
		time.Sleep(s.slow)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	time.Sleep(s.slow)
}

// note writes a call to the journal.
func (s *stock) note() error {
	if s.journal == nil {
		return nil
	}
	if _, err := s.journal.WriteAt([]byte("checked\n"), 0); err != nil {
		return err
	}
	return s.journal.Sync()
}
