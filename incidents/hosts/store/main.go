// Command store is a web shop's item service on third-party drivers: pgx's pool in
// front of a PostgreSQL, go-redis in front of a Redis.
//
//	store -listen 127.0.0.1:8080 -database 'postgres://postgres@127.0.0.1:5432/postgres?pool_max_conns=16' \
//		-cache 'redis://127.0.0.1:6379?pool_size=16'
//
// The sizes of the pools and the ages of their connections are the drivers' own
// settings in these two URLs. It makes its table anew at each start, and it has
// /debug/pprof.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	_ "net/http/pprof" // as services have it
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

func main() {
	listen := flag.String("listen", "", "`address` to serve HTTP on")
	database := flag.String("database", "", "`URL` of PostgreSQL")
	cache := flag.String("cache", "", "`URL` of Redis")
	memory := flag.Int("memory", 0, "how many `items` to keep in memory as well")
	every := flag.Duration("stocktaking", 0, "mean time between two counts of an item's stock; 0 is never")
	s := &store{}
	flag.DurationVar(&s.patience, "patience", 10*time.Second, "how long a request may take")
	flag.Parse()
	if err := run(*listen, *database, *cache, *memory, *every, s); err != nil {
		fmt.Fprintln(os.Stderr, "store:", err)
		os.Exit(1)
	}
}

func run(listen, database, cache string, memory int, every time.Duration, s *store) error {
	ctx := context.Background()
	options, err := redis.ParseURL(cache)
	if err != nil {
		return err
	}
	s.cache = redis.NewClient(options)
	if s.db, err = pgxpool.New(ctx, database); err != nil {
		return err
	}
	if err := s.fill(ctx); err != nil {
		return err
	}
	s.remember(memory)
	if every > 0 {
		go s.takeStock(ctx, every)
	}
	s.handle(http.DefaultServeMux)
	srv := &http.Server{Addr: listen, ReadHeaderTimeout: 10 * time.Second}
	return srv.ListenAndServe()
}
