//go:build cgobatchdebug

package cgobatch

import (
	"strings"
	"testing"
)

//go:noinline
func releaser(a Arena[thing]) { a.Release() }

//go:noinline
func user(a Arena[thing]) { a.Append(thing{}) }

func wantBoth(t *testing.T, message string, functions ...string) {
	t.Helper()
	for _, f := range functions {
		if !strings.Contains(message, "cgobatch."+f+"(") {
			t.Errorf("the panic does not name %s:\n%s", f, message)
		}
	}
}

func TestAUseAfterReleaseIsToldWithBothStacks(t *testing.T) {
	p := newPool(t, Options{MaxArenas: 1})
	a := get(t, p)
	releaser(a)
	for i := 0; i < 10; i++ { // others have it meanwhile
		get(t, p).Release()
	}
	_, message := tried(func() bool { user(a); return true })
	wantBoth(t, message, "releaser", "user")
}

func TestAWriteAfterReleaseIsFoundByTheNextGet(t *testing.T) {
	p := newPool(t, Options{MaxArenas: 1})
	a := get(t, p)
	items := a.Add(1)
	releaser(a)
	if items[0].len != 0xdbdbdbdb {
		t.Errorf("a released item is %x, not poisoned", items[0].len)
	}
	items[0].sum = 1
	_, message := tried(func() bool { get(t, p); return true })
	wantBoth(t, message, "releaser")
	if !strings.Contains(message, "byte 12 ") {
		t.Errorf("it does not say where:\n%s", message)
	}
}
