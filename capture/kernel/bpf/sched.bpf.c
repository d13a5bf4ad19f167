// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
/*
 * One record for each time that a thread of one process had a CPU: how long it had it,
 * and how it had come to be off the CPU before. Everything is known when it leaves the
 * CPU again, so that there is one record and none has to be matched with another.
 *
 *	off                ready         in                     out
 *	 |<------------ gap ------------->|<-------- on -------->|
 *	 |                  |<-- queue -->|                      record
 *
 * A thread that was made to leave is ready at once; one that sleeps is when it is woken.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Some of the kernel's functions are for licences compatible with the GPL. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __s32 target = -1;	   /* the process, as the initial pid namespace sees it */
const volatile bool state_argument = true; /* sched_switch has the argument prev_state: since 5.18 */
const volatile bool task_throttled = true; /* to believe task_struct.throttled, if there is one */
const volatile __u64 much = 512 << 10;	   /* bytes in the buffer for which the reader is woken */

/* The flags are those of package events. */
enum { PREEMPTED = 1, THROTTLED = 2, UNINTERRUPTIBLE = 4, BLOCK_IO = 8 };

/* What the reader gets. Times are ns, out is CLOCK_MONOTONIC. */
struct stretch {
	__u64 out, on, off, queue;
	__s32 tid, nr;
	__u32 cpu, flags;
	__s32 behind, unused;
};

/* A thread that was seen. Instants and times are 0 if they are not known. */
struct thread {
	__u64 in;	   /* since when it has the CPU, 0 if it has none */
	__u64 off, ready;  /* since when it has none, and could use one */
	__u64 gap, queue;  /* from off and from ready to in */
	__s32 pid, tid;	   /* its id in the initial namespace and in its own */
	__s32 nr;	   /* of off: the system call */
	__u32 flags;	   /* of off */
	__s32 behind;	   /* the process that had the CPU until in, 0 if none had */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} whylate_threads SEC(".maps");

/* Stretches go to the reader some at a time: to do so takes as long as all the rest. */
enum { BATCH = 16 };
#define OLD 50000000 /* ns after which a CPU's next stretch takes those before it along */

/* What a CPU has not sent yet; sched_switch runs with interrupts off. */
struct batch {
	__u32 n, unused;
	struct stretch of[BATCH];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct batch);
} whylate_batch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} whylate_events SEC(".maps");

/* How many stretches could not be told. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} whylate_lost SEC(".maps");

static __always_inline void lose(__u32 stretches)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&whylate_lost, &zero);

	if (n)
		*n += stretches;
}

/*
 * own_id is the thread's id as the process itself sees it: pid namespaces lie in each
 * other, and the innermost one's number is the last. 0 if the thread is as good as gone.
 */
static __always_inline __s32 own_id(struct task_struct *p)
{
	struct pid *pid = p->thread_pid;
	__u32 at;
	__s32 nr = 0;

	if (!pid)
		return 0;
	at = bpf_core_field_offset(struct pid, numbers) + pid->level * bpf_core_type_size(struct upid);
	bpf_probe_read_kernel(&nr, sizeof(nr), (void *)pid + at + bpf_core_field_offset(struct upid, nr));
	return nr;
}

/* seen is what is known of a thread; to make that takes memory. */
static __always_inline struct thread *seen(struct task_struct *p, __u64 create)
{
	struct thread *t = bpf_task_storage_get(&whylate_threads, p, 0, create);

	/* A thread that calls exec takes over the ids of the process. */
	if (t && t->pid != p->pid) {
		t->pid = p->pid;
		t->tid = own_id(p);
	}
	return t;
}

/*
 * throttled is whether the thread may not run because a quota of its cgroup is used up.
 * Since 6.18 a thread is stopped only on its way back to user space, and says so itself.
 * Before, the queue that it is in was stopped with all that is in there.
 */
static __always_inline bool throttled(struct task_struct *p)
{
	if (task_throttled && bpf_core_field_exists(p->throttled))
		return p->throttled;
	if (bpf_core_field_exists(p->se.cfs_rq) && bpf_core_field_exists(struct cfs_rq, throttle_count))
		return p->se.cfs_rq->throttle_count > 0;
	return false;
}

static __always_inline __u32 state(__u64 *ctx, struct task_struct *prev)
{
	struct task_struct___5_13 *old = (void *)prev;

	if (state_argument)
		return ctx[3];
	if (bpf_core_field_exists(old->state))
		return old->state;
	return prev->__state;
}

