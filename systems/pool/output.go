package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// lines writes whole lines, each after a label, so that lines of nodes that run at once do
// not mix: a line is one Write to out, which takes several at once, as an os.File does.
type lines struct {
	out   io.Writer
	label string
	rest  []byte // of a line that has not ended yet
	kept  []byte // what was written, as much as may fill the memory
}

const (
	longestLine = 64 << 10 // longer ones are broken
	mostKept    = 1 << 20
)

func (l *lines) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p[:min(len(p), mostKept-len(l.kept))]...)
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok && len(line) < longestLine {
			return len(p), nil
		}
		if _, err := fmt.Fprintf(l.out, "%s | %s\n", l.label, line); err != nil {
			return 0, err
		}
		l.rest = rest
	}
}

// end writes a last line that has no end.
func (l *lines) end() {
	if len(l.rest) > 0 {
		fmt.Fprintf(l.out, "%s | %s\n", l.label, l.rest)
		l.rest = nil
	}
}

// label is the name of a node as a column, on a terminal in a color that stays the same.
func label(name string, color bool) string {
	text := fmt.Sprintf("%-10s", name)
	if !color {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", 31+crc32.ChecksumIEEE([]byte(name))%6, text)
}

// isTerminal reports whether out is a terminal whose user wants colors.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
