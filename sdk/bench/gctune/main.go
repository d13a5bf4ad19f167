// Command gctune compares settings and tuners of the garbage collector under one budget of memory, and prints
// Markdown tables. Each setting has a process of its own for each course of the live heap, the settings of a course one after the other,
// round after round; what is compared is measured from outside of the tuners, the same way for all.
//
//	go run ./gctune
//
// The courses, with a budget of 256 MB:
//
//	step      live 30, 110 and 30 MB, in the budget
//	varying   live between 40 and 110 MB, and the load between all and a fifth of it, in the budget
//	over      live 235 MB, which leaves no room
//
// The load is closed-loop: as many workers as processors make requests of 64 allocations of 1 KiB, one after the
// other, and sleep for 0.3 ms after each 64 of them.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

const (
	mb     = 1 << 20
	budget = 256 * mb
)

func main() {
	setting := flag.String("setting", "", "measure this one, in this process")
	course := flag.String("course", "step", "the course of the live heap for -setting")
	rounds := flag.Int("rounds", 3, "how often each is measured")
	phase := flag.Duration("phase", 1500*time.Millisecond, "how long a phase takes")
	only := flag.String("only", "", "of the settings, those whose name begins so")
	keep := flag.String("results", "", "a file of earlier rounds: those of this run are added, and the tables are of all")
	flag.Parse()
	log.SetFlags(0)
	if *setting != "" {
		stop := find(*setting).start()
		json.NewEncoder(os.Stdout).Encode(run(*course, *phase))
		stop()
		return
	}
	all := load(*keep)
	for range *rounds {
		for _, c := range courses {
			for _, s := range settings {
				if strings.HasPrefix(s.name, *only) && (c == "over" || !s.over) {
					var measured []phaseResult
					child(&measured, "-setting", s.name, "-course", c, "-phase", phase.String())
					all[s.name] = append(all[s.name], measured...)
				}
			}
		}
		save(*keep, all)
	}
	fmt.Printf("%s, %s/%s, %d CPUs, %d rounds, phases of %v\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), roundsOf(all), *phase)
	all.print()
}

func child(result any, args ...string) {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, result)
	}
	if err != nil {
		log.Fatalf("%v: %v", args, err)
	}
}
