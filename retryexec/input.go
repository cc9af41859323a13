package retryexec

import (
	"bytes"
	"io"
	"os"
	"os/exec"
)

// input is the standard input of one attempt.
type input struct {
	reader io.Reader // nil: none
	seeker io.Seeker // the reader, if it can be put back
	start  int64     // where the attempt found the seeker
	busy   bool      // the reader is in use

	// The goroutine that reads sets these.
	read bool // something was read
	err  error
}

// openInput returns the input of cmd. A bytes.Buffer keeps its content: the
// command reads a copy of it.
func openInput(cmd *exec.Cmd) *input {
	if buffer, ok := cmd.Stdin.(*bytes.Buffer); ok {
		cmd.Stdin = bytes.NewReader(buffer.Bytes())
	}
	in := &input{reader: cmd.Stdin}
	if file, ok := in.reader.(*os.File); ok && !isRegular(file) {
		return in // Some systems let terminals seek, to no effect.
	}
	if seeker, ok := in.reader.(io.Seeker); ok {
		if start, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			in.seeker, in.start = seeker, start
		}
	}
	return in
}

// Read is for the goroutine that copies to the command.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.reader.Read(p)
	in.read = in.read || n > 0
	if err != io.EOF {
		in.err = err
	}
	return n, err
}

// putBack lets the next attempt read what this one did. It returns false if the
// reader cannot be read again.
func (in *input) putBack() bool {
	switch {
	case in.busy:
		return false
	case in.seeker != nil:
		_, err := in.seeker.Seek(in.start, io.SeekStart)
		return err == nil
	case isFile(in.reader):
		return true // the command itself has read it, or nothing of it
	default:
		return !in.read
	}
}

func isRegular(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// isFile reports whether a command gets stream itself as its input or output, or
// the null device.
func isFile(stream any) bool {
	_, ok := stream.(*os.File)
	return ok || stream == nil
}

// same reports whether both are one reader or one writer.
func same(a, b any) (yes bool) {
	defer func() { _ = recover() }() // of a type that cannot be compared
	return a != nil && a == b
}
