package blame

import (
	"fmt"
	"strings"
	"testing"
)

// Where contexts alone end waits for a condition, there are alarms, and nobody who lets in others.
func TestAConditionThatOnlyContextsEnd(t *testing.T) {
	var s strings.Builder
	s.WriteString(`procs 2
stack wait = sync.(*Cond).Wait < main.take < main.serve
stack fire = time.goFunc
stack cancel = sync.(*Cond).Broadcast < context.(*cancelCtx).cancel < time.goFunc
request /x g1 0ms-20ms
0ms g1 runs on p0
0ms p1 busy
`)
	const n = 14
	for i := range n {
		fmt.Fprintf(&s, `+1us g1 waits sync.(*Cond).Wait at wait
+0us p0 idle
+1ms p1 starts g%[1]d as fire at fire
+0us g%[1]d runs on p1
+1us g%[1]d wakes g1 at cancel
+1us g%[1]d ends
+0us p0 busy
+0us g1 runs on p0
`, 100+i)
	}
	s.WriteString("+10ms end\n")
	_, a := attribute(t, s.String(), "")
	cancelled := 0
	for _, k := range a.cancels {
		cancelled += k
	}
	if cancelled != n || len(a.releases) != 0 {
		t.Errorf("%d of %d waits were cancelled, %d sites have releases", cancelled, n, len(a.releases))
	}
}

// Passages that are to be remembered lie in each other as deep as who waits for whom; the sums of
// only some are kept meanwhile.
func TestPassagesWithinEachOther(t *testing.T) {
	const deep, calls = 3 * maxOpen, chunk
	var s strings.Builder
	s.WriteString("procs 2\n")
	for k := range deep {
		fmt.Fprintf(&s, "stack wait%[1]d = runtime.chanrecv1 < main.w%[1]d < main.g\nstack wake%[1]d = runtime.chansend1 < main.w%[1]d < main.g\nstack call%[1]d = syscall.pread < main.c%[1]d < main.g\n", k)
	}
	fmt.Fprintf(&s, "request /x g1 0ms-%dus\n0ms g1 runs on p0\n", deep*(2*calls+5))
	for k := 1; k < deep; k++ {
		fmt.Fprintf(&s, "0ms g%d waits at wait%d\n", k+1, k)
	}
	s.WriteString("0ms p1 busy\n")
	for k := range deep {
		if k > 0 {
			fmt.Fprintf(&s, "+0us p1 wakes g%[1]d\n+0us g%[1]d runs on p0\n", k+1)
		}
		fmt.Fprintf(&s, "repeat %[3]d\n+1us g%[1]d calls at call%[2]d\n+1us g%[1]d returns\nagain\n", k+1, k, calls)
		if k < deep-1 {
			fmt.Fprintf(&s, "+1us g%d waits chan receive at wait%d\n", k+1, k)
		}
	}
	for k := deep - 1; k > 0; k-- {
		fmt.Fprintf(&s, "+1us g%[1]d wakes g%[2]d at wake%[3]d\n+1us g%[1]d ends\n+0us g%[2]d runs on p0\n", k+1, k, k)
	}
	s.WriteString("+10ms end\n")
	_, a := attribute(t, s.String(), "")
	w := a.walker()
	w.request(0)
	if a.Depth < deep-1 || len(w.spare) == 0 || len(w.spare) > maxOpen+1 {
		t.Errorf("sums of %d passages are kept for a chain of %d", len(w.spare), a.Depth)
	}
}
