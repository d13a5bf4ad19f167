// Command cgotarget calls functions of C of which it is known how long they take, and says
// what it measured itself. It goes on with each line on standard input.
package main

/*
#include <time.h>

static long long now(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// c_sleep sleeps for so many ns, and returns how long it took.
static long long c_sleep(long long ns) {
	long long from = now(CLOCK_MONOTONIC);
	struct timespec t = {ns / 1000000000, ns % 1000000000};
	nanosleep(&t, 0);
	return now(CLOCK_MONOTONIC) - from;
}

// c_burn computes until so many ns have passed, and returns how many.
static long long c_burn(long long ns) {
	long long from = now(CLOCK_MONOTONIC), at;
	do
		at = now(CLOCK_MONOTONIC);
	while (at - from < ns);
	return at - from;
}

static void c_nothing(void) {}

// c_inner is c_burn.
static long long c_inner(long long ns) { return c_burn(ns); }

extern long long goBack(long long);

// c_back calls Go, which calls C.
static long long c_back(long long ns) {
	long long from = now(CLOCK_MONOTONIC);
	goBack(ns);
	return now(CLOCK_MONOTONIC) - from;
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
)

// inner is how long calls of C that C calls through Go took.
var inner C.longlong

// goBack lets the stack grow, under the call into C that called it.
//
//export goBack
func goBack(ns C.longlong) C.longlong {
	sink += fill(1000)
	took := C.c_inner(ns)
	inner += took
	return took
}

var sink int

// fill calls itself so many times.
//
//go:noinline
func fill(n int) int {
	var room [256]byte
	room[n%len(room)] = byte(n)
	if n == 0 {
		return 0
	}
	return fill(n-1) + int(room[(n+1)%len(room)])
}

// deep calls itself so many times, and C in the end.
func deep(n int) C.longlong {
	var room [256]byte
	room[n%len(room)] = byte(n)
	if n == 0 {
		C.c_nothing()
		return C.c_back(1000)
	}
	return deep(n-1) + C.longlong(room[n%len(room)]/255)
}

func main() {
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var what string
		var n, ns int
		fmt.Sscan(line, &what, &n, &ns)
		var call func() C.longlong
		switch what {
		case "sleep":
			call = func() C.longlong { return C.c_sleep(C.longlong(ns)) }
		case "burn":
			call = func() C.longlong { return C.c_burn(C.longlong(ns)) }
		case "back":
			call = func() C.longlong { return C.c_back(C.longlong(ns)) }
		case "nothing":
			call = func() C.longlong { C.c_nothing(); return 0 }
		case "grow": // stacks that move, with calls into C under them
			call = func() C.longlong {
				done := make(chan C.longlong)
				go func() { done <- deep(ns) }()
				return <-done
			}
		}
		var sum, most C.longlong
		for range n {
			took := call()
			sum, most = sum+took, max(most, took)
		}
		fmt.Println(sum, most, inner)
	}
}
