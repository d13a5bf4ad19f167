package gotrace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	rtrace "runtime/trace"
	"slices"
	"strings"
	"testing"

	"golang.org/x/exp/trace"
)

// rewrite is Rewrite of what is in memory.
func rewrite(data []byte, rename func(Use, string) string) ([]byte, Rewritten, error) {
	var out bytes.Buffer
	done, err := Rewrite(&out, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, rename)
	return out.Bytes(), done, err
}

func TestOnlyStringsOfARewrittenTraceDiffer(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			const mark = "~~~~~~~~"
			marked, done, err := rewrite(f.data, func(u Use, s string) string {
				if u&UseWord != 0 || s == "" || len(s)+len(mark) > MaxString {
					return s
				}
				return s + mark
			})
			if err != nil || done.Strings == 0 || done.Cut != 0 || done.Dropped != 0 {
				t.Fatalf("%+v, %v", done, err)
			}
			if len(marked) < len(f.data)+20*len(mark) {
				t.Fatalf("%d bytes from %d", len(marked), len(f.data))
			}
			want, wantErr := fromOracle(f.data)
			for reader, read := range map[string]func([]byte) ([]told, error){"ours": fromReader, "x/exp/trace": fromOracle} {
				got, gotErr := read(marked)
				if wantErr != io.EOF || gotErr != io.EOF {
					t.Fatalf("%s: %v and %v", reader, wantErr, gotErr)
				}
				seen := false
				for i := range got {
					seen = seen || strings.Contains(got[i].text, mark)
					got[i].text = strings.ReplaceAll(got[i].text, mark, "")
				}
				if !seen || !slices.Equal(got, want) {
					t.Errorf("%s: %d events, %d before; marked: %t", reader, len(got), len(want), seen)
				}
			}
		})
	}
}

// function is one that runs while a region of its name does.
const function = "runtime.GC"

// What a string is used for decides about it, so each use has to be seen.
func TestUsesOfStringsAreKnown(t *testing.T) {
	data := record(t, func() {
		ctx, task := rtrace.NewTask(context.Background(), "my task")
		rtrace.WithRegion(ctx, function, func() { runtime.GC() })
		rtrace.WithRegion(ctx, "sync", func() { rtrace.Log(ctx, "my category", "my text") }) // "sync" is also why goroutines wait
		activity()
		task.End()
	})
	uses := map[string]Use{}
	shared := map[Use]int{}
	if _, _, err := rewrite(data, func(u Use, s string) string {
		if s == function {
			shared[u]++
		} else if u&inFrames == 0 || u&^inFrames == 0 {
			uses[s] |= u
		} else {
			t.Errorf("%q: %b", s, u)
		}
		return s
	}); err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]Use{
		"my task": UseName, "my category": UseLog, "my text": UseLog, "sync": UseName | UseWord, "forever": 0,
		"sync.(*Mutex).Lock": UseFunc,
	} {
		if got, ok := uses[s]; ok && got != want || !ok && want != 0 {
			t.Errorf("%q: %b, want %b", s, got, want)
		}
	}
	if shared[UseFunc] == 0 || shared[UseName] == 0 || len(shared) != 2 {
		t.Errorf("a function and a region of one name: %v", shared)
	}
	marked, _, err := rewrite(data, func(u Use, s string) string {
		switch u {
		case UseLog:
			return "L"
		case UseName:
			return "N"
		}
		return s
	})
	if err != nil {
		t.Fatal(err)
	}
	logs, regions, stacks := 0, 0, 0
	r, err := trace.NewReader(bytes.NewReader(marked))
	for err == nil {
		var e trace.Event
		if e, err = r.ReadEvent(); err != nil {
			break
		}
		switch e.Kind() {
		case trace.EventLog:
			if l := e.Log(); l.Category != "L" || l.Message != "L" {
				t.Errorf("%+v", l)
			}
			logs++
		case trace.EventRegionBegin:
			if e.Region().Type == "N" {
				regions++
			}
		}
		for f := range e.Stack().Frames() {
			if f.Func == function {
				stacks++
			}
		}
	}
	if err != io.EOF || logs != 1 || regions < 2 || stacks == 0 {
		t.Errorf("%d logs, %d regions, %d stacks, %v", logs, regions, stacks, err)
	}
}

