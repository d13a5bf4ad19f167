// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
/*
 * How long calls into C take, by C function, and how long a goroutine then takes to be in
 * Go again:
 *
 *	runtime.cgocall begins    calls runtime.exitsyscall    returns
 *	        |<-------- in C -------->|<-------- back -------->|
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "golang.h"

/* Some of the kernel's functions are for licences compatible with the GPL. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool wait_for_return = false; /* whylate_back is attached, too */

/*
 * A call is known by its goroutine and how deep its frame is: C may call Go, which calls C
 * again, or panics, and then the call does not end.
 */
struct frame {
	__u64 g, depth;
};

struct call {
	__u64 since, end; /* of the time in C, 0 if it has not ended */
	__u64 fn;
};

/* What is known of a function of C. Times are ns. */
struct function {
	__u64 caller; /* where it was called, the first time */
	__u64 calls, ns, max;
	__u64 backs, back_ns, back_max;
	__u64 goid; /* of the longest call */
	__u64 stack; /* of it, its number plus one, 0 if it is not known */
	__u64 slots[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct frame);
	__type(value, struct call);
} whylate_calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct function);
} whylate_functions SEC(".maps");

/* A function of which nothing is known. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct function);
} whylate_nothing SEC(".maps");

/* meet enters a function, called by who is on top of the stack. */
static __always_inline void meet(__u64 fn, __u64 sp)
{
	__u32 zero = 0;
	struct function *f = bpf_map_lookup_elem(&whylate_nothing, &zero);

	/* Another thread may have been faster. */
	if (!f || bpf_map_update_elem(&whylate_functions, &fn, f, BPF_NOEXIST))
		return;
	f = bpf_map_lookup_elem(&whylate_functions, &fn);
	if (f)
		bpf_probe_read_user(&f->caller, sizeof(f->caller), (void *)sp);
}

/* At the first instruction, PUSH BP: the caller's address is on top of the stack. */
SEC("uprobe.multi")
int whylate_enter(struct pt_regs *regs)
{
	struct frame key = {.g = go_g(regs), .depth = depth(go_g(regs), go_sp(regs) - 8)};
	struct call call = {.since = bpf_ktime_get_ns(), .fn = go_first(regs)};
	struct counts *c = hit();
	if (!c)
		return 0;
	if (!bpf_map_lookup_elem(&whylate_functions, &call.fn))
		meet(call.fn, go_sp(regs));
	if (bpf_map_update_elem(&whylate_calls, &key, &call, BPF_ANY))
		add(&c->lost, 1);
	return 0;
}

/* At the CALL of runtime.exitsyscall. */
SEC("uprobe.multi")
int whylate_done(struct pt_regs *regs)
{
	struct frame key = {.g = go_g(regs), .depth = depth(go_g(regs), go_bp(regs))};
	struct counts *c = hit();
	struct call *call = bpf_map_lookup_elem(&whylate_calls, &key);
	struct function *f;
	__u64 ns, now;

	if (!c || !call)
		return 0;
	now = bpf_ktime_get_ns();
	ns = now - call->since;
	f = bpf_map_lookup_elem(&whylate_functions, &call->fn);
	if (f) {
		add(&f->calls, 1);
		add(&f->ns, ns);
		add(&f->slots[slot(ns)], 1);
		if (ns > f->max) { /* two at the same time: one of them */
			f->max = ns;
			f->goid = id_of(key.g);
			f->stack = stack_of(regs);
		}
	} else {
		add(&c->lost, 1);
	}
	if (wait_for_return)
		call->end = now;
	else
		bpf_map_delete_elem(&whylate_calls, &key);
	return 0;
}

/* At RET: what is on top of the stack is what was there in the beginning. */
SEC("uprobe.multi")
int whylate_back(struct pt_regs *regs)
{
	struct frame key = {.g = go_g(regs), .depth = depth(go_g(regs), go_sp(regs) - 8)};
	struct counts *c = hit();
	struct call *call = bpf_map_lookup_elem(&whylate_calls, &key);
	struct function *f;
	__u64 ns;

	if (!c || !call)
		return 0;
	f = bpf_map_lookup_elem(&whylate_functions, &call->fn);
	if (f && call->end) {
		ns = bpf_ktime_get_ns() - call->end;
		add(&f->backs, 1);
		add(&f->back_ns, ns);
		if (ns > f->back_max)
			f->back_max = ns;
	}
	bpf_map_delete_elem(&whylate_calls, &key);
	return 0;
}
