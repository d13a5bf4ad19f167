// Command rqlite is one node of rqlite, alone in its cluster, put together as
// rqlite's own main function does it. That function cannot be imported, and its
// /debug/pprof has no execution trace: here net/http/pprof is on an address of its
// own.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof" // on the default mux
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rqlite/rqlite/v8/cluster"
	httpd "github.com/rqlite/rqlite/v8/http"
	"github.com/rqlite/rqlite/v8/store"
	"github.com/rqlite/rqlite/v8/tcp"
)

// config is where the node has its files and addresses.
type config struct{ data, http, raft, admin string }

func main() {
	var c config
	flag.StringVar(&c.data, "data", "", "`folder` of the node's files")
	flag.StringVar(&c.http, "http-addr", "localhost:4001", "`address` to serve")
	flag.StringVar(&c.raft, "raft-addr", "localhost:4002", "`address` for other nodes")
	flag.StringVar(&c.admin, "admin", "localhost:4003", "`address` of /debug/pprof")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "rqlite:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done.
func run(ctx context.Context, c config) error {
	admin, err := net.Listen("tcp", c.admin)
	if err != nil {
		return err
	}
	defer admin.Close()
	go http.Serve(admin, nil)

	listener, err := net.Listen("tcp", c.raft)
	if err != nil {
		return err
	}
	defer listener.Close()
	mux, err := tcp.NewMux(listener, tcp.NameAddress{Address: c.raft})
	if err != nil {
		return err
	}
	defer mux.Close()
	go mux.Serve()

	dialer, err := cluster.CreateRaftDialer("", "", "", "", false)
	if err != nil {
		return err
	}
	node := store.New(tcp.NewLayer(mux.Listen(cluster.MuxRaftHeader), dialer),
		&store.Config{DBConf: store.NewDBConfig(), Dir: c.data, ID: c.raft})
	configure(node)

	service := cluster.New(mux.Listen(cluster.MuxClusterHeader), node, node, nil)
	service.SetAPIAddr(c.http)
	if err := service.Open(); err != nil {
		return err
	}
	defer service.Close()
	client := cluster.NewClient(tcp.NewDialer(cluster.MuxClusterHeader, nil), 30*time.Second)
	if err := client.SetLocal(c.raft, service); err != nil {
		return err
	}

	server := httpd.New(c.http, node, client, nil)
	server.DefaultQueueCap, server.DefaultQueueBatchSz, server.DefaultQueueTimeout = 1024, 128, 50*time.Millisecond
	if err := server.Start(); err != nil {
		return err
	}
	defer server.Close()
	if err := node.Open(); err != nil {
		return err
	}
	defer node.Close(true)
	if err := node.Bootstrap(store.NewServer(node.ID(), c.raft, true)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// configure gives the node the defaults of rqlited's flags.
func configure(node *store.Store) {
	node.RaftLogLevel = "WARN"
	node.SnapshotThreshold = 8192
	node.SnapshotThresholdWALSize = 4 << 20
	node.SnapshotInterval = 10 * time.Second
	node.HeartbeatTimeout = time.Second
	node.ElectionTimeout = time.Second
	node.ApplyTimeout = 10 * time.Second
	node.AutoOptimizeInterval = 24 * time.Hour
}
