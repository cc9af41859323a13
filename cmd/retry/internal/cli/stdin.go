package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
)

// input gives every run the standard input from its start.
type input struct {
	file  *os.File // which the runs read themselves; nil: they read nothing, or the spool
	start int64    // where in the file they begin
	seeks bool     // the file can be set back to there
	spool *spool   // what was read of a pipe or a socket
}

// openInput returns the input of the runs. With none, they read nothing.
func openInput(none bool) *input {
	info, err := os.Stdin.Stat()
	switch {
	case none || err != nil:
		return &input{}
	case info.Mode()&os.ModeCharDevice != 0:
		return &input{file: os.Stdin} // a terminal, or a device without content or without an end
	}
	// A file; and a folder, so that what reads it gets the error of that.
	if start, err := os.Stdin.Seek(0, io.SeekCurrent); err == nil {
		return &input{file: os.Stdin, start: start, seeks: true}
	}
	return &input{spool: newSpool(os.Stdin)}
}

// open returns what the next run reads, and a function for when the run has ended. stop is
// to end the run because its input has failed.
func (in *input) open(stop context.CancelFunc) (file *os.File, ended func() error, fault error) {
	switch {
	case in.spool != nil:
		return in.spool.open(stop)
	case in.seeks:
		// The run before it has moved the position, whether it has failed or not.
		if _, err := in.file.Seek(in.start, io.SeekStart); err != nil {
			return nil, nil, newFault("standard input cannot be set back to its start", err, "use a pipe")
		}
	}
	return in.file, func() error { return nil }, nil
}

// close removes what was kept.
func (in *input) close() {
	if in.spool != nil {
		in.spool.close()
	}
}

// spool keeps what was read from a source, so that every run reads the same from the
// start. It reads no more than the runs want, so that a run sees its input as it
// comes, and a source without an end does not fill the disk by itself.
type spool struct {
	source io.Reader

	mu      sync.Mutex
	changed sync.Cond
	wanted  int64 // up to here, some run wants to read
	kept    store
	err     error // of the source or the store; at the end of the source io.EOF
}

// newSpool returns a spool, whose goroutine lives until the source ends.
func newSpool(source io.Reader) *spool {
	s := &spool{source: source, kept: store{name: "stdin"}}
	s.changed.L = &s.mu
	go s.pump()
	return s
}

// pump reads the source as far as somebody wants.
func (s *spool) pump() {
	chunk := make([]byte, 64<<10)
	for {
		s.mu.Lock()
		for s.wanted <= s.kept.size {
			s.changed.Wait()
		}
		s.mu.Unlock()
		n, err := s.source.Read(chunk) // may take as long as it likes
		s.mu.Lock()
		if err != nil && !errors.Is(err, io.EOF) {
			err = newFault("standard input cannot be read to its end", err, "the command was told to end")
		}
		if _, keepErr := s.kept.Write(chunk[:n]); keepErr != nil {
			err = newFault("standard input cannot be kept for the next run", keepErr, roomAdvice+", or use --no-stdin")
		}
		s.err = err
		s.changed.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// close removes what was kept. Nothing may be read after it.
func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.close()
}

// open returns a pipe with the content from the beginning, for a run. In contrast to a
// process that reads from a reader, nobody waits for more input once the process has
// ended.
func (s *spool) open(stop context.CancelFunc) (*os.File, func() error, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, nil, newFault("standard input cannot be passed on", err, "close files, or raise the limit of open files")
	}
	f := &feed{spool: s}
	fed := make(chan error, 1)
	go func() {
		err := f.copyTo(in)
		if err == nil {
			_ = in.Close()
		} else {
			stop() // The pipe stays open: a run must not take a part of its input for all of it.
		}
		fed <- err
	}()
	return out, func() error {
		f.end()
		_ = out.Close()
		_ = in.Close()
		return <-fed
	}, nil
}

// feed reads a spool for one run.
type feed struct {
	spool  *spool
	offset int64
	ended  bool // the run has; behind the lock of the spool
}

// end lets copyTo return, however long the source is silent.
func (f *feed) end() {
	f.spool.mu.Lock()
	defer f.spool.mu.Unlock()
	f.ended = true
	f.spool.changed.Broadcast()
}

// copyTo passes the content on until it ends, or nobody wants to read it any more. It
// returns why the content cannot be had.
func (f *feed) copyTo(w io.Writer) error {
	chunk := make([]byte, 32<<10)
	for {
		n, err := f.Read(chunk)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(chunk[:n]); err != nil {
			return nil //nolint:nilerr // a run need not read all of its input
		}
	}
}

// Read waits until there is something at its place.
func (f *feed) Read(p []byte) (int, error) {
	s := f.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	for f.offset >= s.kept.size && !f.ended && s.err == nil {
		s.wanted = max(s.wanted, f.offset+1)
		s.changed.Broadcast()
		s.changed.Wait()
	}
	switch {
	case f.ended:
		return 0, io.EOF
	case f.offset >= s.kept.size:
		return 0, s.err
	}
	n, err := s.kept.readAt(p, f.offset)
	f.offset += int64(n)
	if err != nil {
		return n, newFault("standard input cannot be read again", err, roomAdvice)
	}
	return n, nil
}
