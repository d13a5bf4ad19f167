// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
/* How often Go's garbage collector marks, and for how long. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "golang.h"

/* Some of the kernel's functions are for licences compatible with the GPL. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* There is one collection at a time. Times are ns. */
struct cycles {
	__u64 since; /* of the one that marks, 0 if none does */
	__u64 n, ns, max;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cycles);
} whylate_cycles SEC(".maps");

static __always_inline struct cycles *cycles(void)
{
	__u32 zero = 0;

	return hit() ? bpf_map_lookup_elem(&whylate_cycles, &zero) : 0;
}

/* In runtime.(*gcControllerState).startCycle. */
SEC("uprobe.multi")
int whylate_begin(struct pt_regs *regs)
{
	struct cycles *c = cycles();

	if (c)
		c->since = bpf_ktime_get_ns();
	return 0;
}

/* In runtime.gcMarkTermination. */
SEC("uprobe.multi")
int whylate_end(struct pt_regs *regs)
{
	struct cycles *c = cycles();
	__u64 ns;

	if (!c || !c->since)
		return 0;
	ns = bpf_ktime_get_ns() - c->since;
	c->since = 0;
	++c->n;
	c->ns += ns;
	if (ns > c->max)
		c->max = ns;
	return 0;
}
