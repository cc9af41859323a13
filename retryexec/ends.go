package retryexec

import (
	"bytes"
	"io"
	"os/exec"
	"slices"
	"sync"
)

// endSize is the number of bytes of each end of standard error that are kept and searched.
// The cause is often the first line, before a long trace, and often the last.
const endSize = 8 << 10

// gap stands where bytes were left out between the two ends.
const gap = "\n[...]\n"

// bothEnds returns text if it is short, and else both ends of it.
func bothEnds(text []byte) []byte {
	if len(text) <= 2*endSize+len(gap) {
		return text
	}
	return slices.Concat(text[:endSize], []byte(gap), text[len(text)-endSize:])
}

// ends is a writer that passes its data on and keeps both ends of it. It has a
// lock, because a writer that blocks may return after the attempt has ended.
type ends struct {
	next io.Writer // nil: nowhere
	mu   sync.Mutex
	head []byte
	tail []byte // up to twice endSize, so that it is moved rarely
	size int64  // of all that was written
}

// keepEnds puts an ends between cmd and its standard error.
func keepEnds(cmd *exec.Cmd) *ends {
	e := &ends{next: cmd.Stderr}
	if same(cmd.Stdout, cmd.Stderr) && !isFile(cmd.Stderr) {
		// The command gets one pipe then. With two, the writer would be called
		// from two goroutines at once.
		cmd.Stdout = e
	}
	cmd.Stderr = e
	return e
}

// Write keeps p before it passes it on, so that p is not lost if the next writer
// fails.
func (e *ends) Write(p []byte) (int, error) {
	e.keep(p)
	if e.next == nil {
		return len(p), nil
	}
	return e.next.Write(p)
}

func (e *ends) keep(p []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.size += int64(len(p))
	n := min(len(p), endSize-len(e.head))
	e.head, p = append(e.head, p[:n]...), p[n:]
	e.tail = append(e.tail, p[max(len(p)-endSize, 0):]...)
	if len(e.tail) >= 2*endSize {
		e.tail = append(e.tail[:0], e.end()...)
	}
}

// end returns what is kept of the last 8 KiB.
func (e *ends) end() []byte { return e.tail[max(len(e.tail)-endSize, 0):] }

// bytes returns a copy of both ends.
func (e *ends) bytes() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.size <= 2*endSize {
		return slices.Concat(e.head, e.tail)
	}
	return slices.Concat(e.head, []byte(gap), e.end())
}

// capture is a writer that keeps all its data. It has a lock for the same reason
// as ends.
type capture struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Write(p)
}

// take returns the data.
func (c *capture) take() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Bytes()
}
