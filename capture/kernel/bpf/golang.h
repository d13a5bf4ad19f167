/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * What programs share that run where functions of a Go process are. The registers are
 * those of Go's calling convention (ABIInternal, src/cmd/compile/abi-internal.md): the
 * first three integers that a function is given, and the goroutine that calls it.
 */
#pragma once
#include "stacks.h"

#if defined(__TARGET_ARCH_x86)
#define go_first(regs) ((__u64)(regs)->ax)
#define go_second(regs) ((__u64)(regs)->bx)
#define go_third(regs) ((__u64)(regs)->cx)
#define go_g(regs) ((__u64)(regs)->r14)
#define go_sp(regs) ((__u64)(regs)->sp)
#define go_bp(regs) ((__u64)(regs)->bp)
#elif defined(__TARGET_ARCH_arm64)
#define go_first(regs) ((regs)->regs[0])
#define go_second(regs) ((regs)->regs[1])
#define go_third(regs) ((regs)->regs[2])
#define go_g(regs) ((regs)->regs[28])
#define go_sp(regs) ((regs)->sp)
#define go_bp(regs) ((regs)->regs[29])
#endif

/* Slot i of a histogram counts times of 2^i ns and more, less than twice as much. */
#define SLOTS 40

const volatile __u64 goid = 152; /* where the id is in a runtime.g */

/* What was counted on one CPU. */
struct counts {
	__u64 hits; /* of all programs of the set */
	__u64 lost; /* events for which a table had no room */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} whylate_counts SEC(".maps");

static __always_inline void add(__u64 *to, __u64 n)
{
	__sync_fetch_and_add(to, n);
}

static __always_inline struct counts *hit(void)
{
	__u32 zero = 0;
	struct counts *c = bpf_map_lookup_elem(&whylate_counts, &zero);

	if (c)
		add(&c->hits, 1);
	return c;
}

static __always_inline __u64 id_of(__u64 g)
{
	__u64 id = 0;

	bpf_probe_read_user(&id, sizeof(id), (void *)(g + goid));
	return id;
}

/* depth is how far an address in the stack of a goroutine is from its beginning, wherever the
 * stack has moved meanwhile: a runtime.g begins with its lowest and its highest address. */
static __always_inline __u64 depth(__u64 g, __u64 sp)
{
	__u64 hi = 0;

	bpf_probe_read_user(&hi, sizeof(hi), (void *)(g + sizeof(hi)));
	return hi - sp;
}

static __always_inline __u32 slot(__u64 ns)
{
	__u32 i = 0;

#pragma unroll
	for (int w = 32; w > 0; w /= 2) {
		if (ns >> w) {
			ns >>= w;
			i += w;
		}
	}
	return i < SLOTS ? i : SLOTS - 1;
}
