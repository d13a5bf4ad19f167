//go:build cgo

package main

/*
#include <pthread.h>
#include <unistd.h>

extern void called(void);

static void *thread(void *unused) {
	for (int i = 0; i < 5; i++) {
		called();
		usleep(200);
	}
	return 0;
}

static void threads(void) {
	pthread_t t[4];
	for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, thread, 0);
	for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
}

static void nap(void) { usleep(300); }
*/
import "C"

import (
	"runtime"
	"time"
)

func init() { programs["callbacks"] = callbacks }

//export called
func called() {
	runtime.Gosched()
	time.Sleep(100 * time.Microsecond)
	C.nap()
}

// callbacks has threads of C call Go, which calls C.
func callbacks() { C.threads() }
