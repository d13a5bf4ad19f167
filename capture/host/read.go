package host

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/evidence/jsonl"
)

// What one host.jsonl may hold. A recorder stays far below; beyond them the file
// is not its product. Together they bound the memory of reading to about 1 GB.
const (
	maxBytes = 256 << 20
	// maxLine holds the first sample of 100,000 threads.
	maxLine = 16 << 20
	// maxSamples are more than an hour at the highest rate.
	maxSamples = 200_000
	// entryBytes: a file holds at most one thread or thread id, summed over all
	// samples, in so many bytes. As a recorder writes them a thread alone takes more.
	entryBytes = 64
	maxGroups  = 64
	maxMissing = 1_000
	// MaxSockets is how many sockets After lists at most.
	MaxSockets = 10_000
	// MaxPeers is how many processes of the machine After lists at most.
	MaxPeers = 8
	// MaxAddresses is how many addresses of each it lists at most.
	MaxAddresses = 16
)

// Read reads a host.jsonl. It trusts nothing in it: sizes and numbers are
// bounded, counters are not negative and the samples in order of time. Strings
// come from the file: quote them before printing.
//
// A file that was cut, even within a line, gives what precedes the cut, without
// After; there has to be a first line. Fields and kinds of lines that this version does
// not know are skipped. Errors wrap [evidence.ErrMalformed], [evidence.ErrTooLarge],
// [evidence.ErrVersion] or that of r.
func Read(r io.Reader) (*Recording, error) { return read(r, maxBytes) }

func read(r io.Reader, most int64) (*Recording, error) {
	d := decoder{entries: int(most / entryBytes)}
	if err := jsonl.NewReader(r, most, maxLine).Each("host samples", d.add); err != nil {
		return nil, err
	}
	if !d.begun {
		return nil, fmt.Errorf("read host samples: no complete first line, the file is empty, cut or something else: %w", evidence.ErrMalformed)
	}
	d.rec.smooth()
	return &d.rec, nil
}

// decoder is the state of one Read.
type decoder struct {
	begun   bool
	entries int // threads and thread ids that may still come
	rec     Recording
}

// add takes one line.
func (d *decoder) add(line []byte) error {
	if !d.begun {
		if err := checkSchema(line); err != nil {
			return err
		}
	}
	var l Line
	if err := json.Unmarshal(line, &l); err != nil {
		return fmt.Errorf("%w: %.200s", evidence.ErrMalformed, err)
	}
	switch {
	case d.rec.After != nil:
		return fmt.Errorf("%w: a line behind the last one", evidence.ErrMalformed)
	case l.Static != nil && (l.Sample != nil || l.After != nil) || l.Sample != nil && l.After != nil:
		return fmt.Errorf("%w: a line of two kinds", evidence.ErrMalformed)
	case l.Static != nil && d.begun:
		return fmt.Errorf("%w: static twice", evidence.ErrMalformed)
	case l.Static != nil:
		d.begun = true
		d.rec.Static = *l.Static
		return l.Static.check()
	case l.Sample != nil:
		return d.sample(l.Sample)
	case l.After != nil:
		d.rec.After = l.After
		return l.After.check()
	}
	return nil // of a later version
}

// checkSchema looks at the schema alone, so that another major version is named
// as such even if its fields have other types.
func checkSchema(line []byte) error {
	var head struct {
		Static *struct {
			Schema string `json:"schema"`
		} `json:"static"`
	}
	if err := json.Unmarshal(line, &head); err != nil || head.Static == nil {
		return fmt.Errorf("%w: it does not begin with a static line, these are no host samples", evidence.ErrMalformed)
	}
	return jsonl.CheckSchema(head.Static.Schema, Schema)
}

func (s *Static) check() error {
	if len(s.Groups) > maxGroups || len(s.Missing) > maxMissing || len(s.NSPID) > maxGroups {
		return fmt.Errorf("static: more than %d cgroups or pid namespaces, or %d things missing: %w", maxGroups, maxMissing, evidence.ErrTooLarge)
	}
	negative := min(s.PeriodNS, s.TickNS, int64(s.CPUs), int64(s.Allowed)) < 0
	for _, g := range s.Groups {
		negative = negative || min(g.QuotaUS, g.PeriodUS, g.MemoryLimit) < 0
	}
	if negative {
		return fmt.Errorf("%w: static: a negative number", evidence.ErrMalformed)
	}
	return nil
}

