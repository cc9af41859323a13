package retryexec

import (
	"io"
	"os/exec"
)

// tailSize is how much of the end of standard error is kept and looked at.
const tailSize = 8 << 10

// tail is a writer that passes on what is written and keeps the end of it.
type tail struct {
	next io.Writer // nil: nowhere
	kept []byte    // up to twice what is asked for, so that it moves rarely
}

// keepTail puts a tail between cmd and its standard error.
func keepTail(cmd *exec.Cmd) *tail {
	t := &tail{next: cmd.Stderr}
	if same(cmd.Stdout, cmd.Stderr) {
		// os/exec gives the command one pipe then. With two, the writer would be
		// called from two goroutines at once.
		cmd.Stdout = t
	}
	cmd.Stderr = t
	return t
}

// same reports whether both are one writer that os/exec would copy to.
func same(stdout, stderr io.Writer) (yes bool) {
	defer func() { _ = recover() }() // of a type that cannot be compared
	return !isFile(stderr) && stdout == stderr
}

// Write keeps p before it passes it on: a writer that fails is no reason to lose
// it.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(len(p)-tailSize, 0):]...)
	if len(t.kept) >= 2*tailSize {
		t.kept = append(t.kept[:0], t.bytes()...)
	}
	if t.next == nil {
		return len(p), nil
	}
	return t.next.Write(p)
}

// bytes returns the last 8 KiB.
func (t *tail) bytes() []byte { return t.kept[max(len(t.kept)-tailSize, 0):] }
