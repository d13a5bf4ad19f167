// Command pace measures what background work does to the rest of a program, under several ways to pace it:
//
//	go run ./pace                     all ways, quiet and beside a busy foreground, 3 rounds each
//	go run ./pace -ways none,lowered -scenes 16 -rounds 1
//
// Each way runs in a process of its own, the ways of a scene one after the other, round after round; a cell is the
// median of the rounds. The critical part is a UDP echo over loopback every 1.5 ms and a timer of 2 ms. A background
// goroutine computes in units of about 10 µs. A busy foreground is as many goroutines as there are CPUs that compute
// for 2 ms, then sleep for 0.1 ms, and a collection every 20 ms, whose stops of the world are measured.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// scene is what the background runs beside.
type scene struct {
	name       string
	background int
	busy       bool
}

var scenes = []scene{{"16", 16, false}, {"64", 64, false}, {"busy", 16, true}}

func main() {
	var (
		names  = flag.String("ways", strings.Join(order, ","), "which ways to pace")
		only   = flag.String("scenes", "16,64,busy", "16 or 64 background goroutines on a quiet machine, or 16 beside a busy foreground")
		rounds = flag.Int("rounds", 3, "how often each is run")
		length = flag.Duration("for", 4*time.Second, "how long each run is")
		way    = flag.String("way", "", "run this way only, in this process, and print the result as JSON")
		in     = flag.String("scene", "16", "the scene for -way")
		slice  = flag.Duration("slice", 0, "the slice of lowered threads, 0: the default")
	)
	flag.Parse()
	if *rounds < 1 || *length <= 0 || *length > time.Minute {
		fail(fmt.Errorf("-rounds is at least 1, -for above 0 and at most a minute"))
	}
	if *way != "" {
		s, err := find(*in)
		if err != nil {
			fail(err)
		}
		r, err := run(*way, s, *length, *slice)
		if err != nil {
			fail(err)
		}
		json.NewEncoder(os.Stdout).Encode(r)
		return
	}
	for _, name := range strings.Split(*only, ",") {
		s, err := find(name)
		if err != nil {
			fail(err)
		}
		if err := compare(s, strings.Split(*names, ","), *rounds, *length, *slice); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "pace:", err)
	os.Exit(2)
}

func find(name string) (scene, error) {
	for _, s := range scenes {
		if s.name == name {
			return s, nil
		}
	}
	return scene{}, fmt.Errorf("no scene %q", name)
}

func compare(s scene, ways []string, rounds int, length, slice time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	results := make(map[string][]result)
	for i := 0; i < rounds; i++ {
		for _, w := range ways {
			var out bytes.Buffer
			c := exec.Command(self, "-way", w, "-scene", s.name, "-for", length.String(), "-slice", slice.String())
			c.Stdout, c.Stderr = &out, os.Stderr
			if err := c.Run(); err != nil {
				return fmt.Errorf("%s: %w", w, err)
			}
			var r result
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				return fmt.Errorf("%s: %w", w, err)
			}
			results[w] = append(results[w], r)
		}
	}
	fmt.Printf("\nScene %s: %d background goroutines", s.name, s.background)
	if s.busy {
		fmt.Print(", busy foreground")
	}
	fmt.Printf("; %d rounds of %v\n\n", rounds, length)
	fmt.Println("| | network p50 / p99 / max ms | p99 of none | timer late p99 ms | background | foreground | stop of the world p99 ms |\n|---|---|---|---|---|---|---|")
	base, quiet := median(results["none"]), median(results["no background"])
	for _, w := range ways {
		r := median(results[w])
		fmt.Printf("| %s | %.3f / %.3g / %.3g | %s | %.3g | %s | %s | %.3g |\n", w, r.UDP50, r.UDP99, r.UDPMax, inverse(base.UDP99, r.UDP99), r.Timer99,
			percent(r.Background, base.Background), percent(r.Foreground, quiet.Foreground), r.Stop99)
	}
	return nil
}

func inverse(of, is float64) string {
	if of == 0 || is == 0 {
		return ""
	}
	if is > of {
		return fmt.Sprintf("x %.2g", is/of)
	}
	return fmt.Sprintf("1/%.0f", of/is)
}

func percent(is, of float64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*is/of)
}

// median takes the median of each number.
func median(rs []result) (m result) {
	of := func(get func(*result) *float64) {
		var v []float64
		for i := range rs {
			v = append(v, *get(&rs[i]))
		}
		slices.Sort(v)
		if len(v) > 0 {
			*get(&m) = v[len(v)/2]
		}
	}
	of(func(r *result) *float64 { return &r.UDP50 })
	of(func(r *result) *float64 { return &r.UDP99 })
	of(func(r *result) *float64 { return &r.UDPMax })
	of(func(r *result) *float64 { return &r.Timer99 })
	of(func(r *result) *float64 { return &r.Stop99 })
	of(func(r *result) *float64 { return &r.Background })
	of(func(r *result) *float64 { return &r.Foreground })
	return m
}
