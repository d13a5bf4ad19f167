package main

/*
#include <stdint.h>
#include <time.h>

// resize computes for about so many units of a microsecond each.
static uint32_t resize(uint32_t seed, int units) {
	for (int i = 0; i < units; i++)
		for (int j = 0; j < 500; j++)
			seed = seed * 1664525u + 1013904223u ^ seed >> 13;
	return seed;
}

// fetch waits for so many microseconds.
static uint32_t fetch(uint32_t seed, int units) {
	struct timespec d = {units / 1000000, units % 1000000 * 1000L};
	nanosleep(&d, 0);
	return seed;
}
*/
import "C"

// picture is a library in C.
type picture struct{ wait bool }

// size returns when the library does, after about so many microseconds.
func (p picture) size(seed uint32, units int) uint32 {
	if p.wait {
		return uint32(C.fetch(C.uint32_t(seed), C.int(units)))
	}
	return uint32(C.resize(C.uint32_t(seed), C.int(units)))
}
