package host

import "strconv"

// appendSample appends a sample as package json would write it, in a tenth of the time: it is the
// only line that is written again and again.
func appendSample(b []byte, s *Sample) []byte {
	b = number(b, `{"mono_ns":`, s.MonoNS)
	b = number(b, `,"took_ns":`, s.TookNS)
	b = number(b, `,"run_ns":`, s.RunNS)
	b = number(b, `,"delay_ns":`, s.DelayNS)
	if len(s.Threads) > 0 {
		b = append(b, `,"threads":`...)
		for i := range s.Threads {
			b = appendThread(append(b, opening(i)), &s.Threads[i])
		}
		b = append(b, ']')
	}
	b = numbersOf(b, `,"gone":`, s.Gone)
	b = numbersOf(b, `,"blocked":`, s.Blocked)
	b = number(b, `,"num_threads":`, int64(s.NumThreads))
	b = number(b, `,"user_ns":`, s.UserNS)
	b = number(b, `,"system_ns":`, s.SystemNS)
	b = number(b, `,"minor_faults":`, s.MinorFaults)
	b = number(b, `,"major_faults":`, s.MajorFaults)
	b = number(b, `,"rss":`, s.RSS)
	b = unlessZero(b, `,"io_delay_ns":`, s.IODelayNS)
	b = unlessZero(b, `,"voluntary":`, s.Voluntary)
	b = unlessZero(b, `,"involuntary":`, s.Involuntary)
	if len(s.Groups) > 0 {
		b = append(b, `,"groups":`...)
		for i := range s.Groups {
			b = appendGroup(append(b, opening(i)), &s.Groups[i])
		}
		b = append(b, ']')
	}
	b = appendMachine(append(b, `,"machine":{`...), &s.Machine)
	if c := s.Confined; c != nil {
		b = append(appendTimes(append(b, `,"confined":{`...), c), '}')
	}
	b = unlessZero(b, `,"children_ns":`, s.ChildrenNS)
	if p := s.Peers; p != nil {
		b = number(b, `,"peers":{"run_ns":`, p.RunNS)
		b = append(number(b, `,"delay_ns":`, p.DelayNS), '}')
	}
	if n := s.Net; n != nil {
		b = number(b, `,"net":{"retrans_segs":`, n.RetransSegs)
		b = number(b, `,"listen_overflows":`, n.ListenOverflows)
		b = number(b, `,"listen_drops":`, n.ListenDrops)
		b = append(number(b, `,"out_of_order":`, n.OutOfOrder), '}')
	}
	if l := s.Listen; l != nil {
		b = number(b, `,"listen":{"waiting":`, l.Waiting)
		b = number(b, `,"room":`, l.Room)
		b = append(number(b, `,"dropped":`, l.Dropped), '}')
	}
	return append(b, '}')
}

func appendThread(b []byte, t *Thread) []byte {
	b = number(b, `{"tid":`, int64(t.TID))
	b = unlessZero(b, `,"nstid":`, int64(t.NSTID))
	b = number(b, `,"run_ns":`, t.RunNS)
	b = number(b, `,"delay_ns":`, t.DelayNS)
	return append(number(b, `,"slices":`, t.Slices), '}')
}

func appendGroup(b []byte, g *GroupCounters) []byte {
	b = number(b, `{"periods":`, g.Periods)
	b = number(b, `,"throttled":`, g.Throttled)
	b = number(b, `,"throttled_ns":`, g.ThrottledNS)
	return append(number(b, `,"usage_ns":`, g.UsageNS), '}')
}

func appendMachine(b []byte, m *Machine) []byte {
	b = appendTimes(b, &m.CPUTimes)
	b = strconv.AppendBool(append(b, `,"pressure":`...), m.Pressure)
	b = unlessZero(b, `,"cpu_some_ns":`, m.CPUSomeNS)
	b = unlessZero(b, `,"io_some_ns":`, m.IOSomeNS)
	b = unlessZero(b, `,"io_full_ns":`, m.IOFullNS)
	b = unlessZero(b, `,"memory_some_ns":`, m.MemorySomeNS)
	return append(unlessZero(b, `,"memory_full_ns":`, m.MemoryFullNS), '}')
}

func appendTimes(b []byte, c *CPUTimes) []byte {
	b = number(b, `"busy_ns":`, c.BusyNS)
	b = number(b, `,"idle_ns":`, c.IdleNS)
	b = number(b, `,"iowait_ns":`, c.IOWaitNS)
	return number(b, `,"steal_ns":`, c.StealNS)
}

func number(b []byte, name string, v int64) []byte {
	return strconv.AppendInt(append(b, name...), v, 10)
}

func unlessZero(b []byte, name string, v int64) []byte {
	if v == 0 {
		return b
	}
	return number(b, name, v)
}

func numbersOf(b []byte, name string, list []int) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, name...)
	for i, v := range list {
		b = strconv.AppendInt(append(b, opening(i)), int64(v), 10)
	}
	return append(b, ']')
}

// opening stands before the element of a list.
func opening(i int) byte {
	if i == 0 {
		return '['
	}
	return ','
}
