package demo

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestANameServerKnowsEveryName(t *testing.T) {
	settings, err := json.Marshal(Peer{DNS: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := newPeer([]string{string(settings)})
	if err != nil {
		t.Fatal(err)
	}
	go r.run()
	d := delivery{resolverAt(r.address.String())}
	hosts, err := d.locate(t.Context())
	if err != nil || !slices.Equal(hosts, []string{"127.0.0.1"}) {
		t.Errorf("%q, %v", hosts, err)
	}
	if mx, err := d.resolver.LookupMX(t.Context(), "depot.example."); err == nil {
		t.Errorf("a mail exchanger: %v", mx)
	}
}

func TestWhatIsNoQueryHasNoAnswer(t *testing.T) {
	query := func(questions uint16, name string) []byte {
		q := []byte{0, 7, 1, 0}
		for _, v := range []uint16{questions, 0, 0, 0} {
			q = binary.BigEndian.AppendUint16(q, v)
		}
		return append(q, name...)
	}
	good := query(1, "\x01a\x00\x00\x01\x00\x01")
	if nameAnswer(good) == nil {
		t.Fatal("a query has no answer")
	}
	response := bytes.Clone(good)
	response[2] |= 0x80
	for name, msg := range map[string][]byte{
		"nothing":          nil,
		"half a header":    good[:6],
		"a response":       response,
		"two questions":    query(2, "\x01a\x00\x00\x01\x00\x01"),
		"a cut question":   good[:len(good)-1],
		"an endless label": query(1, "\xffa\x00\x00\x01\x00\x01"),
		"an endless name":  query(1, strings.Repeat("\x01a", 100)),
	} {
		if got := nameAnswer(msg); got != nil {
			t.Errorf("%s: %x", name, got)
		}
	}
}

func TestNeighboursAgreeOnWhenTheyCompute(t *testing.T) {
	n := Neighbours{Busy: 60 * time.Millisecond, Every: 600 * time.Millisecond}
	slot := time.Unix(1_000_000_200, 0).Truncate(n.Every)
	begin := n.begin(slot)
	var begins []time.Duration
	for i := range 100 {
		now := slot.Add(time.Duration(i) * n.Every)
		b := n.begin(now)
		if b.Sub(now) < 0 || b.Add(n.Busy).After(now.Add(n.Every)) {
			t.Errorf("interval %d: it begins after %v", i, b.Sub(now))
		}
		begins = append(begins, b.Sub(now))
	}
	slices.Sort(begins)
	if len(slices.Compact(begins)) < 90 {
		t.Errorf("the beginnings are not at random: %v", begins)
	}
	if b := n.begin(begin.Add(-time.Nanosecond)); !b.Equal(begin) {
		t.Errorf("two neighbours begin at %v and %v", begin, b)
	}
	if b := n.begin(begin); !b.After(begin.Add(n.Busy)) {
		t.Errorf("it computes at %v and again at %v", begin, b)
	}
}

func TestAReaderPausesBetweenReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pausing{Writer: io.Discard, Reader: Reader{Pause: 100 * time.Millisecond, Every: time.Second}}
		var pauses []time.Duration
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
			before := time.Now()
			fmt.Fprintln(&p, "a line")
			if d := time.Since(before); d > 0 {
				pauses = append(pauses, d)
			}
		}
		if len(pauses) < 40 || len(pauses) > 75 {
			t.Errorf("%d pauses in a minute", len(pauses))
		}
		for _, d := range pauses {
			if d != p.Pause {
				t.Errorf("a pause of %v", d)
			}
		}
	})
}

func TestAPeerGreetsWithTLS(t *testing.T) {
	p := Peer{Handshake: time.Millisecond}
	settings, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newPeer([]string{string(settings)})
	if err != nil {
		t.Fatal(err)
	}
	go r.run()
	h, err := newExchange(t.Context(), map[string]string{"bank": p.scheme() + r.address.String()})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/rates", nil))
	if w.Code != http.StatusOK {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestAMissingNeedIsSaidInOneLine(t *testing.T) {
	r := &Running{}
	_, err := r.spawn(t.Context(), process{name: "steady", env: []string{groupEnv + "=" + t.TempDir() + "/none"}})
	if !errors.Is(err, ErrNotPossible) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
	if err := r.end(); err != nil {
		t.Errorf("and again at the end: %v", err)
	}
}

func TestAnUnknownSettingOfANeighbourIsAnError(t *testing.T) {
	for _, arg := range []string{"", "{}", `{"Busy":2,"Every":1}`} {
		if _, err := newNeighbour(t.Context(), []string{arg}); err == nil {
			t.Errorf("%q is accepted", arg)
		}
	}
}
