package retryexec

import (
	"bytes"
	"io"
	"os/exec"
	"slices"
	"sync"
)

// tailSize is the number of bytes of the end of standard error that are kept
// and searched.
const tailSize = 8 << 10

// tail is a writer that passes its data on and keeps the end of it. It has a
// lock, because a writer that blocks may return after the attempt has ended.
type tail struct {
	next io.Writer // nil: nowhere
	mu   sync.Mutex
	kept []byte // up to twice tailSize, so that it is moved rarely
}

// keepTail puts a tail between cmd and its standard error.
func keepTail(cmd *exec.Cmd) *tail {
	t := &tail{next: cmd.Stderr}
	if same(cmd.Stdout, cmd.Stderr) && !isFile(cmd.Stderr) {
		// The command gets one pipe then. With two, the writer would be called
		// from two goroutines at once.
		cmd.Stdout = t
	}
	cmd.Stderr = t
	return t
}

// Write keeps p before it passes it on, so that p is not lost if the next writer
// fails.
func (t *tail) Write(p []byte) (int, error) {
	t.keep(p)
	if t.next == nil {
		return len(p), nil
	}
	return t.next.Write(p)
}

func (t *tail) keep(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(len(p)-tailSize, 0):]...)
	if len(t.kept) >= 2*tailSize {
		t.kept = append(t.kept[:0], t.end()...)
	}
}

// end returns the last 8 KiB.
func (t *tail) end() []byte { return t.kept[max(len(t.kept)-tailSize, 0):] }

// bytes returns a copy of the last 8 KiB.
func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.end())
}

// capture is a writer that keeps all its data. It has a lock for the same reason
// as tail.
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
