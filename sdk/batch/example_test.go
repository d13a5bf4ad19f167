package batch_test

import (
	"context"
	"fmt"

	"github.com/whylate/whylate/sdk/batch"
)

func Example() {
	b, err := batch.New(func(names []string, greetings []string, errs []error) error {
		for i, n := range names { // one round trip for all of them
			if n == "" {
				errs[i] = fmt.Errorf("no name")
				continue
			}
			greetings[i] = "hello " + n
		}
		return nil
	}, batch.Options{})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	fmt.Println(b.Do(context.Background(), "ada"))
	fmt.Println(b.Do(context.Background(), ""))
	// Output:
	// hello ada <nil>
	//  no name
}
