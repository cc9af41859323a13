package cli

import (
	"io"
	"os"
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
