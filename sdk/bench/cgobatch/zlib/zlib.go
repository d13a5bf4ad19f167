//go:build zlib && cgo

package zlib

/*
#cgo LDFLAGS: -lz
#include <stdint.h>
#include <zlib.h>

typedef struct {
	uintptr_t in, out; // addresses in the arena, or of pinned buffers
	uint32_t  in_len, out_len;
	uint32_t  sum;
	int32_t   status;
} item;

static void crc32_all(item *v, int n) {
	for (int i = 0; i < n; i++)
		v[i].sum = crc32(0, (const Bytef *)v[i].in, v[i].in_len);
}

static uint32_t crc32_one(const void *p, uint32_t n) { return crc32(0, p, n); }

static int deflate_one(void *out, uint32_t *out_len, const void *in, uint32_t in_len, int level) {
	uLongf n = *out_len;
	int status = compress2(out, &n, in, in_len, level);
	*out_len = (uint32_t)n;
	return status;
}

// One deflate state for all of them: to make it takes longer than to compress a small buffer.
static int deflate_all(item *v, int n, int level) {
	z_stream z = {0};
	int status = deflateInit(&z, level);
	if (status != Z_OK)
		return status;
	for (int i = 0; i < n; i++) {
		z.next_in = (Bytef *)v[i].in, z.avail_in = v[i].in_len;
		z.next_out = (Bytef *)v[i].out, z.avail_out = v[i].out_len;
		v[i].status = deflate(&z, Z_FINISH);
		v[i].out_len = (uint32_t)z.total_out;
		deflateReset(&z);
	}
	return deflateEnd(&z) == Z_STREAM_ERROR ? Z_STREAM_ERROR : Z_OK;
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/whylate/whylate/sdk/cgobatch"
)

// Pool is one of arenas for the functions of this package.
type Pool = cgobatch.Pool[C.item]

// NewPool returns a pool.
func NewPool(o cgobatch.Options) (*Pool, error) { return cgobatch.NewPool[C.item](o) }

// Sums stores the CRC-32 of each doc.
func Sums(ctx context.Context, p *Pool, docs [][]byte, sums []uint32) error {
	a, err := p.Get(ctx)
	if err != nil {
		return err
	}
	defer a.Release()
	for len(docs) > 0 {
		items := a.Add(len(docs))
		for i := range items {
			in, err := a.Put(docs[i])
			if err != nil {
				return err
			}
			items[i].in, items[i].in_len = C.uintptr_t(in), C.uint32_t(len(docs[i]))
		}
		C.crc32_all((*C.item)(a.Pointer()), C.int(a.Len()))
		for i := range items {
			sums[i] = uint32(items[i].sum)
		}
		docs, sums = docs[len(items):], sums[len(items):]
		a.Reset()
	}
	return nil
}

// Compress calls each with every doc's compressed form, which is valid until it returns.
func Compress(ctx context.Context, p *Pool, docs [][]byte, level int, each func(i int, compressed []byte)) error {
	a, err := p.Get(ctx)
	if err != nil {
		return err
	}
	defer a.Release()
	for done := 0; done < len(docs); {
		outs, err := fill(a, docs[done:])
		if err != nil {
			return err
		}
		if status := C.deflate_all((*C.item)(a.Pointer()), C.int(a.Len()), C.int(level)); status != C.Z_OK {
			return fmt.Errorf("zlib: status %d", status)
		}
		for i, it := range a.Items() {
			if it.status != C.Z_STREAM_END {
				return fmt.Errorf("zlib: buffer %d: status %d", done+i, it.status)
			}
			each(done+i, outs[i][:it.out_len])
		}
		done += len(outs)
		a.Reset()
	}
	return nil
}

// fill puts as many docs into the arena as there is room for, with room for what they are compressed to.
func fill(a cgobatch.Arena[C.item], docs [][]byte) (outs [][]byte, err error) {
	for _, doc := range docs {
		out, to, err := a.Room(int(C.compressBound(C.uLong(len(doc)))))
		if err == nil {
			var in uintptr
			in, err = a.Put(doc)
			if err == nil && !a.Append(C.item{in: C.uintptr_t(in), in_len: C.uint32_t(len(doc)), out: C.uintptr_t(to), out_len: C.uint32_t(len(out))}) {
				err = cgobatch.ErrFull
			}
		}
		if errors.Is(err, cgobatch.ErrFull) && len(outs) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		outs = append(outs, out)
	}
	return outs, nil
}

// sum is one call for one buffer.
func sum(b []byte) uint32 {
	return uint32(C.crc32_one(unsafe.Pointer(unsafe.SliceData(b)), C.uint32_t(len(b))))
}

// compressed is one call for one buffer; it returns what of out it wrote.
func compressed(out, b []byte, level int) []byte {
	n := C.uint32_t(len(out))
	if C.deflate_one(unsafe.Pointer(&out[0]), &n, unsafe.Pointer(unsafe.SliceData(b)), C.uint32_t(len(b)), C.int(level)) != C.Z_OK {
		return nil
	}
	return out[:n]
}
