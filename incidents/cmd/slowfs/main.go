//go:build linux

// Command slowfs mounts a folder a second time, through FUSE, where some calls of
// fsync or open take longer: a disk that is slow now and then. Everything else passes
// through. It needs /dev/fuse and the right to mount, and unmounts when it is told
// to end or its parent has.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The kernel keeps the wish for a signal at the parent's end with the thread that
// asks. Only the main thread is sure to live as long as we do, and what the parent
// wished for before it started us stands there.
func init() { runtime.LockOSThread() }

func main() {
	delay := flag.Duration("delay", 60*time.Millisecond, "how much longer a slow call takes")
	share := flag.Float64("share", 0.05, "share of the fsyncs that are slow, 0 to 1, chosen at random")
	opens := flag.Float64("opens", 0, "share of the opens that are slow, 0 to 1, chosen at random")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: slowfs [-delay 60ms] [-share 0.05] [-opens 0] FOLDER MOUNTPOINT")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 || *delay < 0 || !(*share >= 0 && *share <= 1) || !(*opens >= 0 && *opens <= 1) {
		flag.Usage()
		os.Exit(2)
	}
	if err := serve(flag.Arg(0), flag.Arg(1), disk{*delay, *share, *opens}); err != nil {
		fmt.Fprintln(os.Stderr, "slowfs:", err)
		os.Exit(1)
	}
}

// disk is how slow some calls are.
type disk struct {
	delay time.Duration
	share float64 // of the fsyncs, 0 to 1
	opens float64 // share of the opens, 0 to 1
}

// wait is what a call of which that share is slow costs beside the real one.
func (d disk) wait(share float64) {
	if rand.Float64() < share {
		time.Sleep(d.delay)
	}
}

// node is a file or folder of the mounted folder.
type node struct {
	*fs.LoopbackNode
	disk
}

var (
	_ fs.NodeFsyncer = (*node)(nil)
	_ fs.NodeOpener  = (*node)(nil)
)

// WrapChild makes the children of a node slow as well.
func (n *node) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{ops.(*fs.LoopbackNode), n.disk}
}

// Fsync stands for fsync and fdatasync: the kernel sends both here.
func (n *node) Fsync(ctx context.Context, f fs.FileHandle, flags uint32) syscall.Errno {
	n.wait(n.share)
	if f, ok := f.(fs.FileFsyncer); ok {
		return f.Fsync(ctx, flags)
	}
	return 0
}

// Open is asked for existing files; the kernel makes new ones with Create.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	n.wait(n.opens)
	return n.LoopbackNode.Open(ctx, flags)
}

// serve mounts folder at mountpoint until a signal ends it.
func serve(folder, mountpoint string, d disk) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	// The parent's end is one more SIGTERM.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("asking for a signal at the parent's end: %w", err)
	}
	root, err := fs.NewLoopbackRoot(folder)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	server, err := fs.Mount(mountpoint, &node{root.(*fs.LoopbackNode), d}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: folder, Name: "slowfs"},
	})
	if err != nil {
		return fmt.Errorf("mounting %s at %s (needs /dev/fuse and CAP_SYS_ADMIN): %w", folder, mountpoint, err)
	}
	<-stop
	// Whoever has files open keeps them until we end: a plain unmount would fail,
	// and leave a mount behind that nobody serves.
	if err := unix.Unmount(mountpoint, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmounting %s: %w", mountpoint, err)
	}
	left := make(chan struct{})
	go func() { server.Wait(); close(left) }()
	select {
	case <-left:
	case <-time.After(time.Second):
	}
	return nil
}
