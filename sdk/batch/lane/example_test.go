package lane_test

import (
	"fmt"

	"github.com/whylate/whylate/sdk/batch/lane"
)

func Example() {
	l, err := lane.Start(lane.Options{})
	if err != nil {
		panic(err)
	}
	if err := l.Post(lane.High, func() { fmt.Println("the reply") }); err != nil {
		fmt.Println("refused:", err)
	}
	l.Stop() // after all that was posted
	// Output: the reply
}
