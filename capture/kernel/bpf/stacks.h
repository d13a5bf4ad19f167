/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * Stacks of a process, by number.
 */
#pragma once

#define FRAMES 64

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 4096);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, FRAMES * sizeof(__u64));
} whylate_stacks SEC(".maps");

#define EEXIST 17
#define WITHOUT_INNERMOST (1ULL << 32)

/*
 * The number of the stack plus one, 0 if it is not known. A stack has one place in the
 * map, by a hash of its addresses. Where another one is there, it is kept without the
 * innermost address, which the number says: that one has another place.
 */
static __always_inline __u64 stack_of(void *ctx)
{
	__s64 id = bpf_get_stackid(ctx, &whylate_stacks, BPF_F_USER_STACK);

	if (id >= 0)
		return id + 1;
	if (id != -EEXIST)
		return 0;
	id = bpf_get_stackid(ctx, &whylate_stacks, BPF_F_USER_STACK | 1);
	return id < 0 ? 0 : (id + 1) | WITHOUT_INNERMOST;
}
