//go:build zlib && cgo

package zlib

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/whylate/whylate/sdk/cgobatch"
)

var ctx = context.Background()

// docs returns n buffers of a size, or of all kinds up to it, that compress to about half.
func docs(n, size int, all bool) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	v := make([][]byte, n)
	for i := range v {
		v[i] = make([]byte, size)
		if all {
			v[i] = v[i][:r.IntN(size)]
		}
		for k := range v[i] {
			v[i][k] = "etaoinshrdlu .,:"[r.IntN(16)]
		}
	}
	return v
}

func newPool(t testing.TB, o cgobatch.Options) *Pool {
	t.Helper()
	p, err := NewPool(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A small arena is filled many times, a buffer that has no room in it is pinned.
func TestAsGoDoesIt(t *testing.T) {
	p := newPool(t, cgobatch.Options{Items: 7, Bytes: 16 << 10})
	in := docs(300, 5000, true)
	sums := make([]uint32, len(in))
	if err := Sums(ctx, p, in, sums); err != nil {
		t.Fatal(err)
	}
	for i, b := range in {
		if want := crc32.ChecksumIEEE(b); sums[i] != want {
			t.Fatalf("the sum of %d bytes is %08x, want %08x", len(b), sums[i], want)
		}
	}
	next := 0
	err := Compress(ctx, p, in, 6, func(i int, compressed []byte) {
		r, err := zlib.NewReader(bytes.NewReader(compressed))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, in[i]) || i != next {
			t.Fatalf("buffer %d (after %d) of %d bytes comes back as %d, %v", i, next, len(in[i]), len(got), err)
		}
		next++
	})
	if err != nil || next != len(in) {
		t.Fatal(next, err)
	}
}

// BenchmarkSum: ns are those of one of 32 buffers.
func BenchmarkSum(b *testing.B) {
	for _, size := range []int{64, 1024, 16384} {
		in, sums := docs(32, size, false), make([]uint32, 32)
		name := func(s string) string { return fmt.Sprintf("%d bytes/%s", size, s) }
		b.Run(name("a call for each"), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; i < b.N; i++ {
				sums[i%32] = sum(in[i%32])
			}
		})
		b.Run(name("arena, 32 in a call"), func(b *testing.B) {
			p := newPool(b, cgobatch.Options{Items: 32})
			b.ReportAllocs()
			for i := 0; i < b.N; i += 32 {
				if err := Sums(ctx, p, in, sums); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name("hash_crc32, no C"), func(b *testing.B) {
			for i := 0; i < b.N; i++ {
				sums[i%32] = crc32.ChecksumIEEE(in[i%32])
			}
		})
	}
}

// BenchmarkCompress: ns are those of one of 32 buffers of 200 bytes, at level 1.
func BenchmarkCompress(b *testing.B) {
	in := docs(32, 200, false)
	b.Run("200 bytes/a call of compress2 for each", func(b *testing.B) {
		out := make([]byte, 400)
		for i := 0; i < b.N; i++ {
			if compressed(out, in[i%32], 1) == nil {
				b.Fatal("it fails")
			}
		}
	})
	b.Run("200 bytes/arena, 32 in a call, one deflate state", func(b *testing.B) {
		p := newPool(b, cgobatch.Options{Items: 32})
		for i := 0; i < b.N; i += 32 {
			if err := Compress(ctx, p, in, 1, func(int, []byte) {}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("200 bytes/compress_zlib, no C, one Writer", func(b *testing.B) {
		var out bytes.Buffer
		w, _ := zlib.NewWriterLevel(&out, 1)
		for i := 0; i < b.N; i++ {
			out.Reset()
			w.Reset(&out)
			w.Write(in[i%32])
			w.Close()
		}
	})
}
