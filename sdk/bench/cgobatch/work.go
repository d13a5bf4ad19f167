//go:build cgo

package cgobatch

/*
#cgo noescape mix_annotated
#cgo nocallback mix_annotated
#cgo nocallback nop_annotated
#cgo noescape read_annotated
#cgo nocallback read_annotated

#include <stdint.h>
#include <stdlib.h>

// What is worked on: in the item itself,
typedef struct { uint64_t in, out; } number;

// or at an address.
typedef struct { uintptr_t data; uint32_t len, sum; } text;

// A few nanoseconds of work; each step needs the one before.
static inline uint64_t mixed(uint64_t x) {
	for (int i = 0; i < 3; i++) {
		x ^= x >> 33;
		x *= 0xff51afd7ed558ccdULL;
	}
	return x;
}

static uint64_t mix(uint64_t x)           { return mixed(x); }
static uint64_t mix_annotated(uint64_t x) { return mixed(x); }

static void mix_all(number *v, int n) {
	for (int i = 0; i < n; i++)
		v[i].out = mixed(v[i].in);
}

// The work alone: one crossing for all of the times.
static void mix_again(number *v, int n, int64_t times) {
	for (int64_t t = 0; t < times; t++) {
		mix_all(v, n);
		__asm__ volatile("" ::: "memory");
	}
}

// FNV-1a of words: 64 bytes take about 10 ns.
static inline uint32_t summed(const uint8_t *p, uint32_t n) {
	uint64_t h = 14695981039346656037ULL;
	for (uint32_t i = 0; i + 8 <= n; i += 8)
		h = (h ^ *(const uint64_t *)(p + i)) * 1099511628211ULL;
	return (uint32_t)(h ^ h >> 32);
}

static uint32_t sum(const uint8_t *p, uint32_t n) { return summed(p, n); }

static void sum_all(text *v, int n) {
	for (int i = 0; i < n; i++)
		v[i].sum = summed((const uint8_t *)v[i].data, v[i].len);
}

static void sum_again(text *v, int n, int64_t times) {
	for (int64_t t = 0; t < times; t++) {
		sum_all(v, n);
		__asm__ volatile("" ::: "memory");
	}
}

// Calls of nothing.
static void nop(void)                        { __asm__ volatile(""); }
static void nop_annotated(void)              { __asm__ volatile(""); }
static int  add(int a, int b, int c, int d)  { return a + b + c + d; }
static int  read(int *p)                     { return *p; }
static int  read_annotated(int *p)           { return *p; }
static void take(void *p)                    { __asm__ volatile("" :: "r"(p)); }

extern void cgobatchCalledBack(void);
static void callback(void) { cgobatchCalledBack(); }
*/
import "C"

import (
	"runtime"
	"unsafe"
)

//export cgobatchCalledBack
func cgobatchCalledBack() {}

type (
	number = C.number
	text   = C.text
)

func mix(x uint64) uint64          { return uint64(C.mix(C.uint64_t(x))) }
func mixAnnotated(x uint64) uint64 { return uint64(C.mix_annotated(C.uint64_t(x))) }

func mixAll(first unsafe.Pointer, n int) { C.mix_all((*C.number)(first), C.int(n)) }
func mixAgain(first unsafe.Pointer, n, times int) {
	C.mix_again((*C.number)(first), C.int(n), C.int64_t(times))
}

func sum(b []byte) uint32 { return uint32(C.sum((*C.uint8_t)(&b[0]), C.uint32_t(len(b)))) }

// sumCopied is what a pointer that C keeps needs, or so it is often written.
func sumCopied(b []byte) uint32 {
	p := C.CBytes(b)
	defer C.free(p)
	return uint32(C.sum((*C.uint8_t)(p), C.uint32_t(len(b))))
}

func sumAll(first unsafe.Pointer, n int) { C.sum_all((*C.text)(first), C.int(n)) }
func sumAgain(first unsafe.Pointer, n, times int) {
	C.sum_again((*C.text)(first), C.int(n), C.int64_t(times))
}

func newNumber(x uint64) number        { return number{in: C.uint64_t(x)} }
func newText(data uintptr, n int) text { return text{data: C.uintptr_t(data), len: C.uint32_t(n)} }
func mixedOf(v *number) uint64         { return uint64(v.out) }
func sumOf(v *text) uint64             { return uint64(v.sum) }

// calls of nothing. What they are given is in the heap unless it is said otherwise.
var calls = []struct {
	name string
	loop func(n int)
}{
	{"a call without arguments", func(n int) {
		for i := 0; i < n; i++ {
			C.nop()
		}
	}},
	{"nocallback", func(n int) {
		for i := 0; i < n; i++ {
			C.nop_annotated()
		}
	}},
	{"four integers", func(n int) {
		for i := 0; i < n; i++ {
			C.add(1, 2, 3, 4)
		}
	}},
	{"a local variable's address (it goes to the heap)", func(n int) {
		for i := 0; i < n; i++ {
			var x C.int
			C.read(&x)
		}
	}},
	{"the same, noescape and nocallback (it stays)", func(n int) {
		for i := 0; i < n; i++ {
			var x C.int
			C.read_annotated(&x)
		}
	}},
	{"C calls back into Go", func(n int) {
		for i := 0; i < n; i++ {
			C.callback()
		}
	}},
	{"Pin and Unpin of a Pinner that is kept", func(n int) {
		var p runtime.Pinner
		x := new([64]byte)
		for i := 0; i < n; i++ {
			p.Pin(x)
			p.Unpin()
		}
	}},
	{"slice of 4,096 integers", func(n int) { takeFirst(make([]int, 4096), n) }},
	{"slice of 64 pointers", func(n int) { takeFirst(make([]*int, 64), n) }},
	{"slice of 4,096 pointers", func(n int) { takeFirst(make([]*int, 4096), n) }},
	{"slice of 32,768 pointers", func(n int) { takeFirst(make([]*int, 32768), n) }},
}

func takeFirst[T any](s []T, n int) {
	for i := 0; i < n; i++ {
		C.take(unsafe.Pointer(&s[0]))
	}
}
