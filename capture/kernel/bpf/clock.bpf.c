// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
/*
 * How often the threads of one process read the clock by a system call, and how long the
 * kernel takes for it. Where a process can read the clock in its own memory (vDSO), it
 * makes none of these calls.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "stacks.h"

/* Some of the kernel's functions are for licences compatible with the GPL. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __s32 target = -1; /* the process, as the initial pid namespace sees it */

/* What was counted on one CPU. */
struct readings {
	__u64 runs;	      /* of both programs, for all processes */
	__u64 calls, ns, max; /* that ended, and what they took in all and at most */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct readings);
} whylate_readings SEC(".maps");

#define ONE_IN 32 /* calls of which the stack is taken */

/* How many calls came from a stack. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64); /* stack_of */
	__type(value, __u64);
} whylate_callers SEC(".maps");

/* Since when a thread reads the clock, 0 if it does not. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} whylate_since SEC(".maps");

static __always_inline struct readings *counted(void)
{
	__u32 zero = 0;
	struct readings *r = bpf_map_lookup_elem(&whylate_readings, &zero);

	if (r)
		++r->runs;
	return r;
}

static __always_inline void from(__u64 *ctx)
{
	__u64 stack = stack_of(ctx), one = 1, *n;

	n = bpf_map_lookup_elem(&whylate_callers, &stack);
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&whylate_callers, &stack, &one, BPF_ANY);
}

SEC("tp_btf/sys_enter")
int whylate_enter(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)ctx[0];
	struct readings *r = counted();
	__u64 *since;

	/* Other clocks than the wall's and the monotonic one may be system calls anywhere. */
	if (!r || task->tgid != target || ctx[1] != CLOCK_GETTIME || first_argument(regs) > CLOCK_MONOTONIC)
		return 0;
	since = bpf_task_storage_get(&whylate_since, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!since)
		return 0;
	if (r->calls % ONE_IN == 0)
		from(ctx);
	*since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int whylate_exit(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct readings *r = counted();
	__u64 *since, ns;

	if (!r || task->tgid != target)
		return 0;
	since = bpf_task_storage_get(&whylate_since, task, 0, 0);
	if (!since || !*since)
		return 0;
	ns = bpf_ktime_get_ns() - *since;
	*since = 0;
	++r->calls;
	r->ns += ns;
	if (ns > r->max)
		r->max = ns;
	return 0;
}
