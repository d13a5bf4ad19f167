package breaker

// Metrics tells what the breaker has seen and done:
//
//	breaker_state                       0 closed, 1 open, 2 half-open
//	breaker_suspicion_ratio             0 to 1, at which it opens
//	breaker_open_tail_total, …_median_total, …_limit_total, …_probe_total
//	breaker_rejected_total              calls that got ErrOpen
//	breaker_held_total                  windows not judged as Go did not run us
//	breaker_probes_lost_total           permits that expired
//	breaker_relearnt_total              baselines given up
//	breaker_baseline_p50_seconds, …_p99_seconds, breaker_slow_seconds
//
// The last three are left out until something is learnt.
func (b *Breaker) Metrics(emit func(name string, value float64)) {
	b.mu.Lock()
	suspicion := b.judge.suspicion()
	p50, p99, slow := b.baseline()
	opened, held, lost, relearnt := b.opened, b.held, b.lost, b.relearnt
	b.mu.Unlock()
	emit("breaker_state", float64(b.State()))
	emit("breaker_suspicion_ratio", suspicion)
	for why := Tail; why <= Probe; why++ {
		emit("breaker_open_"+why.String()+"_total", float64(opened[why]))
	}
	emit("breaker_rejected_total", float64(b.rejected.Load()))
	emit("breaker_held_total", float64(held))
	emit("breaker_probes_lost_total", float64(lost))
	emit("breaker_relearnt_total", float64(relearnt))
	if slow > 0 {
		emit("breaker_baseline_p50_seconds", p50.Seconds())
		emit("breaker_baseline_p99_seconds", p99.Seconds())
		emit("breaker_slow_seconds", slow.Seconds())
	}
}
