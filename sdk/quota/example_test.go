package quota_test

import (
	"fmt"
	"math"

	"github.com/whylate/whylate/sdk/quota"
)

func Example() {
	r := quota.Report{ // quota.Check() where a program runs
		CPUs: 8, GOMAXPROCS: 8, SetBy: quota.ByProgram, GOMEMLIMIT: math.MaxInt64,
		Groups: []quota.Group{{Path: "/pod", Cores: 2, Period: 100e6}},
	}
	fmt.Println(r)
	// Output:
	// 2 cores (quota of "/pod"; there are 8 CPUs); GOMAXPROCS 8 by the program
	// GOMAXPROCS is 8 (by the program) where "/pod" allows 2 cores: when that many threads are busy, all stand still for 75ms in each 100ms
	// the runtime's own choice is 2; what is set explicitly does not follow changes of the quota
}

func ExampleReport_Since() {
	before := quota.Check()
	// … load …
	if t := quota.Check().Since(before); t.Share() > 0.1 {
		fmt.Println(t)
	}
}
