// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
/*
 * How long goroutines wait, runnable, until they run: from the states that Go's runtime
 * gives them, without an execution trace.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "golang.h"

/* Some of the kernel's functions are for licences compatible with the GPL. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* runtime2.go, the same from Go 1.22 to 1.26. */
enum { RUNNABLE = 1, RUNNING = 2, SCAN = 0x1000 };

/* Since when a goroutine, known by its runtime.g, is runnable. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u64);
} whylate_runnable SEC(".maps");

struct waits {
	__u64 n, ns, max;
	__u64 goid; /* of the longest */
	__u64 slots[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waits);
} whylate_waits SEC(".maps");

/* In runtime.casgstatus(gp *g, oldval, newval uint32). */
SEC("uprobe.multi")
int whylate_status(struct pt_regs *regs)
{
	__u64 g = go_first(regs), *since, ns;
	__u32 old = go_second(regs), new = go_third(regs), zero = 0;
	struct counts *c = hit();
	struct waits *w;

	if (!c)
		return 0;
	if (new == RUNNABLE) {
		ns = bpf_ktime_get_ns();
		if (bpf_map_update_elem(&whylate_runnable, &g, &ns, BPF_ANY))
			add(&c->lost, 1);
		return 0;
	}
	if (old != RUNNABLE || new != RUNNING)
		return 0;
	since = bpf_map_lookup_elem(&whylate_runnable, &g);
	w = bpf_map_lookup_elem(&whylate_waits, &zero);
	if (!since || !w)
		return 0;
	ns = bpf_ktime_get_ns() - *since;
	bpf_map_delete_elem(&whylate_runnable, &g);
	add(&w->n, 1);
	add(&w->ns, ns);
	add(&w->slots[slot(ns)], 1);
	if (ns > w->max) {
		w->max = ns;
		w->goid = id_of(g);
	}
	return 0;
}
