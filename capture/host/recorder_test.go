//go:build linux

package host

import (
	"bytes"
	"testing"
	"time"
)

func TestTmp(t *testing.T) {
	var b bytes.Buffer
	d, err := Describe(1)
	t.Logf("%+v %v", d, err)
	r, err := Start(t.Context(), 1, Options{W: &b})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	a, err := r.Stop()
	t.Logf("%+v %v", a, err)
	t.Log(b.String()[:min(b.Len(), 9000)])
	rec, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", rec.Over([]Span{rec.Span()}))
}
