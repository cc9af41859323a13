package retryexec

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pause is the time without output after which the output of a stopped command
// counts as ended, and the time for a copying goroutine to end without its pipe.
// The output of killed processes is in the pipe already, so only a process that
// survived can still hold it open.
const pause = 100 * time.Millisecond

// streams copy between a command and the readers and writers of its Cmd. os/exec
// would copy as well, but it waits forever for a reader or writer that blocks.
type streams struct {
	in      *input
	theirs  []*os.File // the ends of the pipes that the command gets
	ours    []*os.File // the other ends
	copies  []func() ending
	endings chan ending
	hurried atomic.Bool // an output ends when it pauses

	outputs int   // the number that have not ended
	err     error // the first
	cut     bool  // output may be missing
}

// ending is the end of one copy.
type ending struct {
	input bool
	err   error
	cut   bool
}

// connect replaces the readers and writers of cmd by pipes. The command uses files
// itself.
func (s *streams) connect(cmd *exec.Cmd) error {
	one := same(cmd.Stdout, cmd.Stderr) && !isFile(cmd.Stderr)
	if err := s.addInput(cmd); err != nil {
		return err
	}
	if err := s.addOutput(&cmd.Stdout); err != nil {
		return err
	}
	if one {
		cmd.Stderr = cmd.Stdout
		return nil
	}
	return s.addOutput(&cmd.Stderr)
}

func (s *streams) addInput(cmd *exec.Cmd) error {
	if isFile(cmd.Stdin) {
		return nil
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdin = theirs
	s.theirs, s.ours = append(s.theirs, theirs), append(s.ours, ours)
	s.copies = append(s.copies, func() ending {
		_, _ = io.Copy(ours, s.in) // a command that stops reading early has not failed
		end := ending{input: true, err: s.in.err}
		_ = ours.Close()
		return end
	})
	s.in.busy = true
	return nil
}

func (s *streams) addOutput(w *io.Writer) error {
	if isFile(*w) {
		return nil
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	to := struct{ io.Writer }{*w} // hides ReadFrom, which io.Copy would call
	*w = theirs
	s.theirs, s.ours = append(s.theirs, theirs), append(s.ours, ours)
	s.copies = append(s.copies, func() ending {
		from := &output{pipe: ours, hurried: &s.hurried}
		_, err := io.Copy(to, from)
		_ = ours.Close() // if the writer has failed, the command's next write fails too
		return ending{err: err, cut: from.cut}
	})
	s.outputs++
	return nil
}

// run starts the copying. The command has its ends of the pipes by now.
func (s *streams) run() {
	closeAll(s.theirs)
	s.endings = make(chan ending, len(s.copies))
	for _, c := range s.copies {
		go func() { s.endings <- c() }()
	}
}

// abort closes all pipes of a command that did not start.
func (s *streams) abort() {
	closeAll(s.theirs)
	closeAll(s.ours)
	s.in.busy = false
}

// finish waits until all is copied, after the process has ended, and returns the
// first error. When delay is over, it closes the pipes. When stopping is closed,
// it no longer waits for the input, nor for output that comes with a pause. A
// goroutine that is then still in a Read or Write of the caller is left alone.
func (s *streams) finish(stopping <-chan struct{}, delay time.Duration) error {
	limit := time.NewTimer(delay)
	defer limit.Stop()
	for over := false; !over && (s.outputs > 0 || s.in.busy && stopping != nil); {
		select {
		case e := <-s.endings:
			s.end(e)
		case <-stopping:
			stopping = nil
			s.hurry()
		case <-limit.C:
			over = true
		}
	}
	closeAll(s.ours)
	grace := time.NewTimer(pause)
	defer grace.Stop()
	for s.outputs > 0 || s.in.busy {
		select {
		case e := <-s.endings:
			s.end(e)
		case <-grace.C:
			return s.result()
		}
	}
	return s.result()
}

func (s *streams) end(e ending) {
	if e.input {
		s.in.busy = false
	} else {
		s.outputs--
	}
	if s.err == nil {
		s.err = e.err
	}
	s.cut = s.cut || e.cut
}

// hurry ends outputs that pause, where pipes can have deadlines.
func (s *streams) hurry() {
	s.hurried.Store(true)
	for _, pipe := range s.ours {
		_ = pipe.SetReadDeadline(time.Now().Add(pause))
	}
}

func (s *streams) result() error {
	if s.err == nil && (s.cut || s.outputs > 0) {
		return exec.ErrWaitDelay
	}
	return s.err
}

// output is the end of a pipe that a command writes to.
type output struct {
	pipe    *os.File
	hurried *atomic.Bool
	cut     bool // before the command has closed it
}

func (o *output) Read(p []byte) (int, error) {
	if o.hurried.Load() {
		_ = o.pipe.SetReadDeadline(time.Now().Add(pause))
	}
	n, err := o.pipe.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
		o.cut, err = true, io.EOF
	}
	return n, err
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

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
