package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func encode(t *testing.T, d *Diagnosis) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := JSON(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTheJSONDocumentSurvivesARoundTrip(t *testing.T) {
	for _, d := range []*Diagnosis{causeVerdict(), healthy(), lookAlikes(), levelFinding(), mixed(), {}} {
		before := fmt.Sprintf("%+v", d)
		doc := encode(t, d)
		if after := fmt.Sprintf("%+v", d); after != before {
			t.Errorf("%.30s: JSON changed the diagnosis", d.Sentence)
		}
		var got Diagnosis
		if err := json.Unmarshal(doc, &got); err != nil {
			t.Fatal(err)
		}
		if want := complete(d); !reflect.DeepEqual(&got, want) {
			t.Errorf("%.30s:\ngot  %+v\nwant %+v", d.Sentence, &got, want)
		}
		if again := encode(t, &got); !bytes.Equal(again, doc) {
			t.Errorf("%.30s: encoding again differs", d.Sentence)
		}
	}
}

func TestEscapingKeepsHostileStringsAndShowsNothing(t *testing.T) {
	d := hostile()
	doc := encode(t, d)
	for _, r := range string(doc) {
		if r != '\n' && r != '\u0334' && !visible(r) && !strings.ContainsRune(attack, r) {
			t.Errorf("rune %U", r)
		}
		if strings.ContainsRune("\x1b\x7f\u009b\u202e\u2066\u200b", r) {
			t.Errorf("rune %U stands in the document", r)
		}
	}
	var got Diagnosis
	if err := json.Unmarshal(doc, &got); err != nil {
		t.Fatal(err)
	}
	// JSON has no bytes, only text: what is not UTF-8 becomes U+FFFD.
	if want := string([]rune(attack)); got.Tool != want {
		t.Errorf("got %q, want %q", got.Tool, want)
	}
}

func TestListsAreNeverNull(t *testing.T) {
	one := &Diagnosis{}
	fill(reflect.ValueOf(one).Elem(), "", 0, 0, 1)
	clear := func(d *Diagnosis) { // lists of the elements, too
		d.Findings[0].Evidence, d.Findings[0].Fix, d.ConsistentWith[0].Causes = nil, nil, nil
	}
	clear(one)
	for _, d := range []*Diagnosis{{}, one} {
		if doc := encode(t, d); bytes.Contains(doc, []byte("null")) {
			// Pointers are all set in one; in the empty one there are none to write.
			t.Errorf("null in\n%s", doc)
		}
	}
}

// additive lists what the document has beyond the text of the design.
var additive = []string{
	".check", ".check.max_depth", ".check.requests", ".check.worst_ns",
	".consistent_with[].contrast", ".consistent_with[].evidence", ".consistent_with[].summary",
	".consistent_with[].where", ".consistent_with[].where.file", ".consistent_with[].where.function", ".consistent_with[].where.line",
	".cost.asked", ".cost.asked[].commands", ".cost.asked[].ns", ".cost.asked[].what", ".cost.probe_cpu",
	".findings[].p99_ns", // of the same requests, where an endpoint is left out
	".kernel", ".kernel.alloc", ".kernel.alloc.bytes", ".kernel.alloc.from_ns", ".kernel.alloc.hit_ns", ".kernel.alloc.hits", ".kernel.alloc.lost",
	".kernel.alloc.max_size", ".kernel.alloc.samples", ".kernel.alloc.short", ".kernel.alloc.sites", ".kernel.alloc.sites[].bytes",
	".kernel.alloc.sites[].samples", ".kernel.alloc.sites[].stack", ".kernel.alloc.to_ns",
	".kernel.cgo", ".kernel.cgo.from_ns", ".kernel.cgo.functions", ".kernel.cgo.functions[].back", ".kernel.cgo.functions[].back.calls",
	".kernel.cgo.functions[].back.max_ns", ".kernel.cgo.functions[].back.ns", ".kernel.cgo.functions[].calls", ".kernel.cgo.functions[].go", ".kernel.cgo.functions[].goroutine",
	".kernel.cgo.functions[].histogram", ".kernel.cgo.functions[].max_ns", ".kernel.cgo.functions[].name", ".kernel.cgo.functions[].ns",
	".kernel.cgo.functions[].stack", ".kernel.cgo.hit_ns", ".kernel.cgo.hits", ".kernel.cgo.lost", ".kernel.cgo.more", ".kernel.cgo.short", ".kernel.cgo.to_ns",
	".kernel.clock", ".kernel.clock.callers", ".kernel.clock.callers[].n", ".kernel.clock.callers[].stack", ".kernel.clock.calls",
	".kernel.clock.from_ns", ".kernel.clock.max_ns", ".kernel.clock.ns", ".kernel.clock.short", ".kernel.clock.to_ns",
	".kernel.func", ".kernel.func.calls", ".kernel.func.from_ns", ".kernel.func.functions", ".kernel.func.hit_ns", ".kernel.func.hits", ".kernel.func.lost",
	".kernel.func.short", ".kernel.func.skipped", ".kernel.func.to_ns", ".kernel.func.unended",
	".kernel.func_times", ".kernel.func_times.ended", ".kernel.func_times.max_ns", ".kernel.func_times.oldest_ns", ".kernel.func_times.open",
	".kernel.func_times.p50_ns", ".kernel.func_times.p90_ns", ".kernel.func_times.p99_ns",
	".kernel.gc", ".kernel.gc.from_ns", ".kernel.gc.hit_ns", ".kernel.gc.hits", ".kernel.gc.lost", ".kernel.gc.max_ns", ".kernel.gc.n", ".kernel.gc.ns",
	".kernel.gc.short", ".kernel.gc.to_ns",
	".kernel.gosched", ".kernel.gosched.from_ns", ".kernel.gosched.goroutine", ".kernel.gosched.histogram", ".kernel.gosched.hit_ns", ".kernel.gosched.hits",
	".kernel.gosched.lost", ".kernel.gosched.max_ns", ".kernel.gosched.n", ".kernel.gosched.ns", ".kernel.gosched.short", ".kernel.gosched.to_ns",
	".kernel.run_queue", ".kernel.run_queue.columns", ".kernel.run_queue.from_ns", ".kernel.run_queue.step_ns",
	".kernel.tcp", ".kernel.tcp.connections", ".kernel.tcp.connections[].again", ".kernel.tcp.connections[].at_ns", ".kernel.tcp.connections[].local", ".kernel.tcp.connections[].remote",
	".kernel.tcp.connections[].resets_got", ".kernel.tcp.connections[].resets_sent", ".kernel.tcp.connections[].syns", ".kernel.tcp.from_ns",
	".kernel.tcp.lost", ".kernel.tcp.more", ".kernel.tcp.other_resets", ".kernel.tcp.others", ".kernel.tcp.to_ns",
	".level", ".level.against", ".level.excess_ns", ".level.median_ns", ".level.other_share", ".level.wait_share",
	".lost.advice", ".lost.detail", ".mix.asks", ".notes",
	".requests.arrival_ns", ".requests.classes", ".requests.classes[].class", ".requests.classes[].count", ".requests.classes[].p99_ns",
	".requests.endpoints", ".requests.endpoints[].count", ".requests.endpoints[].endpoint", ".requests.endpoints[].max_ns", ".requests.endpoints[].p50_ns",
	".requests.endpoints[].p99_ns", ".requests.endpoints[].presumed", ".requests.endpoints[].slow",
	".requests.excluded[].p99_ns", ".requests.health_checks", ".requests.perhaps", ".requests.typical.episodes", ".ruled_out[].absent", ".ruled_out[].by_share", ".ruled_out[].fits", ".sentence", ".service", ".stolen_share",
	".target.file", ".target.gomaxprocs",
	".unnamed[].causes", ".unnamed[].where", ".unnamed[].where.file", ".unnamed[].where.function", ".unnamed[].where.line",
	".windows", ".windows[].cause", ".windows[].file", ".windows[].from_ns", ".windows[].max_ns", ".windows[].p50_ns", ".windows[].p99_ns", ".windows[].requests", ".windows[].share", ".windows[].to_ns", ".windows[].verdict", ".windows[].worst",
}

func TestFieldNamesAreThoseOfTheDesign(t *testing.T) {
	doc, err := os.ReadFile("testdata/design-section-6.json")
	if err != nil {
		t.Fatal(err)
	}
	strict := json.NewDecoder(bytes.NewReader(doc))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&Diagnosis{}); err != nil {
		t.Errorf("the design's example does not decode: %v", err)
	}
	var example any
	if err := json.Unmarshal(doc, &example); err != nil {
		t.Fatal(err)
	}
	full := &Diagnosis{}
	fill(reflect.ValueOf(full).Elem(), "x", 1, 1, 1)
	var written any
	if err := json.Unmarshal(encode(t, full), &written); err != nil {
		t.Fatal(err)
	}
	want, got := paths("", example), paths("", written)
	for _, p := range want {
		if !slices.Contains(got, p) {
			t.Errorf("%s of the design is not written", p)
		}
	}
	var beyond []string
	for _, p := range got {
		if !slices.Contains(want, p) {
			beyond = append(beyond, p)
		}
	}
	if !slices.Equal(beyond, additive) {
		t.Errorf("fields beyond the design:\ngot  %q\nwant %q", beyond, additive)
	}
}

// paths returns the sorted paths of all fields below v.
func paths(at string, v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			out = append(out, at+"."+k)
			out = append(out, paths(at+"."+k, e)...)
		}
	case []any:
		for _, e := range v {
			out = append(out, paths(at+"[]", e)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
