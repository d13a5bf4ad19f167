package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// message is the request for key 5: its frame, the key, and 256 bytes of value.
var message = append(append([]byte{0, 0, 0, 1, 13, 0x0a, 8}, "device/5"...), append([]byte{0x12, 0x80, 2}, make([]byte, valueSize)...)...)

func TestPutIsAUnaryGRPCCall(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   string // in the error
	}{
		{"written", func(w http.ResponseWriter) {
			w.Header().Set("Trailer", "Grpc-Status")
			w.Write(make([]byte, 5))
			w.Header().Set("Grpc-Status", "0")
		}, ""},
		{"refused without a message", func(w http.ResponseWriter) {
			w.Header().Set("Grpc-Status", "14")
			w.Header().Set("Grpc-Message", "no leader")
		}, "no leader"},
		{"not gRPC", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, "404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || r.URL.Path != "/etcdserverpb.KV/Put" || r.Header.Get("Content-Type") != "application/grpc" {
					t.Errorf("%s %q, %v", r.URL, r.Header, err)
				}
				if !bytes.Equal(body, message) {
					t.Errorf("the message is % x", body)
				}
				c.answer(w)
			}))
			srv.Config.Protocols = plain()
			srv.Start()
			defer srv.Close()
			err := put(&http.Client{Transport: &http.Transport{Protocols: plain()}}, srv.URL, 5)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
