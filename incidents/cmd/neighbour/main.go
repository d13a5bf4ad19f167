// Command neighbour uses as many CPUs as it is told to, from the start to the end
// of its life.
package main

import (
	"flag"
	"runtime"
	"time"
)

func main() {
	threads := flag.Int("threads", runtime.NumCPU(), "how many threads compute")
	flag.Parse()
	// One P more than that, so that the runtime's own work stops nobody.
	runtime.GOMAXPROCS(*threads + 1)
	for range *threads {
		go compute()
	}
	for {
		time.Sleep(time.Hour)
	}
}

func compute() {
	x := uint64(1)
	for x != 0 { // an odd multiplier keeps it odd
		x *= 6364136223846793005
	}
}
