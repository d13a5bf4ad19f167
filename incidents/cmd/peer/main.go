// Command peer is a server for another program to call: it answers every
// request with a few bytes, after a time that is longer for a share of the requests.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"math/big"
	chance "math/rand/v2"
	"net/http"
	"os"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to serve")
	reply := flag.Duration("reply", time.Millisecond, "time to answer")
	slow := flag.Duration("slow", 0, "time to answer for a share of the requests")
	share := flag.Float64("share", 0, "that share, 0 to 1, chosen at random")
	body := flag.String("body", "in stock: 12\n", "`text` to answer with")
	contentType := flag.String("type", "text/plain; charset=utf-8", "its content `type`")
	bits := flag.Int("rsa", 0, "serve TLS with a new RSA key of that many `bits`; 0 serves without TLS")
	flag.Parse()
	srv := &http.Server{
		Addr:              *listen,
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d := *reply
			if chance.Float64() < *share {
				d = *slow
			}
			time.Sleep(d)
			w.Header().Set("Content-Type", *contentType)
			io.WriteString(w, *body)
		}),
	}
	fmt.Fprintln(os.Stderr, serve(srv, *bits))
	os.Exit(1)
}

// serve serves HTTP/1 only, with a self-signed certificate if its key has any bits.
func serve(srv *http.Server, bits int) error {
	if bits == 0 {
		return srv.ListenAndServe()
	}
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return err
	}
	x := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, x, x, key.Public(), key)
	if err != nil {
		return err
	}
	srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	srv.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	return srv.ListenAndServeTLS("", "")
}
