// Command resize is a service whose requests call a library in C. For 4 % of them,
// the large pictures, something takes about 20 ms; -large says what:
//
//	compute   the library computes (slow-cgo)
//	wait      the library waits (slow-cgo)
//	keep      the picture is made durable, which takes what -files takes (slow-disk)
//	look      the picture is read where it is mapped, but not in memory (page-faults)
//	none      nothing
//
// Without -listen it puts itself under load from a process of its own. It prints the
// address to diagnose:
//
//	CGO_ENABLED=1 go run . &
//	whylate diagnose http://127.0.0.1:6061
//
// It needs a C compiler, which is why it stands apart from the demos.
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
	rate       = 200 // requests per second
	largeShare = 0.04
	usual      = 50     // units of work, about 1 µs each
	many       = 20_000 // for a large picture
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

// work is what a large picture takes beside the usual; it returns something of it.
type work func() (uint32, error)

// works returns the work of that name.
func works(large, files string) (work, error) {
	switch large {
	case "compute":
		return func() (uint32, error) { return picture{}.size(rand.Uint32(), many), nil }, nil
	case "wait":
		return func() (uint32, error) { return picture{wait: true}.size(rand.Uint32(), many), nil }, nil
	case "keep":
		s, err := newShelf(files)
		return s.keep, err
	case "look":
		a, err := newAlbum(files)
		return a.look, err
	case "none":
		return func() (uint32, error) { return 0, nil }, nil
	}
	return nil, fmt.Errorf("unknown work %q for large pictures", large)
}

func serve() error {
	admin := flag.String("admin", "127.0.0.1:6061", "`address` of net/http/pprof")
	listen := flag.String("listen", "", "`address` of the service; without it, the program is its own client")
	large := flag.String("large", "compute", "what takes time for large pictures")
	files := flag.String("files", os.TempDir(), "`folder` for files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do, err := works(*large, *files)
	if err != nil {
		return err
	}
	address := *listen
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	failed := make(chan error, 3)
	go func() { failed <- http.ListenAndServe(*admin, nil) }()
	go func() {
		failed <- http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sum := picture{}.size(rand.Uint32(), usual)
			if rand.Float64() < largeShare {
				more, err := do()
				if err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
				sum += more
			}
			fmt.Fprintln(w, sum)
		}))
	}()
	if *listen == "" {
		load, err := startClients(ctx, "http://"+l.Addr().String())
		if err != nil {
			return err
		}
		go func() { failed <- load.Wait() }()
	}
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
