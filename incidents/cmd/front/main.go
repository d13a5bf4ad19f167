// Command front is a service that keeps its state in etcd: every GET is one put,
// through gRPC on one connection, as etcd's own clients do it.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"
)

// keys is how many keys are written, valueSize how many bytes to each.
const keys, valueSize = 64, 256

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to serve")
	store := flag.String("etcd", "", "base `URL` of the etcd")
	flag.Parse()
	client := &http.Client{Transport: &http.Transport{Protocols: plain()}, Timeout: 10 * time.Second}
	srv := &http.Server{
		Addr:              *listen,
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := put(client, *store, rand.IntN(keys)); err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
			}
		}),
	}
	fmt.Fprintln(os.Stderr, srv.ListenAndServe())
	os.Exit(1)
}

// plain is HTTP/2 without TLS, known beforehand.
func plain() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// put writes a key with a unary call of etcd's API (etcdserverpb.KV/Put).
func put(client *http.Client, store string, key int) error {
	// A PutRequest has the key as field 1 and the value as field 2, both bytes.
	m := field(nil, 1, fmt.Appendf(nil, "device/%d", key))
	m = field(m, 2, make([]byte, valueSize))
	// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md: a message is
	// one byte for its compression and four for its length before itself.
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
	req, err := http.NewRequest(http.MethodPost, store+"/etcdserverpb.KV/Put", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	// An answer without a message has its trailers as headers.
	for _, h := range []http.Header{resp.Trailer, resp.Header} {
		switch h.Get("Grpc-Status") {
		case "":
		case "0":
			return nil
		default:
			return errors.New(h.Get("Grpc-Message"))
		}
	}
	return fmt.Errorf("%s and no gRPC status", resp.Status)
}

// field appends a length-delimited field of a protocol buffer.
func field(m []byte, number uint64, value []byte) []byte {
	m = binary.AppendUvarint(m, number<<3|2)
	return append(binary.AppendUvarint(m, uint64(len(value))), value...)
}
