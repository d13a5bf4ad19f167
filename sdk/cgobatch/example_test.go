package cgobatch_test

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/whylate/whylate/sdk/cgobatch"
)

// item is what cgo makes of
//
//	typedef struct { uintptr_t data; uint32_t len; uint32_t sum; } item;
type item struct {
	data     uintptr
	len, sum uint32
}

// work stands for
//
//	static void work(item *items, int n);
func work(first unsafe.Pointer, n int) {
	items := unsafe.Slice((*item)(first), n)
	for i := range items {
		items[i].sum = 2 * items[i].len
	}
}

func Example() {
	pool, err := cgobatch.NewPool[item](cgobatch.Options{Items: 2})
	if err != nil {
		panic(err)
	}
	a, err := pool.Get(context.Background())
	if err != nil {
		panic(err) // ctx ended before an arena was free
	}
	defer a.Release()

	docs := [][]byte{[]byte("one"), []byte("three"), []byte("seventeen")}
	for len(docs) > 0 {
		items := a.Add(len(docs)) // as many as there is room for
		for i := range items {
			data, err := a.Put(docs[i])
			if err != nil {
				panic(err)
			}
			items[i].data, items[i].len = data, uint32(len(docs[i]))
		}
		work(a.Pointer(), a.Len()) // C.work((*C.item)(a.Pointer()), C.int(a.Len()))
		for i := range items {
			fmt.Println(string(docs[i]), items[i].sum)
		}
		docs = docs[len(items):]
		a.Reset()
	}
	// Output:
	// one 6
	// three 10
	// seventeen 18
}
