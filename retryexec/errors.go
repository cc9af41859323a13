package retryexec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"unicode"

	"github.com/seed-5ff3c98e/retry"
)

var (
	errNoFactory = retry.MarkFinal(errors.New("retryexec: newCmd is nil"))
	errNoCmd     = retry.MarkFinal(errors.New("retryexec: newCmd returned nil"))
	errStdoutSet = retry.MarkFinal(errors.New("retryexec: Output needs Cmd.Stdout, which newCmd has set"))
)

// spentError returns the error of an attempt that is not made, because the
// attempt before it failed with last and consumed the input.
func spentError(last error) error {
	const reason = "Cmd.Stdin cannot be read twice: set it to a new reader for each attempt"
	return retry.Mark(fmt.Errorf("%w (not run again: %s)", last, reason),
		retry.Verdict{Class: retry.Final, Category: "stdin_spent"})
}

// startFailure returns the error of a command that could not be started.
func startFailure(cmd *exec.Cmd, err error) error {
	if _, statErr := os.Stat(cmd.Dir); cmd.Dir != "" && statErr != nil {
		// Package os tells these apart only for commands without a SysProcAttr.
		return &fs.PathError{Op: "chdir", Path: cmd.Dir, Err: errors.Unwrap(statErr)}
	}
	if classifySystem(err) == (retry.Verdict{}) {
		// os/exec refused, not the system: the Cmd is invalid.
		return retry.Mark(err, retry.Verdict{Class: retry.Final, NotApplied: true, Category: categoryStart})
	}
	return &startError{err}
}

// startError is the failure of a command that was not started, which proves that it had no
// effect: of its lookup, of a pipe for it, of fork or exec.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() }

func (e *startError) Unwrap() error { return e.err }

// ran returns the error of a command that was started and whose exit code does not tell the
// failure: an error of the caller's reader or writer, of Cmd.Cancel, or of the wait for the
// process.
func ran(err error) error {
	if _, marked := retry.Marked(err); err == nil || marked || errors.As(err, new(*retry.Error)) {
		return err // no classifier is asked
	}
	return &ranError{err}
}

// ranError is the error of a command that was started. It has no Unwrap: the reader of its
// input may have failed to dial, and a classifier would take that error as a proof that
// nothing happened.
type ranError struct{ err error }

func (e *ranError) Error() string { return e.err.Error() }

func (e *ranError) Is(target error) bool { return errors.Is(e.err, target) }

func (e *ranError) As(target any) bool { return errors.As(e.err, target) }

// exitError is the failure of a command that ran. Its text adds the reason to
// the exit status.
type exitError struct{ exit *exec.ExitError }

func (e *exitError) Error() string {
	reason := lastLine(string(e.exit.Stderr))
	if reason == "" {
		return e.exit.Error()
	}
	return e.exit.Error() + ": " + reason
}

func (e *exitError) Unwrap() error { return e.exit }

// timeoutError is the failure of an attempt that ended by its own timeout.
type timeoutError struct{ err error }

func (e *timeoutError) Error() string { return "attempt timed out: " + e.err.Error() }

func (e *timeoutError) Unwrap() error { return e.err }

func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout returns true. [retry.Classify] asks for it.
func (e *timeoutError) Timeout() bool { return true }

// maxLine is the largest number of bytes of the reason in the text of an error.
const maxLine = 500

const (
	bel = '\a'
	esc = '\x1b'
)

// clean returns the first and the last 8 KiB of s without terminal escape sequences and
// in lower case. Only ASCII letters are lowered, since phrases have no others.
func clean(s string) string {
	text := bothEnds(withoutEscapes(s))
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] += 'a' - 'A'
		}
	}
	return string(text)
}

// lastLine returns the last line of s that is not blank, as the reason of a
// failure: valid UTF-8, without control characters and line separators, and cut
// off if it is long.
func lastLine(s string) string {
	text := strings.TrimSpace(strings.Map(printable, string(withoutEscapes(s))))
	line := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if len(line) <= maxLine {
		return line
	}
	const cut = "…"
	return strings.ToValidUTF8(line[:maxLine-len(cut)], "") + cut // it may end within a character
}

// printable returns r, or its replacement in the text of an error. A carriage
// return ends a line too, because programs draw their progress with it.
func printable(r rune) rune {
	switch {
	case r == '\n', r == '\r':
		return '\n'
	case unicode.IsPrint(r): // so is U+FFFD, which replaces invalid UTF-8
		return r
	default:
		return ' '
	}
}

// withoutEscapes returns s without terminal escape sequences. It takes time in
// proportion to s.
func withoutEscapes(s string) []byte {
	text := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] == esc {
			i = afterEscape(s, i+1)
			continue
		}
		text = append(text, s[i])
		i++
	}
	return text
}

// afterEscape returns the index after the escape sequence whose ESC comes before
// i. An incomplete sequence ends where it breaks off, so that it hides no text
// after it.
//
// https://ecma-international.org/publications-and-standards/standards/ecma-48/
func afterEscape(s string, i int) int {
	if i == len(s) {
		return i
	}
	switch s[i] {
	case '[': // CSI, colors and cursor movements: parameters, intermediates, final
		i = skip(s, i+1, '0', '?')
		i = skip(s, i, ' ', '/')
		return skipOne(s, i, '@', '~')
	case ']', 'P', 'X', '^', '_': // OSC, titles and links; DCS, SOS, PM, APC
		return afterString(s, i+1)
	default: // intermediates and final
		i = skip(s, i, ' ', '/')
		return skipOne(s, i, '0', '~')
	}
}

// afterString returns the index after a control string, which ends with BEL or
// ST, that is ESC \. A line feed breaks it off.
func afterString(s string, i int) int {
	for ; i < len(s); i++ {
		switch s[i] {
		case bel:
			return i + 1
		case '\n', esc: // the \ of ST belongs to this ESC
			return i
		}
	}
	return i
}

// skip returns the index of the first byte from i on that is not in [lo, hi].
func skip(s string, i int, lo, hi byte) int {
	for i < len(s) && lo <= s[i] && s[i] <= hi {
		i++
	}
	return i
}

func skipOne(s string, i int, lo, hi byte) int {
	if i < len(s) && lo <= s[i] && s[i] <= hi {
		i++
	}
	return i
}
