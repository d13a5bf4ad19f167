// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
/* Next to nothing, to find out what it takes to get here from a function of a process. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

__u64 hits = 0;

SEC("uprobe.multi")
int whylate_trap(struct pt_regs *regs)
{
	__sync_fetch_and_add(&hits, 1);
	return 0;
}
