// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
/*
 * What TCP sends again, and what ends with a reset, by connection of one network
 * namespace. Whose connection it is the kernel does not know here: its socket is told.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Some of the kernel's functions are for licences compatible with the GPL. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 network = 0; /* the inode of the namespace */

struct connection {
	__u8 local[16], remote[16]; /* of IPv4 the first four bytes */
	__u16 local_port, remote_port;
	__u32 family;
};

enum { LAST = 16 }; /* events.MaxInstants */

struct trouble {
	__u64 socket; /* its inode, 0 if the process has closed it */
	__u64 again;  /* segments sent again */
	__u64 syns;   /* and beginnings */
	__u64 sent, got; /* resets */
	__u64 times;	 /* that something of again and syns was sent */
	__u64 at[LAST];	 /* the last of these, in turn, CLOCK_MONOTONIC */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* the reader says how many */
	__type(key, struct connection);
	__type(value, struct trouble);
} whylate_connections SEC(".maps");

/* Events for which there was no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} whylate_lost SEC(".maps");

enum kind { AGAIN, SYN, SENT, GOT };

static __always_inline __u64 inode(struct sock *sk)
{
	__u8 state = BPF_CORE_READ(sk, __sk_common.skc_state);
	struct socket *socket;
	unsigned long ino = 0;

	if (state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV)
		return 0; /* less than a struct sock */
	socket = BPF_CORE_READ(sk, sk_socket);
	/* A socket lies at the beginning of its struct socket_alloc. */
	if (socket)
		bpf_probe_read_kernel(&ino, sizeof(ino), (void *)socket + bpf_core_field_offset(struct socket_alloc, vfs_inode) + bpf_core_field_offset(struct inode, i_ino));
	return ino;
}

static __always_inline int happened(struct sock *sk, struct sock_common *on, enum kind kind, __u32 n)
{
	struct trouble nothing = {}, *t;
	struct connection c = {};
	__u32 zero = 0;
	__u64 *lost, ino;

	if (BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum) != network)
		return 0;
	c.family = BPF_CORE_READ(on, skc_family);
	c.local_port = BPF_CORE_READ(on, skc_num);
	c.remote_port = __builtin_bswap16(BPF_CORE_READ(on, skc_dport));
	if (c.family == AF_INET6 && bpf_core_field_exists(on->skc_v6_daddr)) { /* with CONFIG_IPV6 */
		BPF_CORE_READ_INTO(&c.local, on, skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&c.remote, on, skc_v6_daddr);
	} else {
		*(__u32 *)c.local = BPF_CORE_READ(on, skc_rcv_saddr);
		*(__u32 *)c.remote = BPF_CORE_READ(on, skc_daddr);
	}
	bpf_map_update_elem(&whylate_connections, &c, &nothing, BPF_NOEXIST);
	t = bpf_map_lookup_elem(&whylate_connections, &c);
	if (!t) {
		lost = bpf_map_lookup_elem(&whylate_lost, &zero);
		if (lost)
			__sync_fetch_and_add(lost, 1);
		return 0;
	}
	ino = inode(sk);
	if (ino)
		t->socket = ino;
	if (kind == AGAIN || kind == SYN) /* the kernel holds the socket's lock */
		t->at[t->times++ % LAST] = bpf_ktime_get_ns();
	if (kind == AGAIN)
		__sync_fetch_and_add(&t->again, n);
	else if (kind == SYN)
		__sync_fetch_and_add(&t->syns, n);
	else if (kind == SENT)
		__sync_fetch_and_add(&t->sent, n);
	else
		__sync_fetch_and_add(&t->got, n);
	return 0;
}

/* segments is how many are in what is sent at once. */
static __always_inline __u32 segments(struct sk_buff *skb)
{
	__u16 n = 1;

	bpf_probe_read_kernel(&n, sizeof(n), (void *)skb + bpf_core_field_offset(struct sk_buff, cb) + bpf_core_field_offset(struct tcp_skb_cb, tcp_gso_segs));
	return n ? n : 1;
}

SEC("tp_btf/tcp_retransmit_skb")
int whylate_again(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	bool begins = BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_SYN_SENT;

	return happened(sk, &sk->__sk_common, begins ? SYN : AGAIN, segments((void *)ctx[1]));
}

/* The answer to a beginning; the socket is the one that listens. */
SEC("tp_btf/tcp_retransmit_synack")
int whylate_answer(__u64 *ctx)
{
	struct request_sock *request = (void *)ctx[1];

	return happened((void *)ctx[0], &request->__req_common, SYN, 1);
}

SEC("tp_btf/tcp_send_reset")
int whylate_sent(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];

	return sk ? happened(sk, &sk->__sk_common, SENT, 1) : 0; /* none: nobody listens */
}

SEC("tp_btf/tcp_receive_reset")
int whylate_got(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];

	return happened(sk, &sk->__sk_common, GOT, 1);
}
