//go:build cgo

package ctest

/*
#include <stdint.h>

typedef struct {
	uintptr_t data; // what Put, Copy, Pin or Room returned
	uint32_t  len;
	uint32_t  sum;  // FNV-1a of data
} item;

static void sum(item *items, int n) {
	for (int i = 0; i < n; i++) {
		const uint8_t *p = (const uint8_t *)items[i].data;
		uint32_t h = 2166136261u;
		for (uint32_t k = 0; k < items[i].len; k++)
			h = (h ^ p[k]) * 16777619u;
		items[i].sum = h;
	}
}

// What C wrote into a Room is seen by Go.
static void invert(item *items, int n) {
	for (int i = 0; i < n; i++) {
		uint8_t *p = (uint8_t *)items[i].data;
		for (uint32_t k = 0; k < items[i].len; k++)
			p[k] = ~p[k];
	}
}

static void nop(void) { __asm__ volatile(""); }
*/
import "C"

import (
	"context"

	"github.com/whylate/whylate/sdk/cgobatch"
)

// Item is what C works on.
type Item = C.item

// NewItem returns the item for bytes at an address.
func NewItem(data uintptr, n int) Item {
	return Item{data: C.uintptr_t(data), len: C.uint32_t(n)}
}

// Invert inverts the bits of what items refer to.
func Invert(a cgobatch.Arena[Item]) { C.invert((*C.item)(a.Pointer()), C.int(a.Len())) }

// Nop calls C, which does nothing.
func Nop() { C.nop() }

// Sums returns the FNV-1a sums of docs: as many calls of C as arenas are filled.
func Sums(ctx context.Context, pool *cgobatch.Pool[Item], docs [][]byte) ([]uint32, error) {
	a, err := pool.Get(ctx)
	if err != nil {
		return nil, err
	}
	defer a.Release()
	sums := make([]uint32, 0, len(docs))
	for len(docs) > 0 {
		items := a.Add(len(docs))
		for i := range items {
			data, err := a.Put(docs[i])
			if err != nil {
				return nil, err
			}
			items[i] = NewItem(data, len(docs[i]))
		}
		C.sum((*C.item)(a.Pointer()), C.int(a.Len()))
		for i := range items {
			sums = append(sums, uint32(items[i].sum))
		}
		docs = docs[len(items):]
		a.Reset()
	}
	return sums, nil
}
