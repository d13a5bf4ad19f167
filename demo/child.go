package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// VictimEnv is the environment variable that makes a process a child of Run.
// Its value is the name to pass to Victim.
const VictimEnv = "WHYLATE_DEMO_VICTIM"

// peerName and neighbourName are those under which Victim becomes a Peer or one of
// the Neighbours.
const (
	peerName      = "peer"
	neighbourName = "neighbour"
)

// notPossible is the exit code of a child for ErrNotPossible.
const notPossible = 4

// groupEnv names the directory of the cgroup that a child has to enter.
const groupEnv = "WHYLATE_DEMO_CGROUP"

// Victim is the main function of a child: it serves the scenario of that name,
// or a peer, until standard input ends or SIGTERM arrives, and returns the exit
// code. A program that calls Run must begin with
//
//	if name := os.Getenv(demo.VictimEnv); name != "" {
//		os.Exit(demo.Victim(name, os.Args[1:]))
//	}
//
// It prints the address of the service as the first line of standard output and
// that of net/http/pprof as the second. args are the peers of the scenario as
// name=URL, or the settings of a peer or neighbour as JSON.
func Victim(name string, args []string) int {
	if dir := os.Getenv(groupEnv); dir != "" {
		// It returns only if it fails.
		fmt.Fprintln(os.Stderr, fmt.Errorf("%w: %w", ErrNotPossible, enterGroup(dir)))
		return notPossible
	}
	// A Ctrl-C goes to the whole group of processes; the parent decides.
	signal.Ignore(os.Interrupt)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := serve(ctx, name, args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, ErrNotPossible) {
			return notPossible
		}
		return 1
	}
	return 0
}

func serve(ctx context.Context, name string, args []string) error {
	job, err := newRole(ctx, name, args)
	if err != nil {
		return fmt.Errorf("demo: %s: %w", name, err)
	}
	profiles, err := web(admin())
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	for _, r := range []role{job, profiles} {
		fmt.Println(r.address)
		go func() { failed <- r.run() }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// role is what a child does, under an address, until it fails.
type role struct {
	address net.Addr
	run     func() error
}

// fronted is a handler that has its connections accepted by a listener of its own.
type fronted interface {
	behind(net.Listener) net.Listener
}

// web is a role that serves HTTP.
func web(h http.Handler) (role, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return role{}, err
	}
	address := l.Addr()
	if own, ok := h.(fronted); ok {
		l = own.behind(l)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	return role{address, func() error { return srv.Serve(l) }}, nil
}

func newRole(ctx context.Context, name string, args []string) (role, error) {
	switch name {
	case peerName:
		return newPeer(args)
	case neighbourName:
		return newNeighbour(ctx, args)
	}
	s, ok := Lookup(name)
	if !ok {
		return role{}, fmt.Errorf("no such scenario")
	}
	peers := map[string]string{}
	for _, arg := range args {
		peer, url, _ := strings.Cut(arg, "=")
		peers[peer] = url
	}
	calibrate()
	h, err := s.New(ctx, peers)
	if err != nil {
		return role{}, err
	}
	return web(h)
}

func admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
