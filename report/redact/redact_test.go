package redact

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/trace"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/pprof/profile"
	exptrace "golang.org/x/exp/trace"

	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/internal/unpack"
)

// secret stands in every text of the incident that tests make.
const secret = "zorblatt"

// fill puts the secret into every text that v holds, and one element into every list.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(k)
		fill(e)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, e)
	case reflect.String:
		v.SetString(secret)
	}
}

func filled[T any]() *T {
	v := new(T)
	fill(reflect.ValueOf(v))
	return v
}

func jsonLines(t testing.TB, list ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, x := range list {
		if err := line(&b, x); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// zorblattTrace is a trace of a program whose names are secret.
func zorblattTrace(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	zorblatt()
	trace.Stop()
	return b.Bytes()
}

func zorblatt() {
	ctx, task := trace.NewTask(context.Background(), "GET /zorblatt/{id}")
	defer task.End()
	c := make(chan int)
	go func() { c <- 1 }()
	trace.WithRegion(ctx, "zorblatt region", func() { trace.Log(ctx, "zorblatt key", "zorblatt value"); <-c })
	trace.WithRegion(ctx, "sync", func() {})
}

func secretProfile(t testing.TB) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: secret}}, PeriodType: &profile.ValueType{Type: secret, Unit: "count"},
		Comments: []string{secret}, DropFrames: secret, KeepFrames: secret, DocURL: "http://" + secret, DefaultSampleType: secret}
	p.Mapping = []*profile.Mapping{{ID: 1, File: "/opt/" + secret, BuildID: secret, KernelRelocationSymbol: secret}}
	p.Function = []*profile.Function{{ID: 1, Name: "main." + secret, SystemName: secret + "/x.F", Filename: "/" + secret + "/x.go"}}
	p.Location = []*profile.Location{{ID: 1, Mapping: p.Mapping[0], Address: 7, Line: []profile.Line{{Function: p.Function[0], Line: 42}}}}
	p.Sample = []*profile.Sample{{Location: p.Location, Value: []int64{5}, Label: map[string][]string{"tenant " + secret: {secret}},
		NumLabel: map[string][]int64{secret: {1}, "bytes": {9}}, NumUnit: map[string][]string{secret: {secret}, "bytes": {"bytes"}}}}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// secretMembers are all members that an incident may hold, full of secrets.
func secretMembers(t testing.TB) map[string][]byte {
	static, after := filled[host.Static](), filled[host.After]()
	static.Schema = host.Schema + "." + secret
	header, counted := filled[events.Header](), filled[events.After]()
	header.Schema, header.Fields = events.Schema+"."+secret, append(slices.Clone(events.Fields), secret)
	header.CPUs = 1
	counted.TCP.Connections[0].Local = "10.11.12.13:6060"
	server := filled[dependency.Server]()
	server.Schema, server.Kind = dependency.Schema+"."+secret, dependency.Postgres
	cache := *server
	cache.Kind, cache.Calls = dependency.Redis, []dependency.Call{{Name: "GET"}, {Name: secret + "|get"}, {Name: "client|" + secret}}
	m := map[string][]byte{
		evidence.MemberTrace:      zorblattTrace(t),
		evidence.MemberHost:       jsonLines(t, host.Line{Static: static}, host.Line{Sample: &host.Sample{MonoNS: 5, Threads: []host.Thread{{TID: 77}}}}, map[string]string{"later": secret}, host.Line{After: after}),
		evidence.MemberKernel:     slices.Concat(jsonLines(t, map[string]any{"header": header, secret: secret}), []byte("[17,1,99000,5000,20000,20000,1,-1]\n{\"call\":[17,0,99000,120000]}\n{\"zorblatt\":1}\n"), jsonLines(t, map[string]any{"after": counted})),
		evidence.MemberDependency: jsonLines(t, server, &cache),
		evidence.MemberAppLog:     []byte("zorblatt began\nzorblatt ended\nzorblatt began\n"),
		evidence.MemberDiagnosis:  []byte(`{"sentence":"zorblatt"}`),
		evidence.MemberMetrics:    []byte(`{"zorblatt":1}`),
		evidence.MemberWire:       []byte("zorblatt"),
	}
	for _, name := range evidence.MemberNames() {
		if strings.HasSuffix(name, ".pb.gz") {
			m[name] = secretProfile(t)
		}
	}
	return m
}

