//go:build !linux

// Command overhead measures what recording a service's threads in the kernel costs it: on
// Linux.
package main

import "log"

func main() { log.Fatal("overhead: needs Linux") }
