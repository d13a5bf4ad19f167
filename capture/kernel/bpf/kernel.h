/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * The part of the kernel's types that the programs here use. Where a field is in the
 * running kernel is found when a program is loaded (CO-RE), so that only its name and
 * its type have to be right; what older kernels name otherwise has three underscores
 * in the name of its struct.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
enum { false, true };

/* linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,

	BPF_ANY = 0,
	BPF_NOEXIST = 1,

	BPF_F_NO_PREALLOC = 1 << 0,

	BPF_F_USER_STACK = 1 << 8,

	BPF_LOCAL_STORAGE_GET_F_CREATE = 1 << 0,

	BPF_RB_NO_WAKEUP = 1 << 0,
	BPF_RB_FORCE_WAKEUP = 1 << 1,
	BPF_RB_AVAIL_DATA = 0,
};

/* linux/sched.h */
enum {
	TASK_UNINTERRUPTIBLE = 0x2,
	TASK_NOLOAD = 0x400,
};

/* linux/socket.h, net/tcp_states.h */
enum {
	AF_INET = 2,
	AF_INET6 = 10,

	TCP_SYN_SENT = 2,
	TCP_TIME_WAIT = 6,
	TCP_NEW_SYN_RECV = 12,
};

/* linux/time.h */
enum {
	CLOCK_MONOTONIC = 1, /* 0 is CLOCK_REALTIME */
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct cfs_rq {
	int throttle_count; /* with CONFIG_CFS_BANDWIDTH */
};

struct sched_entity {
	struct cfs_rq *cfs_rq; /* with CONFIG_FAIR_GROUP_SCHED */
};

struct task_struct {
	unsigned int __state; /* since 5.14 */
	struct sched_entity se;
	int pid;
	int tgid;
	struct pid *thread_pid;
	unsigned in_iowait : 1;
	bool throttled; /* since 6.18, with CONFIG_CFS_BANDWIDTH */
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	__u8 in6_u[16];
};

struct sock_common {
	__be32 skc_daddr, skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
};

struct sk_buff {
	char cb[48];
};

struct tcp_skb_cb { /* in there */
	struct {
		__u16 tcp_gso_segs;
	};
};

struct request_sock {
	struct sock_common __req_common;
};

struct inode {
	unsigned long i_ino;
};

struct socket_alloc {
	struct inode vfs_inode;
};

struct task_struct___5_13 {
	long state;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r14;
	unsigned long bp;
	unsigned long bx;
	unsigned long ax;
	unsigned long cx;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long sp;
};
#define in_system_call(regs) ((__s32)(regs)->orig_ax)
#define first_argument(regs) ((__u32)(regs)->di)
#define CLOCK_GETTIME 228
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 orig_x0;
	__s32 syscallno;
};
#define in_system_call(regs) ((regs)->syscallno)
#define first_argument(regs) ((__u32)(regs)->orig_x0)
#define CLOCK_GETTIME 113
#else
#error "which register has the number of the system call?"
#endif

#pragma clang attribute pop
