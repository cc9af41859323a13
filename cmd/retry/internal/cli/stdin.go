package cli

import (
	"io"
	"os"
	"sync"
)

// input returns what a run reads, nil for nothing, and a function for after the run.
type input func() (file *os.File, release func(), err error)

// openStdin returns the input of the runs, and what cleans up after all of them.
func openStdin(none bool) (in input, cleanup func()) {
	nothing := func() {}
	info, err := os.Stdin.Stat()
	switch {
	case none || err != nil:
		return func() (*os.File, func(), error) { return nil, nothing, nil }, nothing
	case info.Mode().IsRegular() || info.Mode()&os.ModeCharDevice != 0:
		// retryexec puts a file back to its start. The other one is a terminal, or
		// has no content.
		return func() (*os.File, func(), error) { return os.Stdin, nothing, nil }, nothing
	default:
		s := newSpool(os.Stdin)
		return s.pipe, s.close
	}
}

// inMemory is how much of the standard input is kept in memory. The rest goes to a
// temporary file.
const inMemory = 8 << 20

// spool keeps what was read from a source, so that every run reads the same from the
// start. It reads no more than the runs want, so that a run sees its input as it
// comes, and a source without an end does not fill the disk by itself.
type spool struct {
	source io.Reader

	mu      sync.Mutex
	changed sync.Cond
	wanted  int64 // up to here, some run wants to read
	size    int64 // what was read
	memory  []byte
	file    *os.File // what does not fit in the memory
	err     error    // of the source, at its end io.EOF
}

// newSpool returns a spool, whose goroutine lives until the source ends.
func newSpool(source io.Reader) *spool {
	s := &spool{source: source}
	s.changed.L = &s.mu
	go s.pump()
	return s
}

// reader returns a reader that starts at the beginning.
func (s *spool) reader() io.Reader { return &spoolReader{spool: s} }

// pipe returns a pipe with the content from the beginning. If the process ends before the
// input does, nobody waits for more input, in contrast to a process that reads
// from a reader.
func (s *spool) pipe() (*os.File, func(), error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	go func() {
		_, _ = io.Copy(in, s.reader()) // the process may end before it has read all
		_ = in.Close()
	}()
	return out, func() {
		_ = out.Close()
		_ = in.Close()
	}, nil
}

// pump reads the source as far as somebody wants.
func (s *spool) pump() {
	chunk := make([]byte, 64<<10)
	for {
		s.mu.Lock()
		for s.wanted <= s.size {
			s.changed.Wait()
		}
		s.mu.Unlock()
		n, err := s.source.Read(chunk) // may take as long as it likes
		s.mu.Lock()
		if keepErr := s.keep(chunk[:n]); keepErr != nil {
			err = keepErr
		}
		s.err = err
		s.changed.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// keep adds what was read.
func (s *spool) keep(data []byte) error {
	fits := min(len(data), inMemory-len(s.memory))
	s.memory = append(s.memory, data[:fits]...)
	if rest := data[fits:]; len(rest) > 0 {
		if s.file == nil {
			file, err := os.CreateTemp("", "retry-stdin-*")
			if err != nil {
				return err
			}
			_ = os.Remove(file.Name()) // it lives as long as it is open, where the system allows that
			s.file = file
		}
		if _, err := s.file.WriteAt(rest, s.size+int64(fits)-inMemory); err != nil {
			return err
		}
	}
	s.size += int64(len(data))
	return nil
}

// close removes the temporary file. Nothing may be read after it.
func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name()) // for systems that do not remove what is open
	}
}

type spoolReader struct {
	spool  *spool
	offset int64
}

// Read waits until there is something at its place.
func (r *spoolReader) Read(p []byte) (int, error) {
	s := r.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	for r.offset >= s.size {
		if s.err != nil {
			return 0, s.err
		}
		s.wanted = max(s.wanted, r.offset+1)
		s.changed.Broadcast()
		s.changed.Wait()
	}
	var n int
	var err error
	if r.offset < int64(len(s.memory)) {
		n = copy(p, s.memory[r.offset:])
	} else {
		n, err = s.file.ReadAt(p[:min(int64(len(p)), s.size-r.offset)], r.offset-inMemory)
	}
	r.offset += int64(n)
	return n, err
}
