package gotrace

import (
	"encoding/binary"
	"iter"
)

// StackID names an interned stack of a [Stacks] table. Two ids of one table are
// equal exactly when their program counters are. 0 is the empty stack.
type StackID uint32

// Frame is one frame of a stack, the innermost first. Inlined calls have frames
// of their own.
type Frame struct {
	PC   uint64
	Func string // full name: import path, receiver, function
	File string
	Line int
}

// Stacks is an append-only table of interned stacks. A Reader fills it while it
// reads; it must not be read concurrently with the Reader.
type Stacks struct {
	frames [][]Frame
	byPCs  map[string]StackID
	buf    []byte
}

// NewStacks returns a table that holds only the empty stack.
func NewStacks() *Stacks {
	return &Stacks{frames: make([][]Frame, 1), byPCs: map[string]StackID{"": 0}}
}

// Len returns the number of stacks, the empty one included; ids are below it.
func (s *Stacks) Len() int { return len(s.frames) }

// Frames returns the frames of a stack, innermost first. The slice belongs to
// the table. Unknown ids have no frames.
func (s *Stacks) Frames(id StackID) []Frame {
	if int(id) >= len(s.frames) {
		return nil
	}
	return s.frames[id]
}

// Root returns the outermost function of a stack, or "".
func (s *Stacks) Root(id StackID) string {
	f := s.Frames(id)
	if len(f) == 0 {
		return ""
	}
	return f[len(f)-1].Func
}

// Intern returns the id of a stack given by its frames, innermost first.
func (s *Stacks) Intern(frames iter.Seq[Frame]) StackID {
	s.buf = s.buf[:0]
	var fs []Frame
	for f := range frames {
		// The line tells frames apart that are inlined at one pc.
		s.buf = binary.LittleEndian.AppendUint64(s.buf, f.PC)
		s.buf = binary.LittleEndian.AppendUint32(s.buf, uint32(f.Line))
		fs = append(fs, f)
		if len(fs) >= maxFrames {
			break
		}
	}
	if id, ok := s.byPCs[string(s.buf)]; ok {
		return id
	}
	id := StackID(len(s.frames))
	s.frames = append(s.frames, fs)
	s.byPCs[string(s.buf)] = id
	return id
}

// maxFrames bounds a stack; the runtime records at most 128 (traceStackSize).
const maxFrames = 256
