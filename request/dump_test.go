package request

import (
	"fmt"
	"os"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

func TestDump(t *testing.T) {
	p := os.Getenv("DUMP")
	if p == "" {
		t.Skip()
	}
	fl, _ := os.Open(p)
	r, err := gotrace.NewReader(fl)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := timeline.Read(r, timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := classify(tl, nil)
	h := findHomes(tl, c)
	for _, r := range h.roots {
		fmt.Printf("ROOT %s n=%d fin=%d acc=%d dial=%d\n", r.name, r.goroutines, r.finished, r.accepted, r.dialled)
		for _, p := range r.places {
			fmt.Printf("   key %d read=%v client=%v gs=%d rep=%d res=%d visits=%d net=%d time=%dus awaited=%d/%d rej=%v est=%v", p.key, p.read, p.client, p.goroutines, p.repeats, p.residents, p.visits, p.net, p.time/1000, p.awaited, p.sampled, p.rejected, p.established)
			for id := range c.info {
				if c.info[id].key == p.key {
					for i, f := range tl.Stacks.Frames(stackID(id)) {
						if i < 9 {
							fmt.Printf(" < %s", f.Func)
						}
					}
					break
				}
			}
			fmt.Println()
		}
	}
	f := Find(tl, Options{})
	describe(t, f)
	check(t, f)
	if os.Getenv("SEGS") != "" {
		for i, g := range tl.Gs {
			fmt.Println("G", i, g.Root, g.Born, g.Died)
			for k, s := range g.Segs {
				if k > 60 {
					break
				}
				in := c.of(s.Stack)
				fmt.Printf("  %d-%d %v %v op=%d key=%d fl=%x node=%d waker=%d\n", (s.Start-tl.Start)/1000, (s.End-tl.Start)/1000, s.Kind, s.Reason, in.op, in.key, in.flags, in.node, s.Waker)
			}
		}
	}
}
