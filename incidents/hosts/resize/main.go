// Command resize is a service whose requests call a library in C, and for 4 % of
// them the call takes about 20 ms (slow-cgo). It puts itself under load from a
// process of its own and prints the address to diagnose:
//
//	CGO_ENABLED=1 go run . &
//	whylate diagnose http://127.0.0.1:6061
//
// With -wait the library waits instead of computing; with -steady no call is
// slow. It needs a C compiler, which is why it stands apart from the demos.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	_ "net/http/pprof" // on the default mux
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// clientsEnv makes the process the clients; its value is the URL.
const clientsEnv = "RESIZE_CLIENTS"

const (
	rate      = 200 // requests per second
	slowShare = 0.04
	usual     = 50     // units of work, about 1 µs each
	large     = 20_000 // for slowShare of the requests
)

func main() {
	role := serve
	if os.Getenv(clientsEnv) != "" {
		role = clients
	}
	if err := role(); err != nil {
		fmt.Fprintln(os.Stderr, "resize:", err)
		os.Exit(1)
	}
}

func serve() error {
	admin := flag.String("admin", "127.0.0.1:6061", "`address` of net/http/pprof")
	wait := flag.Bool("wait", false, "the library waits instead of computing")
	steady := flag.Bool("steady", false, "no call is slow")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	lib := picture{wait: *wait}
	failed := make(chan error, 3)
	go func() { failed <- http.ListenAndServe(*admin, nil) }()
	go func() {
		failed <- http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			units := usual
			if !*steady && rand.Float64() < slowShare {
				units = large
			}
			fmt.Fprintln(w, lib.size(rand.Uint32(), units))
		}))
	}()
	load, err := startClients(ctx, "http://"+l.Addr().String())
	if err != nil {
		return err
	}
	go func() { failed <- load.Wait() }()
	fmt.Printf("diagnose http://%s\n", *admin)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// startClients runs this program once more. The clients leave when their standard
// input ends, at the latest with this process.
func startClients(ctx context.Context, url string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), clientsEnv+"="+url)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return cmd, cmd.Start()
}

// clients send requests at random times, whether or not earlier ones are answered.
func clients() error {
	url := os.Getenv(clientsEnv)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 10 * time.Second}
	for due := time.Now(); ; {
		due = due.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		go func() {
			if resp, err := client.Get(url); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
	}
}
