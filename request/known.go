package request

import (
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// known finds the requests of servers known by name.
func (d *finder) known() {
	for i := range d.t.Gs {
		g := timeline.GID(i)
		r := d.h.of[i]
		if r == nil {
			continue
		}
		switch {
		case r.name == rootHTTP:
			d.stands(g, "net/http", Connection)
			d.http1(g)
		case handlesHTTP2(r.name):
			d.stands(g, roleHTTP2, PerRequest)
			d.http2(g)
		case strings.HasPrefix(r.name, handlesHTTP3):
			d.quic = true
			d.http3(g)
		case strings.HasPrefix(r.name, grpcStreams):
			d.stands(g, roleUnary, PerRequest)
			d.grpc(g)
		case r.name == grpcWorker:
			d.grpcWorker(g)
		case d.h.home[i] == keyFast:
			d.connection(g, d.roleOf("fasthttp", Connection, r.name, keyFast), keyFast, answersPeer)
		}
	}
	d.handedStreams()
	d.wholeStreams()
}

const (
	roleHTTP2 = "net/http (HTTP/2)"
	roleHTTP3 = "quic-go (HTTP/3)"
	roleUnary = "grpc-go unary"
)

const (
	grpcStreams = "google.golang.org/grpc.(*Server).serveStreams.func"
	grpcWorker  = "google.golang.org/grpc.(*Server).serverWorker"
)

func handlesHTTP2(root string) bool {
	return strings.HasSuffix(root, "erverConn).runHandler") && http2(PackageOf(root))
}

// forOneRequest reports whether a known server starts a goroutine with this root for each request, which ends with it.
func forOneRequest(root string) bool {
	return handlesHTTP2(root) || strings.HasPrefix(root, handlesHTTP3) || strings.HasPrefix(root, grpcStreams)
}

// serves reports whether goroutines of this root belong to a known server or
// client library, which the generic rules must leave alone.
func serves(root string) bool {
	pkg := PackageOf(root)
	return clientOf(root) != 0 || http2(pkg) || pkg == "crypto/tls" || pkg == "net" ||
		pkg == "google.golang.org/grpc" || strings.HasPrefix(pkg, "google.golang.org/grpc/")
}

// http1 finds the requests of a connection of net/http's server.
func (d *finder) http1(g timeline.GID) {
	role := d.roleOf("net/http", Connection, rootHTTP, keyNone)
	d.streamedBefore(g)
	if d.h.home[g] == keyHTTP || d.servesAtOnce(&d.t.Gs[g]) {
		d.connection(g, role, keyHTTP, func(in *stackInfo) bool { return in.flags&answers != 0 })
	}
	d.strangers(g)
}

// strangers counts a connection that is no longer, or not yet again, one of
// HTTP: hijacked by its handler, or serving the observer all the time.
func (d *finder) strangers(g timeline.GID) {
	gr := &d.t.Gs[g]
	hijacks, observes, home := 0, false, false
	reads, writes := false, false
	for _, s := range gr.Blocked() {
		in := d.c.of(s.Stack)
		switch {
		case in.key == keyHTTP:
			if home = true; hijacks == 0 {
				return // the rest is counted by request
			}
		case in.flags&observer != 0:
			observes = true
		case in.foreign() && byNetwork(s):
			hijacks++
		case in.flags&(inHandler|httpBody|ofRequest) == inHandler|httpBody && byNetwork(s):
			reads = true
		case in.flags&(inHandler|answers) == inHandler && in.op == opWrite && in.client == 0:
			writes = true
		}
	}
	if reads && writes { // what it has of the connection goes on to read through net/http's reader
		hijacks++
	}
	switch {
	case observes && !home:
		d.exclude(classObserver, d.t.Gs[g].Start())
	case hijacks > 0 && !home:
		d.hijackers[g] = true
		d.exclude(classHijacked, d.t.Gs[g].Start())
	}
}

// http2 finds the request of a handler goroutine: from its birth until its last
// frame is written.
func (d *finder) http2(g timeline.GID) {
	gr := &d.t.Gs[g]
	if !gr.Born && !d.held(gr) || gr.Len() == 0 {
		if e := d.examine(g, 0, gr.Start(), gr.End()); e.flags&observer != 0 {
			d.exclude(classObserver, gr.Start())
		}
		d.streamedBefore(g)
		return
	}
	role := d.roleOf(roleHTTP2, PerRequest, d.h.of[g].name, keyNone)
	end := gr.End()
	if gr.Died {
		for _, s := range gr.Waits() {
			if d.c.of(s.Stack).flags&frameWritten != 0 && s.Waker != timeline.NoG {
				end = s.End
			}
		}
	}
	e := d.examine(g, 0, gr.Start(), gr.End())
	before, byNet := d.arrival(g)
	d.add(role, Request{Parts: d.parts(append(before, Part{g, gr.Start(), end})...), InFlight: !gr.Died, ByNetwork: byNet}, e)
}

// handlesHTTP3 begins the names of the functions that a connection's server starts: for each request, until it is answered, and
// for what else the connection needs, as long as that lives.
// Source: github.com/quic-go/quic-go/http3, v0.48 to v0.59.
const handlesHTTP3 = quicGo + "/http3.(*Server).handleConn.func"

const quicGo = "github.com/quic-go/quic-go"

// http3 finds the request of a goroutine that handles one: from its birth until its end.
func (d *finder) http3(g timeline.GID) {
	gr := &d.t.Gs[g]
	if gr.Len() == 0 || !d.handlesRequest(g) {
		return
	}
	d.stands(g, roleHTTP3, PerRequest)
	if !gr.Born && !d.held(gr) {
		return
	}
	e := d.examine(g, 0, gr.Start(), gr.End())
	d.add(d.roleOf(roleHTTP3, PerRequest, d.h.of[g].name, keyNone), Request{Parts: d.parts(Part{g, gr.Start(), gr.End()}), InFlight: !gr.Died}, e)
}

// handlesRequest reports whether a goroutine that quic-go started for a connection handles a request: by where it blocks, or because
// it was done without.
func (d *finder) handlesRequest(g timeline.GID) bool {
	gr, blocks := &d.t.Gs[g], false
	for _, s := range gr.Blocked() {
		if s.Stack == 0 {
			continue
		}
		blocks = true
		if slices.ContainsFunc(d.t.Stacks.Frames(s.Stack), func(f gotrace.Frame) bool {
			return strings.HasPrefix(f.Func, quicGo) && strings.Contains(f.Func, "andleRequest") // exported since v0.56
		}) {
			return true
		}
	}
	return !blocks && gr.Born && gr.Died
}

// arrival returns the parts of a request that came before the birth of its
// handler g: on the goroutine that read it from the connection and, if that is
// another one, on the one that gave birth to g.
func (d *finder) arrival(g timeline.GID) ([]Part, bool) {
	gr := &d.t.Gs[g]
	parent, at := gr.Creator, gr.Start()
	if parent < 0 {
		return nil, false
	}
	if from, byNet, ok := d.readBefore(parent, at); ok {
		return []Part{{parent, from, at}}, byNet
	}
	// HTTP/2: a goroutine that only reads frames woke the one that serves.
	from := &d.t.Gs[parent]
	for i, n := from.SegmentAt(at)-1, 0; i >= 0 && n < maxLook; i, n = i-1, n+1 {
		s := from.Seg(i)
		if s.Kind != timeline.Waiting || s.Waker == timeline.NoG {
			continue
		}
		if from, byNet, ok := d.readBefore(s.Waker, s.End); ok {
			return []Part{{s.Waker, from, s.End}, {parent, s.End, at}}, byNet
		}
		break
	}
	return nil, false
}

// readBefore returns when the last message that g read before at was there: at
// its wake-up by the network or, if it had not to wait, at its read call, or as unread says.
// What it gave birth to or woke since then had that message.
func (d *finder) readBefore(g timeline.GID, at timeline.Time) (from timeline.Time, byNet, ok bool) {
	gr := &d.t.Gs[g]
	r, ok := d.lastRead(g, at)
	if !ok {
		return 0, false, false
	}
	if from, first, ok := d.unread(gr, r.wait, at); ok {
		return from, first, true
	}
	ws := gr.Wakes()
	for k := sort.Search(len(ws), func(k int) bool { return ws[k].Time >= at }) - 1; k >= 0 && ws[k].Time > r.from; k-- {
		if ws[k].Birth() || d.atHome(&ws[k]) {
			return ws[k].Time, false, true // an earlier message of the same read
		}
	}
	return r.from, r.byNet, true
}

// unread returns when a message was there that a reader hands over at an instant, if it had to wait for a P
// after its last wait for the network before, segment wait: of all messages that it then hands over, one after
// the other, only the first is known to have been there at once. The others are taken to have come evenly
// spread over that time.
func (d *finder) unread(gr *timeline.Goroutine, wait int, at timeline.Time) (from timeline.Time, first, ok bool) {
	if wait < 0 || wait+2 >= gr.Len() || gr.Seg(wait+1).Kind != timeline.Runnable {
		return 0, false, false
	}
	ws := gr.Wakes()
	index := func(at timeline.Time) int { return sort.Search(len(ws), func(k int) bool { return ws[k].Time >= at }) }
	woken, ran := gr.Seg(wait).End, gr.Seg(wait+2).Start
	if ran-woken < timeline.LateMin {
		return 0, false, false
	}
	begin, k, end := index(woken+1), index(at), index(d.worksUntil(gr, wait, 2*ran-woken)+1)
	if k < begin || k > end || end-begin > maxHanded {
		return 0, false, false
	}
	before, all := d.handed(ws[begin:k]), d.handed(ws[begin:end])
	return woken + (ran-woken)*timeline.Time(before)/timeline.Time(max(1, all)), before == 0, true
}

// worksUntil returns when a reader waits for the network again after a wait for it, at most until an instant.
func (d *finder) worksUntil(gr *timeline.Goroutine, wait int, until timeline.Time) timeline.Time {
	if k, known := d.nextWaits[gr.ID]; known && k.wait == wait {
		return k.next
	}
	next := until
	for i := wait + 2; i < gr.Len() && gr.Seg(i).Start < until; i++ {
		if s := gr.Seg(i); byNetwork(s) {
			next = s.Start
			break
		}
	}
	if d.nextWaits == nil {
		d.nextWaits = map[gotrace.GoID]nextWait{}
	}
	d.nextWaits[gr.ID] = nextWait{wait, next}
	return next
}

// nextWait is when a reader waits for the network again after segment wait.
type nextWait struct {
	wait int
	next timeline.Time
}

// maxHanded bounds the wake-ups that are looked at to tell when one message was there.
const maxHanded = 1 << 10

// handed counts the wake-ups by which messages were handed over.
func (d *finder) handed(ws []timeline.Wake) (n int) {
	for k := range ws {
		if ws[k].Birth() || d.atHome(&ws[k]) {
			n++
		}
	}
	return n
}

// reading is how a goroutine read something.
type reading struct {
	// from is when what it read was there: when the network woke it for that, byNet, or its read call.
	from  timeline.Time
	byNet bool
	// wait is the segment of its last wait for the network before, -1 if that is not known.
	wait int
}

// lastRead returns how a goroutine read what it had last read before at.
func (d *finder) lastRead(g timeline.GID, at timeline.Time) (r reading, ok bool) {
	gr := &d.t.Gs[g]
	known, begun := d.waits[g], min(gr.SegmentAt(at), gr.Len()-1)
	r.wait = -1
	reads := 0
	for i, n := begun, 0; i >= 0 && n < maxLook; i, n = i-1, n+1 {
		if reads > 0 && i <= known.upTo && i > known.wait {
			r.wait = known.wait
			break
		}
		s := gr.Seg(i)
		if s.Start >= at || d.c.of(s.Stack).op != opRead {
			continue
		}
		if s.Kind == timeline.Syscall {
			if reads++; reads == 1 {
				r.from = s.Start
			}
			continue // did it have to wait for this?
		}
		if byNetwork(s) && s.End <= at {
			if r.wait = i; reads <= 1 {
				r.from, r.byNet = s.End, true
			}
			reads++
		}
		break
	}
	if r.wait >= 0 {
		if d.waits == nil {
			d.waits = map[timeline.GID]waited{}
		}
		d.waits[g] = waited{r.wait, begun}
	}
	return r, reads > 0
}

// waited is a wait for the network, behind which there is none up to segment upTo.
type waited struct{ wait, upTo int }

// grpc finds the requests of a goroutine that handles one gRPC stream.
func (d *finder) grpc(g timeline.GID) {
	gr := &d.t.Gs[g]
	if gr.Len() == 0 {
		return
	}
	// From v1.85 on one function processes both, and it is a stream's handler that asks for messages.
	if e := d.examine(g, 0, gr.Start(), gr.End()); e.flags&streaming != 0 || e.flags&nextMessage != 0 && e.flags&unary == 0 {
		d.grpcStream(g)
	} else if gr.Born || d.held(gr) {
		before, byNet := d.arrival(g)
		d.unary(g, 0, gr.Start(), gr.End(), !gr.Died, before, byNet)
	}
}

func (d *finder) unary(g timeline.GID, seg int, from, to timeline.Time, open bool, before []Part, byNet bool) {
	e := d.examine(g, seg, from, to)
	role := d.roleOf(roleUnary, PerRequest, d.h.of[g].name, keyNone)
	d.add(role, Request{Parts: d.answered(before, g, from, to, open), InFlight: open, ByNetwork: byNet}, e)
}

// answered returns the parts of a request that g carried from from to to, and
// that the goroutine which writes for its connection then wrote to the socket.
func (d *finder) answered(before []Part, g timeline.GID, from, to timeline.Time, open bool) []Part {
	if !open {
		if w, at, end, ok := d.transmitted(g, from, to); ok {
			return d.parts(append(before, Part{g, from, at}, Part{w, at, end})...)
		}
	}
	return d.parts(append(before, Part{g, from, to})...)
}

// transmitted finds who wrote what g had to answer in [from, to] to the connection: from when, and until when. What waits to be written
// is written in turn, and only who finds the writer waiting wakes it: where others of the connection keep it busy it is the one that
// they woke. Its last write before g was done, or the first one behind that, had the end of the answer.
func (d *finder) transmitted(g timeline.GID, from, to timeline.Time) (w timeline.GID, at, end timeline.Time, ok bool) {
	reader := d.t.Gs[g].Creator
	w = timeline.NoG
	ws := d.t.Gs[g].Wakes()
	i := sort.Search(len(ws), func(k int) bool { return ws[k].Time > to })
	for n := 0; i > 0 && ws[i-1].Time >= from && n < maxLook; n++ {
		if i--; ws[i].Birth() || !d.transmits(ws[i].Whom()) {
			continue
		}
		w, at = ws[i].Whom(), ws[i].Time
		if reader >= 0 {
			d.writerOf[reader] = w
		}
		if end, ok = d.firstWrite(w, at); !ok || end >= to {
			return w, at, end, ok
		}
		break
	}
	worked := d.worked(g, from, to)
	if other, known := d.writerOf[reader]; w == timeline.NoG && known {
		w = other
	}
	if w == timeline.NoG {
		w, at, end, ok = d.writer(g, from, to)
		return w, at, end, ok && at >= worked // else it was woken for something else
	}
	if end, ok = d.wroteBefore(w, max(at, worked), to); ok {
		return w, min(end, to), end, true
	}
	end, ok = d.firstWrite(w, to)
	return w, to, end, ok
}

// wroteBefore returns the end of the last write to a socket that w began in [from, to], if it has nothing else to write at to: it
// waits for that then, or is in that write.
func (d *finder) wroteBefore(w timeline.GID, from, to timeline.Time) (end timeline.Time, ok bool) {
	gr := &d.t.Gs[w]
	for i, n := min(gr.SegmentAt(to), gr.Len()-1), 0; i >= 0 && n < maxLook; i, n = i-1, n+1 {
		s := gr.Seg(i)
		in := d.c.of(s.Stack)
		switch {
		case s.End <= from:
			return 0, false
		case s.Kind == timeline.Syscall && s.Start >= from && s.Start < to && in.op == opWrite && in.client == 0:
			return s.End, true
		case n == 0 && s.Kind != timeline.Waiting:
			return 0, false
		}
	}
	return 0, false
}

// transmits reports whether a goroutine writes what a gRPC server answers on a connection.
func (d *finder) transmits(w timeline.GID) bool {
	is, known := d.transmitters[w]
	if !known {
		for _, s := range d.t.Gs[w].Blocked() {
			if in := d.c.of(s.Stack); s.Stack != 0 {
				is = in.flags&transmitting != 0 && in.client == 0
				break
			}
		}
		d.transmitters[w] = is
	}
	return is
}

// worked is when the last wait of g in [from, to] ended, but for locks.
func (d *finder) worked(g timeline.GID, from, to timeline.Time) timeline.Time {
	gr := &d.t.Gs[g]
	for i, n := min(gr.SegmentAt(to), gr.Len()-1), 0; i >= 0 && n < maxLook; i, n = i-1, n+1 {
		s := gr.Seg(i)
		if s.End <= from {
			break
		}
		if s.End <= to && (s.Kind == timeline.Syscall || s.Kind == timeline.Waiting && s.Reason != timeline.ReasonSync) {
			return s.End
		}
	}
	return from
}

// writer finds the goroutine that g woke last in [from, to] and that then wrote
// to a socket.
func (d *finder) writer(g timeline.GID, from, to timeline.Time) (w timeline.GID, at, end timeline.Time, ok bool) {
	ws := d.t.Gs[g].Wakes()
	i := len(ws)
	for i > 0 && ws[i-1].Time > to {
		i--
	}
	for n := 0; i > 0 && ws[i-1].Time >= from && n < maxLook; n++ {
		i--
		if ws[i].Birth() {
			continue
		}
		if end, ok := d.firstWrite(ws[i].Whom(), ws[i].Time); ok {
			return ws[i].Whom(), ws[i].Time, end, true
		}
	}
	return 0, 0, 0, false
}

// grpcStream finds one request per message that a stream's handler receives, unless it hands them to others who
// answer: those follow when all streams are known.
func (d *finder) grpcStream(g timeline.GID) {
	if hands := d.streamHands(g); hands != nil {
		d.passing = append(d.passing, handedStream{g, hands})
	} else {
		d.grpcMessages(g)
	}
}

// handedStream is a stream whose handler hands messages to others.
type handedStream struct {
	g     timeline.GID
	hands []hand
}

// roleOfStream is the role of the messages of g, a handler of a stream.
func (d *finder) roleOfStream(g timeline.GID) int {
	return d.roleOf("grpc-go streaming", PerRequest, d.h.of[g].name, keyMessage)
}

// streamHands lists the messages of a stream whose handler hands them to others, nil if it does not.
func (d *finder) streamHands(g timeline.GID) (out []hand) {
	gr := &d.t.Gs[g]
	ws, k := gr.Wakes(), 0
	woken, self := 0, 0
	var last *timeline.Wake   // of those from home
	from := timeline.Time(-1) // before the first one nothing is known
	for _, s := range gr.Waits() {
		if d.c.of(s.Stack).key != keyMessage {
			continue
		}
		start, whoms, answered := from, 0, false
		for ; k < len(ws) && ws[k].Time <= s.Start; k++ {
			w := &ws[k]
			r := d.h.of[w.Whom()]
			if from < 0 || r == nil || w.Birth() || w.Time < from {
				continue
			}
			if serves(r.name) {
				_, writes := d.firstWrite(w.Whom(), w.Time)
				answered = answered || writes
			} else if d.atHome(w) {
				whom, again := d.takenBy(g, last, w)
				if last = w; again && whoms > 0 {
					if n := len(out) - 1; whom != timeline.NoG {
						out[n].handed, out[n].whom = w.Time, whom
					}
					continue
				}
				out = append(out, hand{message: message{start: start, handed: w.Time, whom: whom}, reader: g, ran: d.ran(g, start, w.Time)})
				start = w.Time
				whoms++
			}
		}
		if answered {
			self++
		}
		if woken += whoms; from >= 0 && whoms == 0 {
			out = append(out, hand{message: message{start: from, handed: d.taken(g, from, s.Start), whom: timeline.NoG}, reader: g, ran: d.ran(g, from, s.Start)})
		}
		if from = s.End; s.Waker == timeline.NoG {
			from = -1
		}
	}
	if woken < leastQueued || float64(woken) < leastMixed*float64(len(out)) || self >= woken {
		return nil
	}
	return out
}

// handedStreams finds the requests of streams whose handlers hand messages to others.
func (d *finder) handedStreams() {
	members, hands := make([]timeline.GID, len(d.passing)), make([][]hand, len(d.passing))
	for i, s := range d.passing {
		members[i], hands[i] = s.g, s.hands
	}
	if len(members) == 0 {
		return
	}
	for _, g := range d.queues(members, hands, d.roleOfStream(members[0])) {
		d.grpcMessages(g)
	}
}

// grpcMessages finds one request per message that a stream's handler receives, and answers itself.
func (d *finder) grpcMessages(g timeline.GID) {
	gr := &d.t.Gs[g]
	role := d.roleOfStream(g)
	from, seg, first, open := gr.Start(), 0, true, gr.Born
	messages := 0
	mark := len(d.list)
	for i, s := range gr.Waits() {
		if d.c.of(s.Stack).key != keyMessage {
			continue
		}
		// Before the first message there is nothing to answer, unless it came
		// with the stream.
		if first && open {
			_, _, _, open = d.writer(g, from, s.Start)
		}
		if open {
			d.add(role, Request{Parts: d.answered(nil, g, from, s.Start, false)}, d.examine(g, seg, from, s.Start))
		}
		first = false
		messages++
		if open = s.Waker != timeline.NoG; open {
			from, seg = s.End, i+1
		}
	}
	if messages < 2 && gr.End()-gr.Start() > 0 {
		d.list = d.list[:mark]
		if gr.Born {
			d.whole = append(d.whole, g)
		} else {
			d.exclude(classStream, gr.Start())
		}
		return
	}
	if open && !gr.Died && !first {
		d.add(role, Request{Parts: d.parts(Part{g, from, gr.End()}), InFlight: true}, d.examine(g, seg, from, gr.End()))
	}
}

// wholeStreams finds the requests among the streams that began in the trace and received one message at most: an answer in
// several parts is one request. Streams whose handler mostly waits for time or for news, as one that watches something does,
// last as long as somebody listens: whether a handler's are requests those say that ended.
func (d *finder) wholeStreams() {
	type stream struct {
		g timeline.GID
		e evidence
	}
	by, order := map[int32][]stream{}, []int32(nil)
	ended, busy := map[int32]int{}, map[int32]int{}
	for _, g := range d.whole {
		gr := &d.t.Gs[g]
		e := d.examine(g, 0, gr.Start(), gr.End())
		if by[e.node] == nil {
			order = append(order, e.node)
		}
		by[e.node] = append(by[e.node], stream{g, e})
		if gr.Died {
			ended[e.node]++
			if d.serving(g) {
				busy[e.node]++
			}
		}
	}
	for _, node := range order {
		for _, s := range by[node] {
			if 2*busy[node] <= ended[node] {
				d.exclude(classStream, d.t.Gs[s.g].Start())
				continue
			}
			d.wholeStream(s.g, s.e)
		}
	}
}

// wholeStream adds a stream as a request. It begins with its message, if the handler waits for that before it answers, and ends
// with the last part of its answer, whatever it waits for then.
func (d *finder) wholeStream(g timeline.GID, e evidence) {
	gr := &d.t.Gs[g]
	from, to := gr.Start(), gr.End()
	before, byNet := d.arrival(g)
	for _, w := range gr.Waits() {
		if d.c.of(w.Stack).key != keyMessage {
			continue
		}
		if _, _, _, answered := d.writer(g, from, w.Start); answered {
			to = w.Start
		} else if w.Waker != timeline.NoG {
			from, before, byNet = w.End, nil, false
		}
		break
	}
	open := !gr.Died && to == gr.End()
	d.add(d.roleOfStream(g), Request{Parts: d.answered(before, g, from, to, open), InFlight: open, ByNetwork: byNet}, e)
}

// serving reports whether a goroutine does not wait for time or for news itself for most of its life. Where a library does for it, it
// waits for an answer, or for its own client.
func (d *finder) serving(g timeline.GID) bool {
	gr := &d.t.Gs[g]
	var idle timeline.Time
	for _, s := range gr.Waits() {
		if idles(s) && d.waitsItself(s.Stack) {
			idle += s.End - s.Start
		}
	}
	return 2*idle < gr.End()-gr.Start()
}

// waitsItself reports whether it is the program's own code that waits at a stack, not a library that it calls.
func (d *finder) waitsItself(stack gotrace.StackID) bool {
	is, ok := d.itself[stack]
	if ok {
		return is
	}
	frames := d.t.Stacks.Frames(stack)
	own, app := AppFrame(frames)
	for _, f := range frames {
		if strings.HasPrefix(f.Func, "runtime.") || f.Func == "time.Sleep" || strings.HasPrefix(f.Func, "sync.(*Cond).") || strings.HasPrefix(f.Func, "sync.runtime_") {
			continue
		}
		is = app && f == own
		break
	}
	if d.itself == nil {
		d.itself = map[gotrace.StackID]bool{}
	}
	d.itself[stack] = is
	return is
}

// grpcWorker finds the requests of a worker of grpc.NumStreamWorkers.
func (d *finder) grpcWorker(g timeline.GID) {
	if d.h.home[g] == keyNone {
		return
	}
	d.carried[g] = true
	d.walk(g, d.h.home[g], func(*stackInfo) bool { return false }, func(a activation) {
		gr := &d.t.Gs[g]
		to := gr.End()
		if !a.open {
			to = a.until
		}
		d.unary(g, a.seg, a.start, to, a.open, nil, a.byNet)
	})
}
