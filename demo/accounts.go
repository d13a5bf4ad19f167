package demo

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

var poolExhaustedSQL = Scenario{
	Name:  "pool-exhausted-sql",
	Title: "database/sql with two connections, under bursts",
	Cause: "pool-exhausted", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*accounts).balance",
	Rate:      120,
	Bursts:    Bursts{Mean: 900 * time.Millisecond, Size: 24},
	Endpoints: []Endpoint{{Path: "/balance"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "database", Reply: 2 * time.Millisecond}},
	New:       newAccounts,
}

// accounts reads balances from a database.
type accounts struct{ db *sql.DB }

func newAccounts(_ context.Context, peers map[string]string) (http.Handler, error) {
	a := &accounts{db: sql.OpenDB(store{address: strings.TrimPrefix(peers["database"], "http://")})}
	a.db.SetMaxOpenConns(2) // the fault
	a.db.SetMaxIdleConns(2)
	return route("/balance", a.handle), nil
}

func (a *accounts) balance(ctx context.Context) (sku string, cents int64, err error) {
	err = a.db.QueryRowContext(ctx, "SELECT sku, cents FROM balances").Scan(&sku, &cents)
	return sku, cents, err
}

func (a *accounts) handle(w http.ResponseWriter, r *http.Request) {
	sku, cents, err := a.balance(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	ls := lines(20)
	ls[0].SKU, ls[0].Cents = sku, int(cents)
	reply(w, ls)
}

// store is a driver for database/sql whose database is a peer.
type store struct{ address string }

func (s store) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	return &storeConn{Conn: c, br: bufio.NewReader(c)}, nil
}

func (s store) Driver() driver.Driver { return s }

func (s store) Open(string) (driver.Conn, error) { return s.Connect(context.Background()) }

type storeConn struct {
	net.Conn
	br *bufio.Reader
}

var errUnsupported = errors.New("demo: not supported by this driver")

func (c *storeConn) Prepare(string) (driver.Stmt, error) { return nil, errUnsupported }
func (c *storeConn) Begin() (driver.Tx, error)           { return nil, errUnsupported }

// QueryContext sends every query as the same request.
func (c *storeConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	if _, err := io.WriteString(c.Conn, "GET /balances HTTP/1.1\r\nHost: database\r\n\r\n"); err != nil {
		return nil, driver.ErrBadConn
	}
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	rows := &storeRows{}
	return rows, json.Unmarshal(body, &rows.left)
}

type storeRows struct{ left []line }

func (r *storeRows) Columns() []string { return []string{"sku", "cents"} }
func (r *storeRows) Close() error      { return nil }

func (r *storeRows) Next(dest []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	dest[0], dest[1] = r.left[0].SKU, int64(r.left[0].Cents)
	r.left = r.left[1:]
	return nil
}
