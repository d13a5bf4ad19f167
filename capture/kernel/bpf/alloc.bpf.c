// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
/*
 * The allocations of which Go's runtime itself takes a sample, one in 512 KiB or what
 * runtime.MemProfileRate says: their sizes, by stack.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "golang.h"

/* Some of the kernel's functions are for licences compatible with the GPL. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct samples {
	__u64 n, bytes, max;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* stack_of */
	__type(value, struct samples);
} whylate_samples SEC(".maps");

/* In runtime.profilealloc(mp *m, x unsafe.Pointer, size uintptr). */
SEC("uprobe.multi")
int whylate_alloc(struct pt_regs *regs)
{
	struct samples first = {.n = 1, .bytes = go_third(regs), .max = go_third(regs)}, *s;
	struct counts *c = hit();
	__u64 stack;

	if (!c)
		return 0;
	stack = stack_of(regs);
	if (!bpf_map_update_elem(&whylate_samples, &stack, &first, BPF_NOEXIST))
		return 0;
	s = bpf_map_lookup_elem(&whylate_samples, &stack);
	if (!s) {
		add(&c->lost, 1);
		return 0;
	}
	add(&s->n, 1);
	add(&s->bytes, first.bytes);
	if (first.bytes > s->max)
		s->max = first.bytes;
	return 0;
}