func (d *decoder) sample(s *Sample) error {
	d.entries -= len(s.Threads) + len(s.Gone) + len(s.Blocked)
	if len(d.rec.Samples) >= maxSamples || d.entries < 0 {
		return fmt.Errorf("more than %d samples, or more threads in them than any recording has: %w", maxSamples, evidence.ErrTooLarge)
	}
	if n := len(s.Groups); n != 0 && n != len(d.rec.Static.Groups) {
		return fmt.Errorf("%w: counters of %d cgroups, there are %d", evidence.ErrMalformed, n, len(d.rec.Static.Groups))
	}
	if n := len(d.rec.Samples); n > 0 && s.MonoNS <= d.rec.Samples[n-1].MonoNS {
		return fmt.Errorf("%w: the samples are not in order of time", evidence.ErrMalformed)
	}
	if n := len(d.rec.Samples); n > 0 && (s.Confined == nil) != (d.rec.Samples[0].Confined == nil) {
		return fmt.Errorf("%w: some samples tell the process's CPUs apart and some do not", evidence.ErrMalformed)
	}
	if s.least() < 0 {
		return fmt.Errorf("%w: a negative counter", evidence.ErrMalformed)
	}
	d.rec.Samples = append(d.rec.Samples, *s)
	return nil
}

// least returns the smallest number in s.
func (s *Sample) least() int64 {
	m := &s.Machine
	v := min(s.MonoNS, s.TookNS, s.RunNS, s.DelayNS, int64(s.NumThreads), s.UserNS, s.SystemNS, s.MinorFaults, s.MajorFaults,
		s.RSS, s.IODelayNS, s.Voluntary, s.Involuntary, m.BusyNS, m.IdleNS, m.IOWaitNS, m.StealNS,
		m.CPUSomeNS, m.IOSomeNS, m.IOFullNS, m.MemorySomeNS, m.MemoryFullNS)
	v = min(v, s.ChildrenNS)
	if c := s.Confined; c != nil {
		v = min(v, c.BusyNS, c.IdleNS, c.IOWaitNS, c.StealNS)
	}
	for _, t := range s.Threads {
		v = min(v, int64(t.TID), t.RunNS, t.DelayNS, t.Slices)
	}
	for _, g := range s.Groups {
		v = min(v, g.Periods, g.Throttled, g.ThrottledNS, g.UsageNS)
	}
	if s.Net != nil {
		v = min(v, s.Net.RetransSegs, s.Net.ListenOverflows, s.Net.ListenDrops, s.Net.OutOfOrder)
	}
	if s.Peers != nil {
		v = min(v, s.Peers.RunNS, s.Peers.DelayNS)
	}
	if s.Listen != nil {
		v = min(v, s.Listen.Waiting, s.Listen.Room, s.Listen.Dropped)
	}
	return v
}

func (a *After) check() error {
	if len(a.Sockets) > MaxSockets || len(a.Missing) > maxMissing || len(a.Peers) > MaxPeers {
		return fmt.Errorf("after: more than %d sockets, %d things missing or %d peers: %w", MaxSockets, maxMissing, MaxPeers, evidence.ErrTooLarge)
	}
	least := min(a.CPUNS, a.EndNS, a.WallNS, int64(a.Samples), a.PeriodNS, int64(a.Allowed), int64(a.Threads), int64(a.ThreadsRead))
	if m := a.Memory; m != nil {
		least = min(least, m.RSS, m.PSS, m.Swap, m.AnonHugePages)
	}
	for _, x := range a.Sockets {
		if x.Retrans != nil {
			least = min(least, *x.Retrans)
		}
	}
	for _, x := range a.Peers {
		if len(x.Also) >= MaxAddresses {
			return fmt.Errorf("after: a peer at more than %d addresses: %w", MaxAddresses, evidence.ErrTooLarge)
		}
		least = min(least, x.ThrottledNS)
	}
	if least < 0 {
		return fmt.Errorf("%w: after: a negative number", evidence.ErrMalformed)
	}
	return nil
}
