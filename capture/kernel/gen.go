package kernel

// The programs in the kernel come compiled: whoever uses this package needs no compiler.
// To compile them takes clang and llvm-strip (apt-get install clang llvm libbpf-dev); a
// test finds out whether that was forgotten.
//
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64,arm64 -no-global-types sched bpf/sched.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64,arm64 -no-global-types clock bpf/clock.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64,arm64 -no-global-types cgo bpf/cgo.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64,arm64 -no-global-types alloc bpf/alloc.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64,arm64 -no-global-types gosched bpf/gosched.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64,arm64 -no-global-types trap bpf/trap.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64,arm64 -no-global-types gc bpf/gc.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64,arm64 -no-global-types tcp bpf/tcp.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64,arm64 -no-global-types function bpf/func.bpf.c -- -mcpu=v3 -Wall -Werror
