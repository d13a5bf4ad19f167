package diagnose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/capture/symbols"
	"github.com/whylate/whylate/gotrace"
)

// sameFunctions is the part of a trace's calls that must stand where the executable has the
// function. The rest are wrappers, which the runtime leaves out of stacks. Another program may have
// much of the runtime at the same addresses, which the linker lays out first.
const sameFunctions = 0.9

// localWriter returns the process that listens at addr, if it is the one that writes the traces of
// an endpoint.
func localWriter(ctx context.Context, c *pprofhttp.Client, addr string) (int, error) {
	pid, err := host.OnlyListenerPID(addr)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoCommandLine, err)
	}
	err = wrote(ctx, pid, c)
	if err == nil || errors.Is(err, host.ErrOtherProcess) {
		return pid, err
	}
	return 0, fmt.Errorf("%w: %w", errNoCommandLine, err)
}

// wrote checks that a process writes the traces of an endpoint that does not serve its
// command line: a port may be a proxy's. Its threads alone do not tell: in pid namespaces of their
// own a service and the proxy before it both count them from 1. So the functions in the trace must
// also be where the process's executable has them. The error wraps host.ErrOtherProcess if they
// are not.
func wrote(ctx context.Context, pid int, c *pprofhttp.Client) error {
	trace, err := c.Glimpse(ctx)
	if err != nil {
		return err
	}
	threads, stacks, err := writer(trace)
	if err != nil {
		return fmt.Errorf("find out who writes the traces: %w", err)
	}
	if err := host.SameThreads(pid, threads); err != nil {
		return err
	}
	binary, err := symbols.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return fmt.Errorf("compare the functions: %w", err)
	}
	bias, err := symbols.Bias(pid, binary)
	if err != nil {
		return fmt.Errorf("compare the functions: %w", err)
	}
	n, of := inPlace(binary, bias, stacks)
	if of == 0 || float64(n) < sameFunctions*float64(of) {
		return fmt.Errorf("process %d, which listens there, has %d of %d functions of the target where they are (it forwards the port?): %w", pid, n, of, host.ErrOtherProcess)
	}
	return nil
}

// writer returns the threads and the stacks of a trace.
func writer(trace []byte) (threads []int, stacks *gotrace.Stacks, err error) {
	r, err := gotrace.NewReader(bytes.NewReader(trace))
	if err != nil {
		return nil, nil, err
	}
	seen := map[gotrace.ThreadID]bool{}
	var ev gotrace.Event
	for err = r.Next(&ev); err == nil; err = r.Next(&ev) {
		if ev.M != gotrace.NoThread && !seen[ev.M] {
			seen[ev.M] = true
			threads = append(threads, int(ev.M))
		}
	}
	if err != io.EOF {
		return nil, nil, err
	}
	return threads, r.Stacks(), nil
}

// inPlace counts the different places of stacks, and those of them that an executable has in the
// function that the stack says, or in one that it is inlined in.
func inPlace(b *symbols.Binary, bias uint64, stacks *gotrace.Stacks) (n, of int) {
	seen := map[uint64]bool{}
	for id := range stacks.Len() {
		frames := stacks.Frames(gotrace.StackID(id))
		for i, f := range frames {
			if f.Func == "" || seen[f.PC] {
				continue
			}
			seen[f.PC] = true
			of++
			fn, ok := b.At(f.PC - bias)
			name := generic(fn.Name)
			if ok && slices.ContainsFunc(frames[i:], func(outer gotrace.Frame) bool { return generic(outer.Func) == name }) {
				n++
			}
		}
	}
	return n, of
}

// generic is the name of a function without what it is instantiated with, of which stacks show
// nothing.
func generic(name string) string {
	from, to := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if from < 0 || to < from {
		return name
	}
	return name[:from] + name[to+1:]
}