// write writes an incident and opens it.
func write(t testing.TB, members map[string][]byte, m evidence.Manifest) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.whylate")
	w, err := evidence.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for name, data := range members {
		if err := put(w, name, func(to io.Writer) error { _, err := to.Write(data); return err }); err != nil {
			t.Fatal(err)
		}
	}
	w.Edit(func(to *evidence.Manifest) { m.Recorded, *to = to.Recorded, m })
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// redacted is the copy of an incident.
func redacted(t testing.TB, path string, o Options) (*Result, string, error) {
	t.Helper()
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	out := filepath.Join(t.TempDir(), "out.whylate")
	w, err := evidence.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	r, err := Incident(in, w, o)
	if err != nil {
		return nil, "", err
	}
	return r, out, w.Close()
}

// contents are the members of an incident as bytes, unpacked to the last.
func contents(t testing.TB, path string) map[string][]byte {
	t.Helper()
	out, err := unpack.Zip(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNoNameSurvivesInAnyMember(t *testing.T) {
	m := *filled[evidence.Manifest]()
	m.Schema = evidence.Schema
	m.Target.URL, m.Target.Program = "http://zorblatt:6060/zorblatt/debug/pprof", "zorblatt"
	m.Target.Env = map[string]string{"GODEBUG": "zorblatt=1,gctrace=zorblatt,zorblatt", "GOMAXPROCS": "zorblatt", "GOGC": "zorblatt", "GOMEMLIMIT": "zorblatt"}
	members := secretMembers(t)
	path := write(t, members, m)
	for name, data := range contents(t, path) {
		if !bytes.Contains(bytes.ToLower(data), []byte(secret)) {
			t.Errorf("%s holds no secret before", name)
		}
	}
	r, out, err := redacted(t, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := contents(t, out)
	for name, data := range got {
		for _, s := range []string{secret, "whylate/whylate", "report/redact", "10.11.12.13"} {
			if i := bytes.Index(bytes.ToLower(data), []byte(s)); i >= 0 {
				t.Errorf("%s holds %q: %q", name, s, data[max(0, i-40):min(len(data), i+40)])
			}
		}
	}
	dropped := []string{evidence.MemberDiagnosis, evidence.MemberMetrics, evidence.MemberWire}
	for name := range members {
		if _, ok := got[name]; ok == slices.Contains(dropped, name) {
			t.Errorf("%s is there: %t; left out: %v", name, ok, r.Dropped)
		}
	}
	for _, x := range r.Members {
		if x.Hashed == 0 {
			t.Errorf("nothing was hashed in %s", x.Name)
		}
	}
	if r.Names[hashOf(r, secret)] != secret {
		t.Error("the names do not hold the secret")
	}
	whole(t, out)
}

func hashOf(r *Result, name string) string {
	for h, s := range r.Names {
		if s == name {
			return h
		}
	}
	return ""
}

// whole reads each member with its own reader.
func whole(t *testing.T, path string) {
	t.Helper()
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	open := func(name string) io.Reader {
		r, err := in.Member(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	if h, err := host.Read(open(evidence.MemberHost)); err != nil || h.After == nil || len(h.After.Sockets) != 1 || len(h.After.Peers) != 1 {
		t.Errorf("host: %v", err)
	}
	if k, err := events.Read(open(evidence.MemberKernel)); err != nil || k.After == nil || len(k.Stretches) != 1 || len(k.Calls) != 1 {
		t.Errorf("kernel: %v", err)
	}
	d, err := dependency.Read(open(evidence.MemberDependency))
	if err != nil || len(d) != 2 || d[1].Calls[0].Name != "GET" || !strings.HasSuffix(d[1].Calls[1].Name, "|get") && !strings.Contains(d[1].Calls[1].Name, "|x") {
		t.Errorf("dependencies: %v, %+v", err, d)
	}
	p, err := profile.Parse(open(evidence.MemberCPU))
	if err != nil || p.SampleType[0].Type != "cpu" || p.Sample[0].Value[0] != 5 || p.Sample[0].NumLabel["bytes"][0] != 9 || p.Function[0].Name[:5] != "main." || p.Location[0].Line[0].Line != 42 {
		t.Errorf("profile: %v, %v", err, p)
	}
	log, err := io.ReadAll(open(evidence.MemberAppLog))
	if lines := strings.Split(string(log), "\n"); err != nil || len(lines) != 4 || lines[0] != lines[2] || lines[0] == lines[1] {
		t.Errorf("log: %q, %v", log, err)
	}
	for _, x := range in.Manifest.Recorded {
		if b := contents(t, path)[x.Member]; !strings.HasSuffix(x.Member, ".gz") && int64(len(b)) != x.Bytes {
			t.Errorf("%s has %d bytes, the manifest says %d", x.Member, len(b), x.Bytes)
		}
	}
	if !slices.Contains(in.Manifest.Notes, Note) {
		t.Error("the manifest does not say that it is a copy")
	}
}

// What a stranger computes from a copy is what its owner would: the same events at the same
// times, and the same names where the same ones were.
func TestTheTraceOfACopyIsTheSame(t *testing.T) {
	data := zorblattTrace(t)
	_, out, err := redacted(t, write(t, map[string][]byte{evidence.MemberTrace: data}, evidence.Manifest{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, got := oracle(t, data), oracle(t, contents(t, out)[evidence.MemberTrace])
	if len(want) < 10 || !slices.Equal(want, got) {
		t.Errorf("%d events, %d before", len(got), len(want))
	}
}

// oracle tells what x/exp/trace reads, without names.
func oracle(t *testing.T, data []byte) (out []string) {
	t.Helper()
	r, err := exptrace.NewReader(bytes.NewReader(data))
	for err == nil {
		var e exptrace.Event
		if e, err = r.ReadEvent(); err == nil {
			text := fmt.Sprint(e.Time(), e.Kind(), e.Goroutine(), e.Proc(), e.Thread())
			for f := range e.Stack().Frames() {
				text += fmt.Sprint(" ", f.PC, f.Line)
			}
			if e.Kind() == exptrace.EventStateTransition {
				text += e.StateTransition().Reason
			}
			out = append(out, text)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return out
}

func TestTheSameSaltMakesCopiesComparable(t *testing.T) {
	path := write(t, map[string][]byte{evidence.MemberAppLog: []byte("zorblatt\n")}, evidence.Manifest{})
	logs := map[string][]string{}
	for _, salt := range []string{"a", "a", "b", "", ""} {
		_, out, err := redacted(t, path, Options{Salt: salt})
		if err != nil {
			t.Fatal(err)
		}
		logs[salt] = append(logs[salt], string(contents(t, out)[evidence.MemberAppLog]))
	}
	if logs["a"][0] != logs["a"][1] || logs["a"][0] == logs["b"][0] || logs[""][0] == logs[""][1] || logs[""][0] == logs["a"][0] {
		t.Errorf("%v", logs)
	}
}

func TestMembersOfUnknownNamesAreLeftOut(t *testing.T) {
	path := write(t, map[string][]byte{evidence.MemberAppLog: []byte("zorblatt\n")}, evidence.Manifest{})
	members := contents(t, path)
	members["zorblatt.txt"] = []byte(secret)
	path = zipIncident(t, members)
	r, out, err := redacted(t, path, Options{})
	if err != nil || len(r.Dropped) != 1 || strings.Contains(fmt.Sprint(r.Dropped), secret) || len(contents(t, out)) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// What cannot be read is left out, for the diagnosis does not use it either; a trace is what the
// copy is for.
func TestMembersThatCannotBeReadAreLeftOut(t *testing.T) {
	r, out, err := redacted(t, write(t, map[string][]byte{
		evidence.MemberTrace: zorblattTrace(t),
		evidence.MemberHost:  []byte("zorblatt\n\n"), evidence.MemberKernel: []byte(`{"header":{"schema":"zorblatt/1"}}` + "\n"),
		evidence.MemberDependency: []byte("zorblatt\n\n"), evidence.MemberCPU: []byte("zorblatt"), evidence.MemberBlock: zipped(t, "zorblatt"),
		evidence.MemberAppLog: bytes.Repeat([]byte{'z'}, maxLogLine+1),
	}, evidence.Manifest{}), Options{})
	if err != nil || len(r.Dropped) != 6 || strings.Contains(fmt.Sprint(r.Dropped), secret) || len(contents(t, out)) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	_, _, err = redacted(t, write(t, map[string][]byte{evidence.MemberTrace: []byte("go 1.26 trace\x00\x00\x00zorblatt")}, evidence.Manifest{}), Options{})
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a damaged trace: %v", err)
	}
}

// A member whose sum is another one is such a member, too.
func TestADamagedMemberIsLeftOut(t *testing.T) {
	path := write(t, map[string][]byte{evidence.MemberTrace: zorblattTrace(t), evidence.MemberCPU: secretProfile(t)}, evidence.Manifest{})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := false
	for at := range b { // the sum stands 16 bytes into an entry of the directory, the name 46
		if bytes.HasPrefix(b[at:], []byte("PK\x01\x02")) && bytes.HasPrefix(b[at+46:], []byte(evidence.MemberCPU)) {
			b[at+16] ^= 1
			changed = true
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil || !changed {
		t.Fatalf("changed: %v, %v", changed, err)
	}
	r, out, err := redacted(t, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, out); len(r.Dropped) != 1 || r.Dropped[0].What != evidence.MemberCPU || got[evidence.MemberCPU] != nil || got[evidence.MemberTrace] == nil {
		t.Errorf("%+v, %d members", r.Dropped, len(got))
	}
}

// zipIncident writes an incident past the writer, which bounds members and knows their names.
func zipIncident(t *testing.T, members map[string][]byte) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, data := range members {
		f, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "a.whylate")
	if err := errors.Join(z.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// failing is a file of which a part cannot be read any more.
type failing struct {
	io.ReaderAt
	from, to int64
}

func (f *failing) ReadAt(p []byte, at int64) (int, error) {
	if at >= f.from && at < f.to {
		return 0, &fs.PathError{Op: "read", Path: "a.whylate", Err: syscall.EIO}
	}
	return f.ReaderAt.ReadAt(p, at)
}

// That a file cannot be read says nothing of what is in it: a copy would lack what is there.
func TestADiskThatFailsIsAnError(t *testing.T) {
	data, err := os.ReadFile(write(t, map[string][]byte{evidence.MemberAppLog: bytes.Repeat([]byte("zorblatt\n"), 5000)}, evidence.Manifest{}))
	if err != nil {
		t.Fatal(err)
	}
	const header = 30 // of a member in a zip, and behind it its name (APPNOTE.TXT 4.3.7)
	for _, f := range []failing{{from: 0, to: header}, {from: header, to: 100}} {
		bad := &failing{ReaderAt: bytes.NewReader(data)}
		in, err := evidence.Read(bad, int64(len(data)), evidence.Options{})
		if err != nil {
			t.Fatal(err)
		}
		bad.from, bad.to = f.from, f.to
		w, err := evidence.Create(filepath.Join(t.TempDir(), "out.whylate"))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		if r, err := Incident(in, w, Options{}); !errors.Is(err, syscall.EIO) {
			t.Errorf("from %d on: %+v, %v", f.from, r, err)
		}
	}
}

// A task is called like the address that the service listens on: the socket and the URL keep one.
func TestATaskCalledLikeAnAddressDoesNotSpoilTheSockets(t *testing.T) {
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	_, task := trace.NewTask(context.Background(), "10.20.30.40")
	task.End()
	trace.Stop()
	after := host.After{Sockets: []host.Socket{{Local: "10.20.30.40:6060", Remote: "10.20.30.41:5432", State: "ESTABLISHED"}}}
	_, out, err := redacted(t, write(t, map[string][]byte{
		evidence.MemberTrace: b.Bytes(),
		evidence.MemberHost:  jsonLines(t, map[string]any{"static": host.Static{Schema: host.Schema}}, map[string]any{"after": after}),
	}, evidence.Manifest{Target: evidence.Target{Kind: "pprof", URL: "http://10.20.30.40:6060"}}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := contents(t, out)
	if !regexp.MustCompile(`"local": *"2[45][0-9]\.`).Match(got[evidence.MemberHost]) || !regexp.MustCompile(`"url": *"http://2[45][0-9]\.`).Match(got[evidence.MemberManifest]) {
		t.Errorf("%s%s", got[evidence.MemberManifest], got[evidence.MemberHost])
	}
}

func zipped(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	z.Close()
	return b.Bytes()
}

func TestATraceAloneBecomesAnIncident(t *testing.T) {
	data := zorblattTrace(t)
	path := filepath.Join(t.TempDir(), "zorblatt.trace")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r, out, err := redacted(t, path, Options{})
	if err != nil || len(r.Members) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, b := range contents(t, out) {
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s holds the secret", name)
		}
	}
	if err := os.WriteFile(path, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := redacted(t, path, Options{}); err == nil {
		t.Error("half of it was taken for all")
	}
	// In an incident it was recorded so.
	r, out, err = redacted(t, write(t, map[string][]byte{evidence.MemberTrace: data[:len(data)-3]}, evidence.Manifest{}), Options{})
	if err != nil || len(r.Dropped) != 1 || bytes.Contains(contents(t, out)[evidence.MemberTrace], []byte(secret)) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestACopyCanBeCopied(t *testing.T) {
	m := *filled[evidence.Manifest]()
	m.Schema = evidence.Schema
	_, once, err := redacted(t, write(t, secretMembers(t), m), Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, twice, err := redacted(t, once, Options{})
	if err != nil || len(r.Dropped) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	var a, b evidence.Manifest
	if err := errors.Join(json.Unmarshal(contents(t, once)[evidence.MemberManifest], &a), json.Unmarshal(contents(t, twice)[evidence.MemberManifest], &b)); err != nil {
		t.Fatal(err)
	}
	if len(a.Notes) != len(b.Notes) || len(a.Recorded) != len(b.Recorded) {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// FuzzIncident redacts anything in the place of each member: no panic, and what was in it before
// and is no number, is not there afterwards.
func FuzzIncident(f *testing.F) {
	kinds := []string{evidence.MemberHost, evidence.MemberKernel, evidence.MemberDependency, evidence.MemberAppLog, evidence.MemberCPU}
	for name, data := range secretMembers(f) {
		if i := slices.Index(kinds, name); i >= 0 {
			f.Add(uint8(i), data)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		name := kinds[int(kind)%len(kinds)]
		r := newTest(t, "salt")
		var out bytes.Buffer
		var err error
		switch name {
		case evidence.MemberHost:
			err = r.host(&out, bytes.NewReader(data))
		case evidence.MemberKernel:
			err = r.kernel(&out, bytes.NewReader(data))
		case evidence.MemberDependency:
			err = r.dependency(&out, bytes.NewReader(data))
		case evidence.MemberAppLog:
			err = r.log(&out, bytes.NewReader(data))
		default:
			err = r.profile(&out, bytes.NewReader(data))
		}
		if err != nil {
			return
		}
		text := out.Bytes()
		if name == evidence.MemberCPU {
			z, err := gzip.NewReader(&out)
			if err != nil {
				t.Fatal(err)
			}
			if text, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s: %q", name, text)
		}
	})
}
