package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
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

// peerName is the name under which Victim becomes a Peer.
const peerName = "peer"

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
// name=URL, or the peer's own settings as JSON.
func Victim(name string, args []string) int {
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
		return 1
	}
	return 0
}

func serve(ctx context.Context, name string, args []string) error {
	h, err := handler(ctx, name, args)
	if err != nil {
		return fmt.Errorf("demo: %s: %w", name, err)
	}
	failed := make(chan error, 2)
	for _, h := range []http.Handler{h, admin()} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(l.Addr())
		srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		defer srv.Close()
		go func() { failed <- srv.Serve(l) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func handler(ctx context.Context, name string, args []string) (http.Handler, error) {
	if name == peerName {
		return newPeer(args)
	}
	s, ok := Lookup(name)
	if !ok {
		return nil, fmt.Errorf("no such scenario")
	}
	peers := map[string]string{}
	for _, arg := range args {
		peer, url, _ := strings.Cut(arg, "=")
		peers[peer] = url
	}
	calibrate()
	return s.New(ctx, peers)
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

func newPeer(args []string) (http.Handler, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%d arguments, want the settings", len(args))
	}
	var p Peer
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d := p.Reply
		if rand.Float64() < p.SlowShare {
			d = p.Slow
		}
		time.Sleep(d)
		reply(w, lines(5))
	}), nil
}