static __always_inline void send(struct batch *b)
{
	__u64 wake = bpf_ringbuf_query(&whylate_events, BPF_RB_AVAIL_DATA) >= much ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
	__u32 n = b->n;

	if (n > BATCH)
		n = BATCH;
	if (bpf_ringbuf_output(&whylate_events, b->of, n * sizeof(b->of[0]), wake))
		lose(n);
	b->n = 0;
}

static __always_inline void tell(struct thread *t, __u64 now)
{
	struct stretch *s;
	struct batch *b;
	__u32 zero = 0;

	b = bpf_map_lookup_elem(&whylate_batch, &zero);
	if (!b || !t->tid || b->n >= BATCH) {
		lose(1);
		return;
	}
	s = &b->of[b->n];
	s->out = now;
	s->on = t->in ? now - t->in : 0;
	s->off = t->gap;
	s->queue = t->gap ? t->queue : 0;
	s->flags = t->gap ? t->flags : 0;
	s->nr = t->gap ? t->nr : -1;
	s->tid = t->tid;
	s->behind = t->gap && t->queue ? t->behind : 0;
	s->unused = 0;
	s->cpu = bpf_get_smp_processor_id();
	if (++b->n == BATCH || now - b->of[0].out > OLD)
		send(b);
}

static __always_inline void leave(struct task_struct *task, bool runnable, __u32 state, __u64 now)
{
	struct thread *t = seen(task, 0);
	struct pt_regs *regs;

	if (!t) {
		lose(1);
		return;
	}
	tell(t, now);
	t->in = t->gap = t->queue = 0;
	t->off = now;
	t->ready = runnable ? now : 0;
	t->flags = 0;
	if (runnable) {
		t->flags = PREEMPTED | (throttled(task) ? THROTTLED : 0);
	} else {
		if ((state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) == TASK_UNINTERRUPTIBLE)
			t->flags |= UNINTERRUPTIBLE;
		if (BPF_CORE_READ_BITFIELD(task, in_iowait))
			t->flags |= BLOCK_IO;
	}
	/* -1 if the thread is in the kernel for a fault or an interrupt. */
	regs = (void *)bpf_task_pt_regs(task);
	t->nr = in_system_call(regs);
}

static __always_inline void enter(struct task_struct *p, struct task_struct *prev, __u64 now)
{
	struct thread *t = seen(p, 0);

	if (!t)
		return;
	t->gap = t->off ? now - t->off : 0;
	t->queue = t->ready ? now - t->ready : 0;
	t->off = t->ready = 0;
	t->in = now;
	t->behind = prev->tgid;
}

/*
 * Threads are made known where no run queue is locked: to allocate memory there may wake a
 * thread, which takes such a lock. First those that there are, of which this is called for
 * each once.
 */
SEC("iter/task")
int whylate_known(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[1];

	if (p && p->tgid == target)
		seen(p, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

/* And those that begin. */
SEC("tp_btf/sched_process_fork")
int whylate_fork(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[1];

	if (p->tgid == target)
		seen(p, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

SEC("tp_btf/sched_switch")
int whylate_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	bool out = prev->tgid == target, in = next->tgid == target;
	__u64 now;

	if (!out && !in)
		return 0;
	now = bpf_ktime_get_ns();
	if (out) {
		__u32 was = state(ctx, prev);

		/* Who is preempted on its way to sleep (ctx[0]) did not get there. */
		leave(prev, ctx[0] || !was, was, now);
	}
	if (in)
		enter(next, prev, now);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int whylate_wakeup(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct thread *t;

	if (p->tgid != target)
		return 0;
	t = bpf_task_storage_get(&whylate_threads, p, 0, 0);
	/* One that has a CPU, or that was not seen yet, is not made ready now. */
	if (!t || !t->off)
		return 0;
	if (!t->ready)
		t->ready = bpf_ktime_get_ns();
	if (throttled(p))
		t->flags |= THROTTLED;
	return 0;
}

/* A thread has been off the CPU for as long as it exists. */
SEC("tp_btf/sched_wakeup_new")
int whylate_new(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct thread *t;

	if (p->tgid != target)
		return 0;
	t = seen(p, 0);
	if (!t)
		return 0;
	t->off = t->ready = bpf_ktime_get_ns();
	t->nr = -1;
	return 0;
}
