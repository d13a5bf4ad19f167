package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/whylate/whylate/sdk/breaker"
)

type price struct{ cents int }

func ask(ctx context.Context) (price, error) { return price{1999}, nil }

func Example() {
	b, err := breaker.New(breaker.Options{
		Limit:  time.Second, // no call should ever take so long
		Failed: func(err error) bool { return !errors.Is(err, context.Canceled) },
		OnChange: func(c breaker.Change) {
			fmt.Println(c.From, "→", c.To, c.Reason, "usual p99", c.P99)
		},
	})
	if err != nil {
		panic(err)
	}
	p, err := breaker.Do(context.Background(), b, ask)
	fmt.Println(p.cents, err)
	// Output: 1999 <nil>
}

// The last value that was right is better than none.
func ExampleDoOr_stale() {
	b, _ := breaker.New(breaker.Options{})
	var last atomic.Pointer[price]
	p, err := breaker.DoOr(context.Background(), b,
		func(ctx context.Context) (price, error) {
			p, err := ask(ctx)
			if err == nil {
				last.Store(&p)
			}
			return p, err
		},
		func(_ context.Context, err error) (price, error) {
			if p := last.Load(); p != nil {
				return *p, nil
			}
			return price{}, err
		})
	fmt.Println(p.cents, err)
	// Output: 1999 <nil>
}

// A page without recommendations is better than none.
func ExampleDoOr_default() {
	b, _ := breaker.New(breaker.Options{})
	recommend := func(context.Context) ([]string, error) { return []string{"socks"}, nil }
	none := func(context.Context, error) ([]string, error) { return nil, nil }
	list, err := breaker.DoOr(context.Background(), b, recommend, none)
	fmt.Println(list, err)
	// Output: [socks] <nil>
}

// Another replica has a breaker of its own: if it is slow too, the caller is told.
func ExampleDoOr_other() {
	first, _ := breaker.New(breaker.Options{})
	second, _ := breaker.New(breaker.Options{})
	p, err := breaker.DoOr(context.Background(), first, ask, func(ctx context.Context, _ error) (price, error) {
		return breaker.Do(ctx, second, ask)
	})
	fmt.Println(p.cents, err)
	// Output: 1999 <nil>
}

// The time that this program waited for a connection of its own pool is not the callee's.
func ExampleBreaker_Allow() {
	b, _ := breaker.New(breaker.Options{})
	start := time.Now()
	p, err := b.AllowAt(start)
	if err != nil {
		return // breaker.ErrOpen
	}
	waited := 3 * time.Millisecond // sql.DBStats, httptrace.GotConn, …
	_, err = ask(context.Background())
	p.DoneIn(time.Since(start)-waited, err)
	fmt.Println(b.State())
	// Output: closed
}
