// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
/* When goroutines are in functions that the user named. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "golang.h"

/* Some of the kernel's functions are for licences compatible with the GPL. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

/*
 * What a goroutine, known by its runtime.g, is in: the outermost of the functions. Those
 * that it calls are deeper in the stack. Who is as deep, or less, was not called by it:
 * it has panicked.
 */
struct inside {
	__u64 goid, since, depth;
	__u64 fn;
};

/* What the reader gets. Instants are CLOCK_MONOTONIC in ns. */
struct call {
	__u64 goid, from, to;
	__u64 fn;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct inside);
} whylate_inside SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} whylate_calls SEC(".maps");

__u64 unended = 0; /* calls that did not return, and were found not to */

/*
 * The kernel takes one probe away after the other: from here on nothing is believed, or who
 * returns where there is none any more would not have returned.
 */
__u64 closing = 0;

/* Behind the check of the stack; fn is the number of the function. */
static __always_inline int enter(struct pt_regs *regs, __u64 fn)
{
	__u64 g = go_g(regs);
	struct inside first = {.goid = id_of(g), .fn = fn, .depth = depth(g, go_sp(regs))}, *in;
	struct counts *c = hit();

	if (!c)
		return 0;
	in = bpf_map_lookup_elem(&whylate_inside, &g);
	if (in && in->goid == first.goid && first.depth > in->depth)
		return 0;
	if (in)
		add(&unended, 1);
	first.since = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&whylate_inside, &g, &first, BPF_ANY))
		add(&c->lost, 1);
	return 0;
}

/* At RET. */
static __always_inline int leave(struct pt_regs *regs, __u64 fn)
{
	__u64 g = go_g(regs);
	struct counts *c = hit();
	struct inside *in = bpf_map_lookup_elem(&whylate_inside, &g);
	struct call *call;

	if (!c || !in)
		return 0;
	if (in->goid == id_of(g) && depth(g, go_sp(regs)) > in->depth)
		return 0;
	if (in->goid == id_of(g) && in->fn == fn) {
		call = bpf_ringbuf_reserve(&whylate_calls, sizeof(*call), 0);
		if (call) {
			call->goid = in->goid;
			call->from = in->since;
			call->to = bpf_ktime_get_ns();
			call->fn = in->fn;
			bpf_ringbuf_submit(call, BPF_RB_NO_WAKEUP);
		} else {
			add(&c->lost, 1);
		}
	} else { /* this one began before there were probes */
		add(&unended, 1);
	}
	bpf_map_delete_elem(&whylate_inside, &g);
	return 0;
}

/*
 * One program, so that all probes come and go within a moment: the kernel takes them one
 * after the other. The cookie is the number of the function, and LEAVE where it ends.
 */
enum { LEAVE = 1 << 16 };

SEC("uprobe.multi")
int whylate_call(struct pt_regs *regs)
{
	__u64 cookie = bpf_get_attach_cookie(regs);

	if (closing) {
		hit();
		return 0;
	}
	return cookie & LEAVE ? leave(regs, cookie - LEAVE) : enter(regs, cookie);
}
