package cli

import (
	"io"
	"os"
	"sync"
)

// inMemory is how much a store keeps in memory.
const inMemory = 8 << 20

// store keeps the first bytes that are written to it in memory, and the others in a
// temporary file. So little needs no file, and much needs little memory.
type store struct {
	name   string // is part of the name of the file
	memory []byte
	file   *os.File
	size   int64
}

// Write implements [io.Writer].
func (s *store) Write(p []byte) (int, error) {
	fits := min(len(p), inMemory-len(s.memory))
	s.memory = append(s.memory, p[:fits]...)
	s.size += int64(fits)
	if fits == len(p) {
		return fits, nil
	}
	if s.file == nil {
		file, err := os.CreateTemp("", "retry-"+s.name+"-*")
		if err != nil {
			return fits, err
		}
		_ = os.Remove(file.Name()) // it lives as long as it is open, where the system allows that
		s.file = file
	}
	n, err := s.file.WriteAt(p[fits:], s.size-inMemory)
	s.size += int64(n)
	return fits + n, err
}

// readAt reads at least a byte of what was written behind offset.
func (s *store) readAt(p []byte, offset int64) (int, error) {
	if offset < int64(len(s.memory)) {
		return copy(p, s.memory[offset:]), nil
	}
	n, err := s.file.ReadAt(p[:min(int64(len(p)), s.size-offset)], offset-inMemory)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // somebody has cut the file
	}
	return n, err
}

// writeTo writes all of it.
func (s *store) writeTo(w io.Writer) error {
	chunk := make([]byte, 64<<10)
	for offset := int64(0); offset < s.size; {
		n, err := s.readAt(chunk, offset)
		if err != nil {
			return err
		}
		if _, err := w.Write(chunk[:n]); err != nil {
			return err
		}
		offset += int64(n)
	}
	return nil
}

// close removes the file. Nothing can be read after it.
func (s *store) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name()) // for systems that do not remove what is open
	}
}

// held is the standard output of one run, which is kept back.
type held struct {
	mu   sync.Mutex // a process that the run has left behind may still write
	kept store
	err  error // the first of the store: what it has is not all
}

func newHeld() *held { return &held{kept: store{name: "stdout"}} }

// Write implements [io.Writer].
func (h *held) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.kept.Write(p)
	if h.err == nil {
		h.err = err
	}
	return n, err
}

// fault returns why not all of the output could be kept.
func (h *held) fault() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// passOn writes the output, if there was a run.
func (h *held) passOn(w io.Writer) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept.writeTo(w)
}

// close removes what was kept.
func (h *held) close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept.close()
}
