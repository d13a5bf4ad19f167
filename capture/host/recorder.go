package host

import (
	"errors"
	"io"

	"github.com/whylate/whylate/evidence"
)

// What recording can fail with; errors wrap one of them or one of the operating
// system's.
var (
	// ErrUnsupported: host evidence is recorded on Linux only.
	ErrUnsupported = errors.New("host evidence is recorded on Linux only")
	// ErrNoProcess: there is no such process, or /proc hides it.
	ErrNoProcess = errors.New("no such process")
	// ErrOtherProcess: the process is not the one that was recorded.
	ErrOtherProcess = errors.New("not the recorded process")
	// ErrShared: several processes hold a socket.
	ErrShared = errors.New("which of them answers is not known")
	// ErrElsewhere: a process has a network namespace of its own, as in a container: where it listens cannot be reached from here.
	ErrElsewhere = errors.New("it runs in another network namespace")
	// ErrNotLocal: nothing on this machine listens there, or nothing is seen to.
	ErrNotLocal = errors.New("no local process is known to listen there")
)

// Options says where a recording goes.
type Options struct {
	// W takes host.jsonl. It is written to by one goroutine at a time until
	// Recorder.Stop returns.
	W io.Writer
	// MaxBytes bounds the file without its last line, which takes up to 2 MB; 0
	// means 48 MiB, which together is less than an incident takes of a member.
	MaxBytes int64
}

const defaultMaxBytes = 48 << 20

// Description is what can be known of a process at one glance.
type Description struct {
	// Target has Kind and URL empty. Its modules come from the build information
	// of the executable; the go line of the main module is not in there, but what follows
	// from it for GODEBUG is, as DefaultGODEBUG.
	Target evidence.Target
	Host   evidence.Host
	Static Static
	// NotGo is set if the executable was read and is no Go program.
	NotGo bool
}
