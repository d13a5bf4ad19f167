package pace_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/whylate/whylate/sdk/pace"
)

// A compaction, in eight goroutines that leave room for whoever serves requests.
func Example() {
	p, err := pace.New(pace.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Stop(context.Background())

	parts := make(chan int)
	sums := make([]int, 8)
	var workers sync.WaitGroup
	for i := range sums {
		workers.Add(1)
		err := p.Go(context.Background(), func(ctx context.Context) {
			defer workers.Done()
			for {
				var part int
				var more bool
				// Who waits gives its permit to somebody who works.
				if p.Blocking(ctx, func() { part, more = <-parts }) != nil || !more {
					return
				}
				for n := 0; n < 1000; n++ {
					if p.Pace(ctx) != nil { // the pacer is being stopped
						return
					}
					sums[i] += part
				}
			}
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	for part := 1; part <= 100; part++ {
		parts <- part
	}
	close(parts)
	workers.Wait()
	total := 0
	for _, sum := range sums {
		total += sum
	}
	fmt.Println(total)
	// Output: 5050000
}
