package host

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func childrenOf(t *testing.T, pid int) *children {
	t.Helper()
	c, err := openChildren(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// searchAll looks at all processes; in the second pass at those that were there before their parents.
func (c *children) searchAll(t *testing.T) {
	t.Helper()
	for until := c.pass + 2; c.pass < until; {
		if err := c.search(1e9); err != nil {
			t.Fatal(err)
		}
	}
}

func reapedOf(t *testing.T, pid int) int64 {
	t.Helper()
	line, err := readText(procDir(pid) + "/stat")
	st, ok := parseStat([]byte(line))
	if err != nil || !ok {
		t.Fatal(line, err)
	}
	return st.reaped
}

// A child counts as long as it lives and once after it was reaped.
func TestTheCPUTimeOfAChildIsThatOfItsParentsChildren(t *testing.T) {
	p := start(t, "parent 100", nil)
	before := childrenOf(t, p.pid)
	before.searchAll(t)
	before.sum(reapedOf(t, p.pid), true)
	p.next()
	said := p.ints()
	pid, used := said[0], int64(said[1])
	late := childrenOf(t, p.pid)
	late.searchAll(t)
	late.sum(reapedOf(t, p.pid), true)
	before.searchAll(t)
	alive := before.sum(reapedOf(t, p.pid), false)
	if !before.family[pid] || len(before.live) != 1 || alive < used-2*tickNS {
		t.Errorf("while it lives: %d of %d ns; family %v", alive, used, before.family)
	}
	p.next()
	p.line()
	reaped := before.sum(reapedOf(t, p.pid), false)
	if len(before.live) != 0 || reaped < used-2*tickNS || reaped > used+10*tickNS {
		t.Errorf("after it was reaped: %d of %d ns, %d live", reaped, used, len(before.live))
	}
	if v := late.sum(reapedOf(t, p.pid), false); v > 10*tickNS {
		t.Errorf("what it used before recording began counts: %d ns of %d", v, used)
	}
}

func TestARecordingTellsItsChildrenApart(t *testing.T) {
	p := start(t, "parent 200", nil)
	rec := record(t, p.pid)
	p.next()
	used := p.ints()[1]
	p.next()
	p.line()
	got := rec.stop()
	u := got.Over([]Span{got.Span()})
	if u.ChildrenNS < float64(used)-2*tickNS || u.RunNS > float64(used)/2 {
		t.Errorf("the child used %d ns: recorded as %g of children, %g of the process", used, u.ChildrenNS, u.RunNS)
	}
}

func TestAGrandchildIsFoundAndAStrangerIsNot(t *testing.T) {
	c := start(t, "sleep 0", nil)
	c.line()
	shell := exec.Command("sh", "-c", "sleep 1000 & echo ready; wait")
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Skip(err)
	}
	var b [6]byte
	_, _ = out.Read(b[:])
	mine := childrenOf(t, os.Getpid())
	mine.searchAll(t)
	theirs := childrenOf(t, c.pid)
	theirs.searchAll(t)
	if !mine.family[shell.Process.Pid] || !mine.family[c.pid] || len(mine.live) < 3 {
		t.Errorf("our descendants: %v", mine.family)
	}
	if len(theirs.live) != 0 {
		t.Errorf("descendants of %d, which has none: %v", c.pid, theirs.family)
	}
	_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) // and its child
	_ = shell.Wait()
}
