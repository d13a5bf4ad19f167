// Command bench builds the timelines that a diagnosis of a trace is made of, and nothing else:
// gotrace/bench measures what that costs.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: bench FILE")
	}
	f, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := timelines(f); err != nil {
		log.Fatal(err)
	}
}

// window is that of a diagnosis.
const window = 7 << 20

func timelines(in io.Reader) error {
	s, err := gotrace.Split(in, window)
	if err != nil {
		return err
	}
	for {
		section, err := s.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for parts := timeline.PartsOf(section, timeline.Options{}, true, window); ; {
			t, err := parts.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			if len(t.Gs) == 0 || t.Lost != nil {
				return fmt.Errorf("%d goroutines, lost: %v", len(t.Gs), t.Lost)
			}
		}
	}
}