func TestACutTraceStaysCut(t *testing.T) {
	data := unzip(t, "testdata/go1.25.trace.gz")
	same := func(_ Use, s string) string { return s }
	for _, n := range []int{len(data) - 1, len(data) / 2, len(data) / 3, headerLen + 1, headerLen} {
		out, done, err := rewrite(data[:n], same)
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if want := n - headerLen; done.Cut < 0 || done.Cut > int64(want) || n == len(data)-1 && done.Cut == 0 {
			t.Errorf("cut at %d: %+v", n, done)
		}
		want, wantErr := drain(data[:n])
		got, gotErr := drain(out)
		if got != want || (wantErr == io.EOF) != (gotErr == io.EOF) {
			t.Errorf("cut at %d: %d events (%v), %d before (%v)", n, got, gotErr, want, wantErr)
		}
	}
}

func TestNothingUnknownIsCopied(t *testing.T) {
	head := "go 1.22 trace\x00\x00\x00"
	batch := func(data string) string { return head + "\x01\x01\x00\x00" + string(rune(len(data))) + data }
	for name, c := range map[string]struct {
		data  string
		wrong error
	}{
		"an older format":            {"go 1.21 trace\x00\x00\x00", ErrFormat},
		"a newer format":             {"go 1.27 trace\x00\x00\x00", ErrFormat},
		"something else":             {"PK\x03\x04 and some more of it", ErrFormat},
		"nothing":                    {"", ErrFormat},
		"no batch":                   {head + "secret", nil},
		"a huge batch":               {head + "\x01\x01\x00\x00\xff\xff\xff\x0f", nil},
		"generation 0":               {head + "\x01\x00\x00\x00\x00", nil},
		"an unknown event":           {batch("\x7fsecret"), nil},
		"a text among events":        {batch("\x0b\x00secret"), nil},
		"a string that is too long":  {batch("\x04\x05\x01\xff\x07"), nil},
		"a number without an end":    {batch("\x0b\xff"), nil},
		"a stack of too many frames": {batch("\x02\x03\x01\xff\x7f"), nil},
		"a text among stacks":        {batch("\x02secret"), nil},
		"a text among samples":       {batch("\x06secret"), nil},
		"a text among strings":       {batch("\x04secret"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := rewrite([]byte(c.data), func(Use, string) string { return "" })
			var bad *CorruptError
			if c.wrong != nil && !errors.Is(err, c.wrong) || c.wrong == nil && !errors.As(err, &bad) || strings.Contains(string(out), "secret") {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
}

// A table that has become too long for a batch goes on in another one.
func TestTablesGrowBeyondABatch(t *testing.T) {
	data := []byte("go 1.22 trace\x00\x00\x00\x01\x01\x00\x00")
	table := []byte{evStrings}
	for id := range uint64(1000) {
		table = append(binary.AppendUvarint(append(table, evString), id), 2, 'a', 'b')
	}
	data = append(binary.AppendUvarint(data, uint64(len(table))), table...)
	out, done, err := rewrite(data, func(_ Use, s string) string { return strings.Repeat(s, 300) })
	if err != nil || done.Strings != 1000 || len(out) < 600_000 {
		t.Fatalf("%d bytes, %+v, %v", len(out), done, err)
	}
	again, done, err := rewrite(out, func(_ Use, s string) string { return s[:2] })
	if err != nil || done.Strings != 1000 || len(again) < len(data) || len(again) > len(data)+100 {
		t.Errorf("%d bytes of %d, %+v, %v", len(again), len(data), done, err)
	}
}

func TestBatchesOfExperimentsAreDropped(t *testing.T) {
	data := "go 1.23 trace\x00\x00\x00\x31\x01\x01\x00\x00\x06secret"
	out, done, err := rewrite([]byte(data), func(Use, string) string { return "" })
	if err != nil || done.Dropped != 1 || len(out) != headerLen {
		t.Errorf("%q, %+v, %v", out, done, err)
	}
}

// FuzzRewrite rewrites anything: what comes out has none of the strings that went in, is read
// again, and is as long a trace as before.
func FuzzRewrite(f *testing.F) {
	seed, err := os.ReadFile("testdata/tiny.trace")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:len(seed)/2])
	f.Add([]byte("go 1.26 trace\x00\x00\x00\x01\x01\x00\x00\x05\x04\x05\x01\x02ab\x34"))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, done, err := rewrite(data, func(_ Use, s string) string { return s + "~" })
		var bad *CorruptError
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.As(err, &bad) {
				t.Fatal(err)
			}
			return
		}
		again, twice, err := rewrite(out, func(_ Use, s string) string { return strings.TrimSuffix(s, "~") })
		if err != nil || twice.Strings != done.Strings {
			t.Fatalf("%+v after %+v, %v", twice, done, err)
		}
		want, _ := drain(data)
		if got, _ := drain(again); done.Dropped == 0 && got != want {
			t.Fatalf("%d events, %d before", got, want)
		}
	})
}
