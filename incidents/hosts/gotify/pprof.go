package main

import (
	"fmt"
	"net/http"
	_ "net/http/pprof"
	"os"
)

// Gotify has no net/http/pprof. Here it stands on a listener of its own, whose
// address is in the environment, as all of Gotify's settings are.
func init() {
	address := os.Getenv("PPROF_LISTENADDR")
	if address == "" {
		return
	}
	go func() {
		fmt.Println("pprof:", http.ListenAndServe(address, nil))
	}()
}
