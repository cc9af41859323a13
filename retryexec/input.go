package retryexec

import (
	"bytes"
	"io"
	"os"
	"os/exec"
)

// input is the standard input of one attempt.
type input struct {
	reader io.Reader // nil: no input
	seeker io.Seeker // the reader, if it can seek
	start  int64     // the position of the seeker before the attempt
	busy   bool      // the reader is in use

	// The goroutine that reads sets these.
	read bool // at least a byte was read
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
		return in // On some systems a seek of a terminal succeeds without effect.
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

// putBack lets the next attempt read the same input again. It returns false if
// the reader cannot be read again.
func (in *input) putBack() bool {
	switch {
	case in.busy:
		return false
	case in.seeker != nil:
		_, err := in.seeker.Seek(in.start, io.SeekStart)
		return err == nil
	case isFile(in.reader):
		return true // the command itself has read it, or nothing was read
	default:
		return !in.read
	}
}

func isRegular(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// isFile reports whether a command gets stream itself, or the null device, as
// its input or output.
func isFile(stream any) bool {
	_, ok := stream.(*os.File)
	return ok || stream == nil
}

// same reports whether a and b are the same reader or writer.
func same(a, b any) (yes bool) {
	defer func() { _ = recover() }() // the type may not be comparable
	return a != nil && a == b
}
