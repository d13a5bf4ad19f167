// Command nsqd is NSQ's broker, put together as its own main function does it. That
// function cannot be imported, and the /debug/pprof of its API has no execution trace:
// here net/http/pprof is on an address of its own.
package main

import (
	"flag"
	"fmt"
	"net/http"
	_ "net/http/pprof" // on the default mux
	"os"
	"os/signal"
	"syscall"

	"github.com/nsqio/nsq/nsqd"
)

func main() {
	opts := nsqd.NewOptions()
	flag.StringVar(&opts.TCPAddress, "tcp-address", opts.TCPAddress, "`address` to serve")
	flag.StringVar(&opts.HTTPAddress, "http-address", opts.HTTPAddress, "`address` of the API")
	flag.StringVar(&opts.BroadcastAddress, "broadcast-address", opts.BroadcastAddress, "`host` to be known by")
	flag.StringVar(&opts.DataPath, "data-path", opts.DataPath, "`folder` of the files")
	flag.Int64Var(&opts.MemQueueSize, "mem-queue-size", opts.MemQueueSize, "messages of a topic or channel that stay in memory")
	flag.Int64Var(&opts.SyncEvery, "sync-every", opts.SyncEvery, "messages on the disk between two syncs")
	admin := flag.String("admin", "localhost:4153", "`address` of /debug/pprof")
	flag.Parse()
	opts.HTTPSAddress = ""
	if err := run(opts, *admin); err != nil {
		fmt.Fprintln(os.Stderr, "nsqd:", err)
		os.Exit(1)
	}
}

func run(opts *nsqd.Options, admin string) error {
	broker, err := nsqd.New(opts)
	if err != nil {
		return err
	}
	defer broker.Exit()
	if err := broker.LoadMetadata(); err != nil {
		return err
	}
	if err := broker.PersistMetadata(); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- http.ListenAndServe(admin, nil) }()
	go func() { ended <- broker.Main() }()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	select {
	case err := <-ended:
		return err
	case <-stop:
		return nil
	}
}
