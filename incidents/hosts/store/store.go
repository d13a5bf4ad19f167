package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

const (
	// items is how many there are in the database, alike how many are similar to one.
	items, alike = 1000, 120
	// counting is how long an item is held while its stock is counted.
	counting = 60 * time.Millisecond
	// pastTime is what reading an item's past takes in the database: as long as a disk
	// takes, and none of the CPUs that all share.
	pastTime = 10 * time.Millisecond
)

// An item is a row of the database, or what the cache has of it.
type item struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	Price int    `json:"price"`
}

// store answers for items.
type store struct {
	db       *pgxpool.Pool
	cache    *redis.Client
	known    map[string]*item // in this process
	patience time.Duration
}

// fill makes the table, and puts half of it into the cache.
func (s *store) fill(ctx context.Context) error {
	_, err := s.db.Exec(ctx, fmt.Sprintf(`
		DROP TABLE IF EXISTS items;
		CREATE TABLE items (id int PRIMARY KEY, name text, price int, stock int);
		INSERT INTO items SELECT i, 'thing ' || i, i, 100 FROM generate_series(1, %d) i`, items))
	if err != nil {
		return err
	}
	if err := s.cache.FlushAll(ctx).Err(); err != nil {
		return err
	}
	for id := 2; id <= items; id += 2 {
		b, err := json.Marshal(item{ID: id, Name: name(id), Price: id})
		if err != nil {
			return err
		}
		if err := s.cache.Set(ctx, key(id), b, 0).Err(); err != nil {
			return err
		}
	}
	return nil
}

// remember keeps n items in this process.
func (s *store) remember(n int) {
	s.known = make(map[string]*item, n)
	for id := range n {
		s.known[key(id)] = &item{ID: id, Name: name(id), Price: id}
	}
}

func key(id int) string  { return "item:" + strconv.Itoa(id) }
func name(id int) string { return "thing " + strconv.Itoa(id) }

func (s *store) handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /items/{id}", s.answer(s.item))
	mux.HandleFunc("GET /items/{id}/past", s.answer(s.past))
	mux.HandleFunc("GET /items/{id}/newest", s.answer(s.newest))
	mux.HandleFunc("GET /items/{id}/similar", s.answer(s.similar))
	mux.HandleFunc("POST /items/{id}/sold", s.answer(s.sold))
}

// answer makes a handler of what is to be known of an item.
func (s *store) answer(of func(ctx context.Context, id int) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.patience)
		defer cancel()
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		v, err := of(ctx, id)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			panic(http.ErrAbortHandler) // the client has gone
		}
	}
}

// item is the item itself, from the cache if it is there.
func (s *store) item(ctx context.Context, id int) (any, error) {
	b, err := s.cache.Get(ctx, key(id)).Bytes()
	if errors.Is(err, redis.Nil) {
		return s.read(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	var it item
	return it, json.Unmarshal(b, &it)
}

func (s *store) read(ctx context.Context, id int) (it item, err error) {
	err = s.db.QueryRow(ctx, "SELECT id, name, price FROM items WHERE id = $1", id).Scan(&it.ID, &it.Name, &it.Price)
	return it, err
}

// past is what an item has cost.
func (s *store) past(ctx context.Context, id int) (any, error) {
	var price int
	err := s.db.QueryRow(ctx, "SELECT price FROM items, pg_sleep($2) WHERE id = $1", id, pastTime.Seconds()).Scan(&price)
	return price, err
}

// newest is the newest item after another.
func (s *store) newest(ctx context.Context, id int) (any, error) {
	rows, err := s.db.Query(ctx, "SELECT id, name, price FROM items WHERE id >= $1 ORDER BY id DESC LIMIT 5", id)
	if err != nil {
		return nil, err
	}
	if !rows.Next() {
		return nil, errors.Join(rows.Err(), pgx.ErrNoRows)
	}
	var it item
	return it, rows.Scan(&it.ID, &it.Name, &it.Price)
}

// similar are items that are kept in this process.
func (s *store) similar(_ context.Context, id int) (any, error) {
	var all []item
	for i := range alike {
		if it, ok := s.known[key((id*7919+i)%max(1, len(s.known)))]; ok {
			all = append(all, *it)
		}
	}
	return all, nil
}

// sold takes one of an item out of the stock.
func (s *store) sold(ctx context.Context, id int) (any, error) {
	tag, err := s.db.Exec(ctx, "UPDATE items SET stock = stock - 1 WHERE id = $1", id)
	return tag.RowsAffected(), err
}

// takeStock counts the stock of the first item, again and again; nobody may sell it
// meanwhile.
func (s *store) takeStock(ctx context.Context, every time.Duration) {
	for {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(every)))
		if err := s.count(ctx, 1); err != nil {
			fmt.Println(err)
		}
	}
}

func (s *store) count(ctx context.Context, id int) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var stock int
		if err := tx.QueryRow(ctx, "SELECT stock FROM items WHERE id = $1 FOR UPDATE", id).Scan(&stock); err != nil {
			return err
		}
		time.Sleep(counting)
		_, err := tx.Exec(ctx, "UPDATE items SET stock = $2 WHERE id = $1", id, stock)
		return err
	})
}
